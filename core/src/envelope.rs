//! Envelopes of change streams into rows, operations and metadata; those that are not certainly right are left to the exact
//! decoder (`calve.event.envelope.exact`).

use crate::convert::Events;
use crate::export::{self, Array, Texts};
use crate::logical_type::LogicalType;
use crate::parse::{Fast, NeedsExact, Parser};
use crate::placeholder::Placeholder;
use crate::row::Row;
use crate::schemas::Schemas;
use crate::text::Text;
use std::rc::Rc;

/// The operations, by their numbers (`calve.event.envelope.core_spec.OPERATIONS`).
const INSERT: i32 = 0;
const UPDATE: i32 = 1;
const DELETE: i32 = 2;

/// What a field of an envelope holds.
pub enum Slot {
    /// The value with a number, which is kept as it is written.
    Value(usize),
    /// The row before the change, or the one after it.
    Before,
    After,
    /// Fields that are wanted; the number notes that it was met.
    Within(usize, Slots),
}

/// The fields that are wanted, by their names.
pub type Slots = Vec<(Vec<u8>, Slot)>;

/// What envelopes of a format look like.
pub struct Format {
    pub slots: Slots,
    /// How many values there are.
    pub values: usize,
    /// The number of the operation's value.
    pub operation: usize,
    /// What words of operations mean; None: the envelope is about no row.
    pub words: Vec<(Vec<u8>, Option<i32>)>,
    pub has_whole_before: bool,
    pub placeholder: Rc<Placeholder>,
    pub may_be_wrapped: bool,
    /// The payload itself is the row, and is inserted; there are no slots.
    pub is_plain: bool,
    /// The values that are wanted as metadata, and whether they are numbers.
    pub metadata: Vec<(usize, bool)>,
    /// Columns of keys; an update that changes one is left.
    pub keys: Vec<Vec<u8>>,
}

pub struct Envelopes {
    format: Format,
    schemas: Schemas,
}

/// What became of envelopes: the positions of those that were decoded; their rows, operations, numbers of schemas (-1: none) and
/// metadata; the positions of those that are about no row; schemas that are to be learnt.
pub struct Decoded {
    pub rows: Array,
    pub texts: Array,
    pub operations: Array,
    pub schemas: Array,
    pub metadata: Array,
    pub silent: Array,
    pub unknown: Array,
}

/// What one envelope holds.
struct Found<'a> {
    values: Vec<Option<&'a [u8]>>,
    before: Row<'a>,
    after: Row<'a>,
}

enum Column {
    Texts(Texts),
    Longs(Vec<u8>, Vec<i64>),
}

/// The columns, of one length where none is being added to.
struct Columns {
    rows: Vec<i64>,
    texts: Texts,
    operations: Vec<i32>,
    schemas: Vec<i32>,
    metadata: Vec<Column>,
}

impl Envelopes {
    pub fn new(format: Format) -> Envelopes {
        Envelopes { format, schemas: Schemas::default() }
    }

    /// Remembers what the schema in a text says of rows; gives its number.
    pub fn learn(&mut self, text: &[u8], logical_type: LogicalType) -> usize {
        self.schemas.learn(text, logical_type)
    }

    pub fn decode(&mut self, events: &impl Events) -> Decoded {
        let mut columns = Columns::new(&self.format);
        let mut silent: Vec<i64> = vec![];
        let row = || Row::new(self.format.placeholder.clone());
        let mut found = Found { values: vec![None; self.format.values], before: row(), after: row() };
        for row in 0..events.count() {
            let Some(event) = events.text(row) else { continue };
            found.clear();
            let result = self.read(event, &mut found).and_then(|schema| match schema {
                Some(schema) => self.take(&found, schema, &mut columns),
                None => Ok(false),
            });
            match result {
                Ok(true) => columns.rows.push(row as i64),
                Ok(false) => silent.push(row as i64),
                Err(NeedsExact) => columns.truncate(),
            }
        }
        columns.decoded(silent, self.schemas.take_unknown())
    }

    /// Reads an envelope; gives the number of its schema (-1: none), or None for a payload that is null.
    #[inline(always)]
    fn read<'a>(&mut self, event: &'a [u8], found: &mut Found<'a>) -> Fast<Option<i32>> {
        let mut schema = Some(-1);
        Parser::new(event).whole(|parser| {
            if !parser.open(b'}')? {
                return Err(NeedsExact);
            }
            let mut key = parser.key()?;
            if self.format.may_be_wrapped && matches!(key.raw, b"schema" | b"payload") {
                schema = self.wrapped(parser, key, found)?;
                return Ok(());
            }
            if self.format.is_plain {
                return Err(NeedsExact);
            }
            loop {
                found.member(&self.format.slots, parser, key)?;
                if !parser.more(b'}')? {
                    return Ok(());
                }
                key = parser.key()?;
            }
        })?;
        Ok(schema)
    }

    /// Reads `"schema":…,"payload":…}` in any order from behind the first key; nothing else may be there.
    fn wrapped<'a>(&mut self, parser: &mut Parser<'a>, first: Text, found: &mut Found<'a>) -> Fast<Option<i32>> {
        let (mut schema, mut has_schema) = (-1, false);
        let (mut is_null, mut has_payload) = (false, false);
        let mut name = first.raw;
        loop {
            match name {
                b"schema" if !has_schema => {
                    has_schema = true;
                    schema = self.schemas.read(parser)?;
                }
                b"payload" if !has_payload => {
                    has_payload = true;
                    is_null = parser.null()?;
                    if !is_null {
                        self.payload(parser, found)?;
                    }
                }
                _ => return Err(NeedsExact),
            }
            if !parser.more(b'}')? {
                break;
            }
            name = parser.key()?.raw;
        }
        Ok(if is_null { None } else { Some(schema) })
    }

    fn payload<'a>(&mut self, parser: &mut Parser<'a>, found: &mut Found<'a>) -> Fast<()> {
        if parser.peek() != b'{' {
            return Err(NeedsExact);
        }
        if self.format.is_plain {
            return found.after.read(parser);
        }
        parser.object(|parser, key| found.member(&self.format.slots, parser, key))
    }

    /// Adds the row of an envelope to the columns; false: it is about none.
    fn take(&self, found: &Found, schema: i32, columns: &mut Columns) -> Fast<bool> {
        let format = &self.format;
        let Some(operation) = format.meant(found)? else { return Ok(false) };
        let row = if operation == DELETE && format.has_whole_before { &found.before } else { &found.after };
        if operation == UPDATE && !format.keys.is_empty() && !found.after.has_same(&found.before, &format.keys)? {
            return Err(NeedsExact);
        }
        let logical_type = self.schemas.logical_type(schema);
        columns.texts.write(|out| row.write(logical_type, out))?;
        for (column, (number, _)) in columns.metadata.iter_mut().zip(&format.metadata) {
            column.push(found.values[*number])?;
        }
        columns.operations.push(operation);
        columns.schemas.push(schema);
        Ok(true)
    }
}

