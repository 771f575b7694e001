//! Values of one Avro schema into columns, by the steps that `calve.serde.avro.plan` compiles.
//!
//! A value that does not certainly follow its schema is left; the reference decoder in Python gives the reason.

use crate::column::{Column, Store};
use crate::convert::Events;
use crate::export::{self, Array};
use crate::object_columns::ObjectColumns;
use crate::parse::{Fast, NeedsExact};
use crate::spec::Spec;
use crate::value;
use std::str;

/// So many elements of arrays may take no byte (`calve.serde.avro.reference.MOST_EMPTY`).
const MOST_EMPTY: usize = 1 << 16;

pub enum Step {
    Null,
    Boolean,
    /// Of so many bits; with a limit: a time of day.
    Number(u32, Option<i64>),
    Float,
    Double,
    String,
    Bytes,
    Fixed(usize),
    Enum(Vec<Vec<u8>>),
    /// The digits, and the bytes if it is fixed.
    Decimal(u32, Option<usize>),
    Uuid,
    Array(Box<Step>),
    Map(Box<Step>),
    /// Each part with its column; without one it is read over.
    Record(Vec<(Option<usize>, Step)>),
    Union(Vec<Step>),
    /// One field of a struct; the others are null.
    Branch(usize, Box<Step>),
    Default(Vec<u8>, Box<Step>),
    Fault,
}

impl Step {
    pub fn new(spec: &mut Spec) -> Option<Step> {
        Some(match spec.text()? {
            "null" => Step::Null,
            "boolean" => Step::Boolean,
            "int" => Step::Number(32, limit(spec)?),
            "long" => Step::Number(64, limit(spec)?),
            "float" => Step::Float,
            "double" => Step::Double,
            "string" => Step::String,
            "bytes" => Step::Bytes,
            "fixed" => Step::Fixed(spec.number()?),
            "enum" => {
                let count: usize = spec.number()?;
                Step::Enum((0..count).map(|_| Some(spec.text()?.into())).collect::<Option<_>>()?)
            }
            "decimal" => Step::Decimal(spec.number()?, None),
            "decimal-fixed" => Step::Decimal(spec.number()?, Some(spec.number()?)),
            "uuid" => Step::Uuid,
            "array" => Step::Array(Step::boxed(spec)?),
            "map" => Step::Map(Step::boxed(spec)?),
            "record" => {
                let count: usize = spec.number()?;
                let part = |_| Some((usize::try_from(spec.number::<i64>()?).ok(), Step::new(spec)?));
                Step::Record((0..count).map(part).collect::<Option<_>>()?)
            }
            "union" => {
                let count: usize = spec.number()?;
                Step::Union((0..count).map(|_| Step::new(spec)).collect::<Option<_>>()?)
            }
            "branch" => Step::Branch(spec.number()?, Step::boxed(spec)?),
            "default" => Step::Default(hex(spec.text()?)?, Step::boxed(spec)?),
            "fault" => Step::Fault,
            _ => return None,
        })
    }

    fn boxed(spec: &mut Spec) -> Option<Box<Step>> {
        Step::new(spec).map(Box::new)
    }
}

fn limit(spec: &mut Spec) -> Option<Option<i64>> {
    spec.number().map(|limit: i64| (limit > 0).then_some(limit))
}

fn hex(text: &str) -> Option<Vec<u8>> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

pub struct Decoder {
    level: ObjectColumns,
    step: Step,
}

/// The columns of the values that follow the schema, and their positions.
pub struct Decoded {
    pub columns: Array,
    pub rows: Array,
}

impl Decoder {
    /// Makes a decoder of the columns and the steps of a record.
    pub fn new(spec: &mut Spec) -> Option<Decoder> {
        Some(Decoder { level: spec.object_columns()?, step: Step::new(spec)? })
    }

