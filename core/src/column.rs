//! Columns that grow by the values of events, and can be cut back to an earlier length: a row that is left leaves no trace.

use crate::infer::{self, Node};
use crate::object_columns::{EventNotes, ObjectColumns};
use crate::parse::{Fast, NeedsExact, Parser};
use crate::scalar::{date, double, either, long, text, time, timestamp, Numbers};
use crate::text::Keys;
use crate::value;

pub enum Kind {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Decimal {
        precision: u32,
        scale: u32,
    },
    Date,
    Time,
    /// Units of `10^-digits` seconds.
    Timestamp {
        digits: usize,
        counts: Numbers,
        /// Whether a text may have an offset.
        takes_zones: bool,
    },
    String,
    Binary,
    Fixed,
    Uuid,
    Nested,
    /// Nothing but null.
    Unknown,
}

/// The values; a null has a value too, but for texts and lists.
pub enum Store {
    Bits(Vec<u8>),
    Ints(Vec<i32>),
    Longs(Vec<i64>),
    Floats(Vec<f32>),
    Doubles(Vec<f64>),
    Decimals(Vec<i128>),
    Bytes(Vec<i64>, Vec<u8>),
    Fixed(usize, Vec<u8>),
    Struct(Box<ObjectColumns>),
    List(Vec<i64>, Box<Column>),
    Map(Vec<i32>, Box<(Column, Column)>),
    Nothing,
}

pub struct Column {
    pub kind: Kind,
    pub store: Store,
    /// A byte for each row: 1 where there is a value.
    pub valid: Vec<u8>,
    pub required: bool,
    /// Whether an event may lack it although it is required.
    pub may_lack: bool,
    /// Whether a value that does not fit decides nothing but itself: the event goes on with null, and Python decides it.
    pub defers: bool,
}

impl Column {
    /// Makes room for so many rows, whose texts may have so many bytes.
    pub fn reserve(&mut self, rows: usize, bytes: usize) {
        self.valid.reserve(rows);
        match &mut self.store {
            Store::Bits(values) => values.reserve(rows),
            Store::Ints(values) => values.reserve(rows),
            Store::Longs(values) => values.reserve(rows),
            Store::Floats(values) => values.reserve(rows),
            Store::Doubles(values) => values.reserve(rows),
            Store::Decimals(values) => values.reserve(rows),
            Store::Fixed(size, values) => values.reserve(rows * *size),
            Store::Bytes(ends, values) => {
                begin(ends, rows);
                values.reserve(bytes);
            }
            Store::Struct(level) => level.reserve(rows, bytes),
            Store::List(ends, element) => {
                begin(ends, rows);
                element.reserve(0, 0);
            }
            Store::Map(ends, pair) => {
                begin(ends, rows);
                pair.0.reserve(0, 0);
                pair.1.reserve(0, 0);
            }
            Store::Nothing => {}
        }
    }

    pub fn push_null(&mut self) {
        self.valid.push(0);
        match &mut self.store {
            Store::Bits(values) => values.push(0),
            Store::Ints(values) => values.push(0),
            Store::Longs(values) => values.push(0),
            Store::Floats(values) => values.push(0.0),
            Store::Doubles(values) => values.push(0.0),
            Store::Decimals(values) => values.push(0),
            Store::Bytes(ends, values) => ends.push(values.len() as i64),
            Store::Fixed(size, values) => values.resize(values.len() + *size, 0),
            Store::Struct(level) => level.columns.iter_mut().for_each(Column::push_null),
            Store::List(ends, element) => ends.push(element.valid.len() as i64),
            Store::Map(ends, pair) => ends.push(pair.0.valid.len() as i32),
            Store::Nothing => {}
        }
    }

    /// Cuts the column back to its first rows.
    pub fn truncate(&mut self, rows: usize) {
        self.valid.truncate(rows);
        match &mut self.store {
            Store::Bits(values) => values.truncate(rows),
            Store::Ints(values) => values.truncate(rows),
            Store::Longs(values) => values.truncate(rows),
            Store::Floats(values) => values.truncate(rows),
            Store::Doubles(values) => values.truncate(rows),
            Store::Decimals(values) => values.truncate(rows),
            Store::Fixed(size, values) => values.truncate(rows * *size),
            Store::Bytes(ends, values) => {
                ends.truncate(rows + 1);
                values.truncate(ends[ends.len() - 1] as usize);
            }
            Store::Struct(level) => level.columns.iter_mut().for_each(|one| one.truncate(rows)),
            Store::List(ends, element) => {
                ends.truncate(rows + 1);
                element.truncate(ends[ends.len() - 1] as usize);
            }
            Store::Map(ends, pair) => {
                ends.truncate(rows + 1);
                let entries = ends[ends.len() - 1] as usize;
                pair.0.truncate(entries);
                pair.1.truncate(entries);
            }
            Store::Nothing => {}
        }
    }

    /// The column as a field that is known.
    pub fn known(&self) -> Node {
        let (kind, fields) = match &self.store {
            Store::Struct(level) => return level.known(),
            Store::List(_, element) => (infer::Kind::KnownList, vec![(b"element".to_vec(), element.known())]),
            Store::Map(_, pair) => (infer::Kind::KnownMap, vec![(b"value".to_vec(), pair.1.known())]),
            _ => (infer::Kind::Known, vec![]),
        };
        Node::new(kind, fields, None)
    }

