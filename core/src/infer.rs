//! What kinds of values fields hold, seen over many events (the lattice of `calve.columns.node`, for what JSON can hold).

use crate::iso8601::{self, Stamp};
use crate::parse::{Fast, NeedsExact, Number, Parser};
use crate::text::{quote_byte, Keys, Text};
use crate::value;
use std::collections::HashMap;

/// Deeper objects and arrays are text (`column_names.NESTING_LIMIT`).
const NESTING_LIMIT: u32 = 16;
/// So many fields of a struct are kept, and half as many if they are null (`node._MOST_FIELDS`).
pub const MOST_FIELDS: usize = 2000;
/// With more fields a struct looks them up in a map.
const FEW: usize = 16;

/// Names without their case, of which each stands for a column, or for several: then only the exact converter knows.
pub type Folded = HashMap<Vec<u8>, Option<usize>>;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    #[default]
    Null,
    Boolean,
    Long,
    WideLong,
    Double,
    Digits,
    String,
    DateTime,
    LocalDateTime,
    Zones,
    Nanos,
    EmptyObject,
    Struct,
    EmptyArray,
    List,
    Mixed,
    /// A column that exists, by what it holds: nothing else is of interest of its values but fields without a column.
    KnownStruct,
    KnownList,
    KnownMap,
    Known,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Null => "null",
            Kind::Boolean => "boolean",
            Kind::Long => "long",
            Kind::WideLong => "wide long",
            Kind::Double => "double",
            Kind::Digits => "digits",
            Kind::String => "string",
            Kind::DateTime => "date-time",
            Kind::LocalDateTime => "local date-time",
            Kind::Zones => "zones",
            Kind::Nanos => "nanoseconds",
            Kind::EmptyObject => "{}",
            Kind::Struct => "struct",
            Kind::EmptyArray => "[]",
            Kind::List => "list",
            Kind::Mixed => "mixed",
            Kind::KnownStruct | Kind::KnownList | Kind::KnownMap | Kind::Known => "known",
        }
    }

    fn is_nested(self) -> bool {
        matches!(self, Kind::Struct | Kind::List)
    }

    fn is_known(self) -> bool {
        matches!(self, Kind::KnownStruct | Kind::KnownList | Kind::KnownMap | Kind::Known)
    }
}

/// The least kind that holds both.
fn join(one: Kind, other: Kind) -> Kind {
    use Kind::{
        DateTime, Digits, Double, EmptyArray, EmptyObject, List, LocalDateTime, Long, Mixed, Nanos, Null, String,
        Struct, WideLong, Zones,
    };
    match (one, other) {
        (Null, kind) | (kind, Null) => kind,
        (one, other) if one == other => one,
        (Long, WideLong) | (WideLong, Long) => WideLong,
        (Long, Double) | (Double, Long) => Double,
        (WideLong, Double) | (Double, WideLong) => Digits,
        (Digits, Long | WideLong | Double) | (Long | WideLong | Double, Digits) => Digits,
        (DateTime | LocalDateTime | Zones, DateTime | LocalDateTime | Zones) => Zones,
        (DateTime | LocalDateTime | Zones, Nanos) | (Nanos, DateTime | LocalDateTime | Zones) => Nanos,
        (DateTime | LocalDateTime | Zones | Nanos, String) | (String, DateTime | LocalDateTime | Zones | Nanos) => {
            String
        }
        (EmptyObject, Struct) | (Struct, EmptyObject) => Struct,
        (EmptyArray, List) | (List, EmptyArray) => List,
        _ => Mixed,
    }
}

fn number_kind(number: &Number) -> Kind {
    if !number.whole {
        return if value::survives_double(number) { Kind::Double } else { Kind::Digits };
    }
    if number.digits <= 15 {
        return Kind::Long;
    }
    match std::str::from_utf8(number.text).ok().and_then(|text| text.parse::<i64>().ok()) {
        None => Kind::Digits,
        Some(value) if (value as f64) as i128 == i128::from(value) => Kind::Long,
        Some(_) => Kind::WideLong,
    }
}

fn text_kind(text: &[u8]) -> Kind {
    match iso8601::stamp(text) {
        Some(stamp) if is_timestamp(&stamp) => match iso8601::units(stamp.fraction, 6) {
            Some(_) if stamp.has_zone => Kind::DateTime,
            Some(_) => Kind::LocalDateTime,
            None => Kind::Nanos,
        },
        _ => Kind::String,
    }
}

/// Whether a text is one of `kinds.TIMESTAMP`: an offset may not lead out of the years 1 to 9999.
fn is_timestamp(stamp: &Stamp) -> bool {
    stamp.has_time && (!stamp.has_offset || (2..=9998).contains(&stamp.year))
}