    /// Decodes values from their byte `start` on.
    pub fn decode(&mut self, values: &impl Events, start: usize) -> Decoded {
        let mut rows: Vec<i64> = Vec::with_capacity(values.count());
        let columns = &mut self.level.columns;
        for column in &mut *columns {
            column.reserve(values.count(), values.bytes() / 4);
            column.truncate(0); // a panic may have left something
        }
        for row in 0..values.count() {
            let value = values.value(row).and_then(|value| value.get(start..)).unwrap_or_default();
            let mut input = Input { data: value, at: 0, empty: 0 };
            if input.row(&self.step, columns).is_ok() && input.at == value.len() {
                rows.push(row as i64);
            } else {
                columns.iter_mut().for_each(|column| column.truncate(rows.len()));
            }
        }
        Decoded { columns: export::columns(columns, rows.len()), rows: export::longs(rows) }
    }

    /// Decodes so many values that follow each other, up to the first that does not follow the schema; gives where each
    /// ends instead of its position.
    pub fn decode_block(&mut self, values: &impl Events, count: usize) -> Decoded {
        let data = (values.count() == 1).then(|| values.value(0)).flatten().unwrap_or_default();
        let columns = &mut self.level.columns;
        for column in &mut *columns {
            column.reserve(count.min(data.len()), data.len() / 4);
            column.truncate(0);
        }
        let mut input = Input { data, at: 0, empty: 0 };
        let mut ends: Vec<i64> = vec![];
        while ends.len() < count {
            let before = input.at;
            if input.row(&self.step, columns).is_err() {
                break;
            }
            input.empty += usize::from(input.at == before);
            if input.empty > MOST_EMPTY {
                break;
            }
            ends.push(input.at as i64);
        }
        columns.iter_mut().for_each(|column| column.truncate(ends.len()));
        Decoded { columns: export::columns(columns, ends.len()), rows: export::longs(ends) }
    }
}

struct Input<'a> {
    data: &'a [u8],
    at: usize,
    /// The elements without bytes up to here.
    empty: usize,
}

impl<'a> Input<'a> {
    fn row(&mut self, step: &Step, columns: &mut [Column]) -> Fast<()> {
        match step {
            Step::Record(parts) => self.record(parts, columns),
            Step::Union(parts) => {
                let number = usize::try_from(self.long(64)?).map_err(|_| NeedsExact)?;
                self.row(parts.get(number).ok_or(NeedsExact)?, columns)
            }
            Step::Branch(field, part) => self.branch(*field, part, columns),
            _ => Err(NeedsExact),
        }
    }

    #[inline(always)]
    fn record(&mut self, parts: &[(Option<usize>, Step)], columns: &mut [Column]) -> Fast<()> {
        for (number, part) in parts {
            match number {
                Some(number) => self.read(part, &mut columns[*number])?,
                None => self.skip(part)?,
            }
        }
        Ok(())
    }

    fn branch(&mut self, field: usize, part: &Step, columns: &mut [Column]) -> Fast<()> {
        for (number, column) in columns.iter_mut().enumerate() {
            if number == field {
                self.read(part, column)?;
            } else {
                column.push_null();
            }
        }
        Ok(())
    }