    /// Forgets what was seen of fields without a column.
    pub fn begin(&mut self) {
        match &mut self.store {
            Store::Struct(level) => level.begin(),
            Store::List(_, element) => element.begin(),
            Store::Map(_, pair) => pair.1.begin(),
            _ => {}
        }
    }

    /// Writes the fields below it that have no column; false: there are none.
    pub fn write_new(&self, out: &mut Vec<u8>) -> bool {
        let (name, below): (&[u8], &Column) = match &self.store {
            Store::Struct(level) => return level.write_new(out),
            Store::List(_, element) => (b"element", element),
            Store::Map(_, pair) => (b"value", &pair.1),
            _ => return false,
        };
        infer::write_fields(infer::Kind::Known, out, std::iter::once((name, below)), Column::write_new)
    }

    /// Forgets the names of fields without a column.
    pub fn forget(&mut self) {
        match &mut self.store {
            Store::Struct(level) => level.forget(),
            Store::List(_, element) => element.forget(),
            Store::Map(_, pair) => pair.1.forget(),
            _ => {}
        }
    }

    /// Takes the next value, or leaves the row where it does not fit.
    #[inline(always)]
    pub fn read(&mut self, parser: &mut Parser, notes: &mut EventNotes) -> Fast<()> {
        if parser.null()? {
            if self.required {
                return Err(NeedsExact);
            }
            self.push_null();
            return Ok(());
        }
        match (&self.kind, &mut self.store) {
            (Kind::Long, Store::Longs(values)) => values.push(long(parser)?),
            (Kind::String, Store::Bytes(ends, values)) => {
                if parser.peek() == b'"' {
                    parser.string()?.write(values)?;
                } else {
                    parser.dump(values)?;
                }
                ends.push(values.len() as i64);
            }
            (Kind::Double, Store::Doubles(values)) => values.push(double(parser)?),
            (Kind::Timestamp { digits, counts, takes_zones }, Store::Longs(values)) => {
                values.push(timestamp(parser, *digits, *counts, *takes_zones)?);
            }
            (Kind::Nested, store) => nested(store, parser, notes)?,
            (kind, store) => plain(kind, store, parser)?,
        }
        self.valid.push(1);
        Ok(())
    }
}

/// An empty column of texts or lists begins with a zero.
fn begin<T: Default>(ends: &mut Vec<T>, rows: usize) {
    ends.reserve(rows + 1);
    if ends.is_empty() {
        ends.push(T::default());
    }
}

fn nested(store: &mut Store, parser: &mut Parser, notes: &mut EventNotes) -> Fast<()> {
    match store {
        Store::Struct(level) if parser.peek() == b'{' => level.object(parser, notes, false),
        Store::List(ends, element) if parser.peek() == b'[' => {
            parser.array(|parser| element.read(parser, notes))?;
            ends.push(element.valid.len() as i64);
            Ok(())
        }
        Store::Map(ends, pair) if parser.peek() == b'{' => {
            let (keys, values) = &mut **pair;
            read_map(keys, values, parser, notes)?;
            ends.push(i32::try_from(keys.valid.len()).map_err(|_| NeedsExact)?);
            Ok(())
        }
        _ => Err(NeedsExact),
    }
}

fn read_map(keys: &mut Column, values: &mut Column, parser: &mut Parser, notes: &mut EventNotes) -> Fast<()> {
    let (mut met, start) = (Keys::default(), keys.valid.len());
    let mut more = parser.open(b'}')?;
    while more {
        let mut again = Parser { bytes: parser.bytes, at: parser.at, depth: parser.depth };
        let is_new = met.add(parser.key()?)?;
        keys.read(&mut again, notes)?;
        // different texts may be one value
        if !is_new || (!matches!(keys.kind, Kind::String) && keys.valid.len() > start + 1) {
            return Err(NeedsExact);
        }
        values.read(parser, notes)?;
        more = parser.more(b'}')?;
    }
    Ok(())
}

fn plain(kind: &Kind, store: &mut Store, parser: &mut Parser) -> Fast<()> {
    match (kind, store) {
        (Kind::Boolean, Store::Bits(values)) => values.push(match parser.peek() {
            b't' => parser.word(b"true").map(|()| 1)?,
            b'f' => parser.word(b"false").map(|()| 0)?,
            _ => text(parser, value::boolean)?,
        }),
        (Kind::Int, Store::Ints(values)) => {
            let found = either(parser, |text| value::integer(text, i32::MIN.into(), i32::MAX.into()))?;
            values.push(found as i32);
        }
        (Kind::Float, Store::Floats(values)) => values.push(value::narrow(double(parser)?).ok_or(NeedsExact)?),
        (Kind::Decimal { precision, scale }, Store::Decimals(values)) => {
            values.push(either(parser, |text| value::decimal(text, *precision, *scale))?);
        }
        (Kind::Date, Store::Ints(values)) => values.push(date(parser)? as i32),
        (Kind::Time, Store::Longs(values)) => values.push(time(parser)?),
        (Kind::Binary, Store::Bytes(ends, values)) => {
            text(parser, |text| value::base64(text, values))?;
            ends.push(values.len() as i64);
        }
        (Kind::Uuid, Store::Fixed(_, values)) => text(parser, |text| value::uuid(text, values))?,
        (Kind::Fixed, Store::Fixed(size, values)) => {
            let before = values.len();
            text(parser, |text| value::base64(text, values))?;
            if values.len() - before != *size {
                return Err(NeedsExact);
            }
        }
        _ => return Err(NeedsExact),
    }
    Ok(())
}