impl Format {
    /// The operation of an envelope; None: it is about no row.
    fn meant(&self, found: &Found) -> Fast<Option<i32>> {
        if self.is_plain {
            return Ok(Some(INSERT));
        }
        let word = Parser::new(found.values[self.operation].ok_or(NeedsExact)?).string()?;
        let meant = word.with(|word| self.words.iter().find(|(text, _)| text == word).map(|(_, meant)| *meant))?;
        meant.ok_or(NeedsExact)
    }
}

impl<'a> Found<'a> {
    fn clear(&mut self) {
        self.values.fill(None);
        self.before.clear();
        self.after.clear();
    }

    /// Reads the value of a field; one that is wanted must not be repeated.
    #[inline(always)]
    fn member(&mut self, slots: &Slots, parser: &mut Parser<'a>, key: Text) -> Fast<()> {
        let slot = key.with(|key| slots.iter().find(|(name, _)| name == key).map(|(_, slot)| slot))?;
        let start = parser.at;
        let number = match slot {
            None => return parser.skip(),
            Some(Slot::Before) => return self.before.read(parser),
            Some(Slot::After) => return self.after.read(parser),
            Some(Slot::Within(number, inner)) if parser.peek() == b'{' => {
                parser.object(|parser, key| self.member(inner, parser, key))?;
                number
            }
            Some(Slot::Value(number) | Slot::Within(number, _)) => {
                parser.skip()?;
                number
            }
        };
        let value = &mut self.values[*number];
        if value.is_some() {
            return Err(NeedsExact);
        }
        *value = Some(&parser.bytes[start..parser.at]);
        Ok(())
    }
}

impl Column {
    fn push(&mut self, value: Option<&[u8]>) -> Fast<()> {
        let value = value.filter(|value| *value != b"null");
        match (self, value) {
            (Column::Texts(texts), None) => texts.push(None).map_err(|_| NeedsExact),
            (Column::Texts(texts), Some(value)) => texts.write(|out| text(value, out)),
            (Column::Longs(valid, values), value) => {
                let number = value.and_then(whole);
                valid.push(u8::from(number.is_some()));
                values.push(number.unwrap_or(0));
                Ok(())
            }
        }
    }

    fn truncate(&mut self, rows: usize) {
        match self {
            Column::Texts(texts) => texts.truncate(rows),
            Column::Longs(valid, values) => {
                valid.truncate(rows);
                values.truncate(rows);
            }
        }
    }

    fn array(self) -> Array {
        match self {
            Column::Texts(texts) => texts.array(),
            Column::Longs(valid, values) => export::nullable(&valid, values),
        }
    }
}

/// Writes a string as it is meant, and any other value as compact JSON.
fn text(value: &[u8], out: &mut Vec<u8>) -> Fast<()> {
    let mut parser = Parser::new(value);
    match value.first() {
        Some(b'"') => parser.string()?.write(out),
        _ => parser.dump(out),
    }
}

/// A number without a fraction or an exponent, if it fits; None for any other value.
fn whole(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

impl Columns {
    fn new(format: &Format) -> Columns {
        let column = |is_number| match is_number {
            true => Column::Longs(vec![], vec![]),
            false => Column::Texts(Texts::default()),
        };
        let metadata = format.metadata.iter().map(|(_, is_number)| column(*is_number)).collect();
        Columns { rows: vec![], texts: Texts::default(), operations: vec![], schemas: vec![], metadata }
    }

    /// Removes what was added of a row that is left after all.
    fn truncate(&mut self) {
        let rows = self.rows.len();
        self.texts.truncate(rows);
        self.operations.truncate(rows);
        self.schemas.truncate(rows);
        self.metadata.iter_mut().for_each(|column| column.truncate(rows));
    }

    fn decoded(self, silent: Vec<i64>, unknown: Vec<Vec<u8>>) -> Decoded {
        let metadata = self.metadata.into_iter().map(Column::array).collect();
        Decoded {
            metadata: export::table(self.rows.len(), metadata),
            rows: export::longs(self.rows),
            texts: self.texts.array(),
            operations: export::ints(self.operations),
            schemas: export::ints(self.schemas),
            silent: export::longs(silent),
            unknown: export::texts(&unknown),
        }
    }
}