    fn read(&mut self, step: &Step, column: &mut Column) -> Fast<()> {
        match (step, &mut column.store) {
            (Step::Null, _) => {
                column.push_null();
                return Ok(());
            }
            (Step::Union(parts), _) => {
                let number = usize::try_from(self.long(64)?).map_err(|_| NeedsExact)?;
                return self.read(parts.get(number).ok_or(NeedsExact)?, column);
            }
            (Step::Default(bytes, part), _) => {
                return Input { data: bytes, at: 0, empty: 0 }.read(part, column);
            }
            (Step::String, Store::Bytes(ends, values)) => {
                let bytes = self.sized()?;
                str::from_utf8(bytes).map_err(|_| NeedsExact)?;
                values.extend_from_slice(bytes);
                ends.push(values.len() as i64);
            }
            (Step::Number(bits, limit), store) => {
                let number = self.long(*bits)?;
                if limit.is_some_and(|limit| !(0..limit).contains(&number)) {
                    return Err(NeedsExact);
                }
                match store {
                    Store::Longs(values) => values.push(number),
                    Store::Ints(values) => values.push(i32::try_from(number).map_err(|_| NeedsExact)?),
                    Store::Doubles(values) if (number as f64) as i128 == i128::from(number) => {
                        values.push(number as f64)
                    }
                    Store::Floats(values) if (number as f32) as i128 == i128::from(number) => {
                        values.push(number as f32)
                    }
                    _ => return Err(NeedsExact),
                }
            }
            (Step::Double, Store::Doubles(values)) => values.push(f64::from_le_bytes(self.array()?)),
            (Step::Float, Store::Floats(values)) => values.push(f32::from_le_bytes(self.array()?)),
            (Step::Float, Store::Doubles(values)) => values.push(f32::from_le_bytes(self.array()?).into()),
            (Step::Boolean, Store::Bits(values)) => {
                let [byte] = self.array()?;
                if byte > 1 {
                    return Err(NeedsExact);
                }
                values.push(byte);
            }
            (Step::Enum(symbols), Store::Bytes(ends, values)) => {
                let number = usize::try_from(self.long(64)?).map_err(|_| NeedsExact)?;
                let symbol = symbols.get(number).filter(|symbol| !symbol.is_empty()).ok_or(NeedsExact)?;
                values.extend_from_slice(symbol);
                ends.push(values.len() as i64);
            }
            (Step::Bytes, Store::Bytes(ends, values)) => {
                values.extend_from_slice(self.sized()?);
                ends.push(values.len() as i64);
            }
            (Step::Fixed(size), Store::Fixed(width, values)) if size == width => {
                values.extend_from_slice(self.take(*size)?);
            }
            (Step::Decimal(digits, size), Store::Decimals(values)) => {
                let bytes = if let Some(size) = size { self.take(*size)? } else { self.sized()? };
                values.push(decimal(bytes, *digits)?);
            }
            (Step::Uuid, Store::Fixed(16, values)) => value::uuid(self.sized()?, values).ok_or(NeedsExact)?,
            (Step::Record(parts), Store::Struct(level)) => self.record(parts, &mut level.columns)?,
            (Step::Branch(field, part), Store::Struct(level)) => self.branch(*field, part, &mut level.columns)?,
            (Step::Array(part), Store::List(ends, element)) => {
                self.blocks(|input| input.read(part, element))?;
                ends.push(element.valid.len() as i64);
            }
            (Step::Map(part), Store::Map(ends, pair)) => {
                let (keys, items) = &mut **pair;
                self.blocks(|input| {
                    input.read(&Step::String, keys)?;
                    input.read(part, items)
                })?;
                ends.push(i32::try_from(keys.valid.len()).map_err(|_| NeedsExact)?);
            }
            _ => return Err(NeedsExact),
        }
        column.valid.push(1);
        Ok(())
    }