/// One field, and those below it: of a list and a map, its elements or values are the only one.
#[derive(Default)]
pub struct Node {
    pub kind: Kind,
    pub fields: Vec<(Vec<u8>, Node)>,
    index: HashMap<Vec<u8>, usize>,
    /// Names without their case, for columns (see `object_columns::Names`).
    folded: Option<Folded>,
    expected: usize,
    /// How many of the fields are columns.
    known: usize,
    /// How many objects were seen, and in which of those above it the field was met last.
    object: u64,
    met: u64,
    /// How many values were seen that are not null.
    count: u64,
}

/// Writes a kind with its fields as `Node.to_json` does, those of which `write` says that there is something. False: none.
pub fn write_fields<'a, T>(
    kind: Kind,
    out: &mut Vec<u8>,
    fields: impl Iterator<Item = (&'a [u8], T)>,
    write: impl Fn(T, &mut Vec<u8>) -> bool,
) -> bool {
    let before = out.len();
    out.extend(b"[\"");
    out.extend(kind.name().bytes());
    out.extend(b"\",[");
    let start = out.len();
    for (name, below) in fields {
        let here = out.len();
        out.extend(if here == start { b"[\"".as_slice() } else { b",[\"" });
        name.iter().for_each(|&byte| quote_byte(byte, out));
        out.extend(b"\",");
        if write(below, out) {
            out.push(b']');
        } else {
            out.truncate(here);
        }
    }
    if out.len() == start {
        out.truncate(before);
        return false;
    }
    out.extend(b"]]");
    true
}

/// What was seen of all events.
#[derive(Default)]
pub struct Seen {
    /// Whether a nested value and another one met in a field: what was inside is forgotten, also that it was seen.
    pub lost: bool,
}

impl Node {
    pub fn new(kind: Kind, fields: Vec<(Vec<u8>, Node)>, folded: Option<Folded>) -> Node {
        let mut node = Node { kind, folded, ..Node::default() };
        for (name, below) in fields {
            node.push(name, below);
        }
        node.known = node.fields.len();
        node
    }

    fn push(&mut self, name: Vec<u8>, node: Node) -> usize {
        let number = self.fields.len();
        self.index.insert(name.clone(), number);
        self.fields.push((name, node));
        number
    }

    fn note(&mut self, kind: Kind, seen: &mut Seen) {
        self.count += 1;
        let joined = join(self.kind, kind);
        if joined == Kind::Mixed && self.kind != Kind::Mixed {
            seen.lost |= self.kind.is_nested() || kind.is_nested();
            self.fields.clear();
            self.index.clear();
        }
        seen.lost |= joined == Kind::Mixed && kind.is_nested();
        self.kind = joined;
    }

    /// Takes what the next value tells; no object of the event repeats a key.
    pub fn observe(&mut self, parser: &mut Parser, seen: &mut Seen) -> Fast<()> {
        if self.kind.is_known() {
            return self.observe_known(parser, seen);
        }
        match parser.peek() {
            b'{' => self.observe_object(parser, seen),
            b'[' => self.observe_array(parser, seen),
            b'"' => {
                let kind = parser.string()?.with(text_kind)?;
                self.note(kind, seen);
                Ok(())
            }
            b't' | b'f' => {
                parser.skip()?;
                self.note(Kind::Boolean, seen);
                Ok(())
            }
            b'n' => parser.skip(),
            _ => {
                let number = parser.number()?;
                self.note(number_kind(&number), seen);
                Ok(())
            }
        }
    }

    fn observe_object(&mut self, parser: &mut Parser, seen: &mut Seen) -> Fast<()> {
        if parser.depth >= NESTING_LIMIT {
            parser.skip()?;
            self.note(Kind::String, seen);
            return Ok(());
        }
        let is_empty = {
            let mut ahead = Parser { bytes: parser.bytes, at: parser.at, depth: parser.depth };
            !ahead.open(b'}')?
        };
        self.note(if is_empty { Kind::EmptyObject } else { Kind::Struct }, seen);
        if self.kind == Kind::Mixed {
            return parser.skip();
        }
        self.fields_of(parser, seen)
    }