    /// Reads over a piece of the value.
    fn skip(&mut self, step: &Step) -> Fast<()> {
        match step {
            Step::Null => Ok(()),
            Step::Boolean => self.array().and_then(|[byte]| if byte > 1 { Err(NeedsExact) } else { Ok(()) }),
            Step::Number(bits, limit) => {
                let number = self.long(*bits)?;
                let is_right = limit.map_or(true, |limit| (0..limit).contains(&number));
                is_right.then_some(()).ok_or(NeedsExact)
            }
            Step::Float => self.take(4).map(|_| ()),
            Step::Double => self.take(8).map(|_| ()),
            Step::String | Step::Bytes => self.sized().map(|_| ()),
            Step::Fixed(size) => self.take(*size).map(|_| ()),
            Step::Array(part) => self.blocks(|input| input.skip(part)),
            Step::Record(parts) => parts.iter().try_for_each(|(_, part)| self.skip(part)),
            Step::Union(parts) => {
                let number = usize::try_from(self.long(64)?).map_err(|_| NeedsExact)?;
                self.skip(parts.get(number).ok_or(NeedsExact)?)
            }
            Step::Branch(_, part) => self.skip(part),
            // what the reference decoder checks, although nobody gets it
            Step::Enum(symbols) => {
                let number = usize::try_from(self.long(64)?).map_err(|_| NeedsExact)?;
                symbols.get(number).filter(|symbol| !symbol.is_empty()).map(|_| ()).ok_or(NeedsExact)
            }
            Step::Decimal(digits, size) => {
                let bytes = if let Some(size) = size { self.take(*size)? } else { self.sized()? };
                decimal(bytes, *digits).map(|_| ())
            }
            Step::Uuid => value::uuid(self.sized()?, &mut vec![]).ok_or(NeedsExact),
            Step::Map(part) => self.blocks(|input| {
                str::from_utf8(input.sized()?).map_err(|_| NeedsExact)?;
                input.skip(part)
            }),
            Step::Default(..) | Step::Fault => Err(NeedsExact),
        }
    }

    /// Does something for each element of an array or a map.
    fn blocks(&mut self, mut each: impl FnMut(&mut Self) -> Fast<()>) -> Fast<()> {
        loop {
            let mut count = self.long(64)?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                count = count.checked_neg().ok_or(NeedsExact)?;
                self.long(64)?; // the bytes of the block
            }
            for _ in 0..count {
                let before = self.at;
                each(self)?;
                self.empty += usize::from(self.at == before);
                if self.empty > MOST_EMPTY {
                    return Err(NeedsExact);
                }
            }
        }
    }

    #[inline(always)]
    fn take(&mut self, size: usize) -> Fast<&'a [u8]> {
        let end = self.at.checked_add(size).ok_or(NeedsExact)?;
        let found = self.data.get(self.at..end).ok_or(NeedsExact)?;
        self.at = end;
        Ok(found)
    }

    #[inline(always)]
    fn array<const N: usize>(&mut self) -> Fast<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| NeedsExact)
    }

    #[inline(always)]
    fn sized(&mut self) -> Fast<&'a [u8]> {
        let size = usize::try_from(self.long(64)?).map_err(|_| NeedsExact)?;
        self.take(size)
    }

    #[inline(always)]
    fn long(&mut self, bits: u32) -> Fast<i64> {
        let byte = *self.data.get(self.at).ok_or(NeedsExact)?;
        if byte < 0x80 {
            self.at += 1;
            return Ok(i64::from(byte >> 1) ^ -i64::from(byte & 1));
        }
        self.more(bits)
    }

    fn more(&mut self, bits: u32) -> Fast<i64> {
        let mut found = 0u128;
        for shift in (0..bits).step_by(7) {
            let [byte] = self.array()?;
            found |= u128::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                if found >> bits != 0 {
                    return Err(NeedsExact);
                }
                let found = found as u64;
                return Ok((found >> 1) as i64 ^ -((found & 1) as i64));
            }
        }
        Err(NeedsExact)
    }
}

/// A number in two's complement, the highest byte first, of so many digits; more than 16 bytes are left.
fn decimal(bytes: &[u8], digits: u32) -> Fast<i128> {
    let first = *bytes.first().ok_or(NeedsExact)?;
    if bytes.len() > 16 {
        return Err(NeedsExact);
    }
    let mut whole = [if first < 0x80 { 0 } else { 0xff }; 16];
    whole[16 - bytes.len()..].copy_from_slice(bytes);
    let number = i128::from_be_bytes(whole);
    (number.unsigned_abs() < 10u128.pow(digits)).then_some(number).ok_or(NeedsExact)
}