    fn observe_array(&mut self, parser: &mut Parser, seen: &mut Seen) -> Fast<()> {
        if parser.depth >= NESTING_LIMIT {
            parser.skip()?;
            self.note(Kind::String, seen);
            return Ok(());
        }
        if join(self.kind, Kind::EmptyArray) == Kind::Mixed {
            // what it holds is not needed, but that it was an array with something in it
            parser.skip()?;
            self.note(Kind::List, seen);
            return Ok(());
        }
        if self.fields.is_empty() {
            self.push(b"element".to_vec(), Node::default());
        }
        let element = &mut self.fields[0].1;
        parser.array(|parser| element.observe(parser, seen))?;
        let kind = if element.kind == Kind::Null { Kind::EmptyArray } else { Kind::List };
        self.note(kind, seen);
        Ok(())
    }

    fn observe_known(&mut self, parser: &mut Parser, seen: &mut Seen) -> Fast<()> {
        match (self.kind, parser.peek()) {
            (Kind::KnownStruct, b'{') => self.fields_of(parser, seen),
            (Kind::KnownList, b'[') => {
                let element = &mut self.fields[0].1;
                parser.array(|parser| element.observe(parser, seen))
            }
            (Kind::KnownMap, b'{') => {
                let (mut keys, value) = (Keys::default(), &mut self.fields[0].1);
                parser.object(|parser, key| {
                    if !keys.add(key)? {
                        return Err(NeedsExact);
                    }
                    value.observe(parser, seen)
                })
            }
            _ => parser.skip(),
        }
    }

    fn fields_of(&mut self, parser: &mut Parser, seen: &mut Seen) -> Fast<()> {
        self.begin();
        parser.object(|parser, key| self.field(parser, key, seen))
    }

    pub fn begin(&mut self) {
        self.expected = 0;
        self.object += 1;
    }

    pub fn field(&mut self, parser: &mut Parser, key: Text, seen: &mut Seen) -> Fast<()> {
        let number = match key.with(|name| self.find(name))?? {
            Some(number) => number,
            None => {
                let is_null = parser.peek() == b'n';
                if is_null && self.kind.is_known() {
                    return parser.skip(); // it becomes no column
                }
                let most = if is_null { MOST_FIELDS / 2 } else { MOST_FIELDS };
                if self.fields.len() - self.known >= most {
                    return parser.skip();
                }
                let mut name = Vec::new();
                key.write(&mut name)?;
                self.push(name, Node::default())
            }
        };
        self.expected = number + 1;
        let node = &mut self.fields[number].1;
        if node.met == self.object {
            return Err(NeedsExact); // the last one counts
        }
        node.met = self.object;
        node.observe(parser, seen)
    }

    /// The field of a name; it expects the one after the last.
    fn find(&self, name: &[u8]) -> Fast<Option<usize>> {
        if self.fields.get(self.expected).is_some_and(|(one, _)| one == name) {
            return Ok(Some(self.expected));
        }
        let found = if self.fields.len() > FEW {
            self.index.get(name).copied()
        } else {
            self.fields.iter().position(|(one, _)| one == name)
        };
        match (&self.folded, found) {
            (Some(_), None) if !name.is_ascii() => Err(NeedsExact),
            (Some(folded), None) => match folded.get(&name.to_ascii_lowercase()) {
                Some(None) => Err(NeedsExact),
                Some(found) => Ok(*found),
                None => Ok(None),
            },
            _ => Ok(found),
        }
    }

    /// Writes it as `Node.to_json` does; of columns that exist only those that hold others. False: there is nothing.
    pub fn write(&self, out: &mut Vec<u8>) -> bool {
        let is_nested = self.kind.is_nested() || self.kind.is_known();
        let fields = if is_nested { self.fields.as_slice() } else { &[] };
        let is_struct = matches!(self.kind, Kind::Struct | Kind::KnownStruct);
        let write = if is_struct { Node::write_counted } else { Node::write };
        let has_any = write_fields(self.kind, out, fields.iter().map(|(name, node)| (name.as_slice(), node)), write);
        if !has_any && !self.kind.is_known() {
            out.push(b'"');
            out.extend(self.kind.name().bytes());
            out.push(b'"');
            return true;
        }
        has_any
    }

    /// Writes it with its count, as the value of a field.
    pub fn write_counted(&self, out: &mut Vec<u8>) -> bool {
        let has_any = self.write(out);
        if has_any && !self.kind.is_known() {
            out.extend(format!(",{}", self.count).bytes());
        }
        has_any
    }

    /// Forgets what was seen; columns that exist stay.
    pub fn forget(&mut self) {
        if !self.kind.is_known() {
            *self = Node::default();
            return;
        }
        self.fields.retain(|(_, node)| node.kind.is_known());
        self.index = self.fields.iter().enumerate().map(|(number, (name, _))| (name.clone(), number)).collect();
        self.fields.iter_mut().for_each(|(_, node)| node.forget());
    }
}
