//! A column of a table: what Python says of it, and its values as they are collected.

use crate::export::{self, Array, Texts};
use crate::parse::{Fast, NeedsExact};
use crate::spec::Spec;

/// The values that a column has: what the decoder in Python gives for its type.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Int,
    Long,
    Float,
    Double,
    Binary,
    /// A decimal, as text.
    Decimal,
    /// Texts, and all other types as texts.
    Text,
}

/// How bytes become a text.
pub enum Charset {
    Utf8,
    /// A character for each byte.
    Table(Vec<char>),
    Utf16 {
        is_big: bool,
    },
    Utf32,
}

/// What Python says of a column.
pub struct Declared {
    pub kind: Kind,
    pub is_key: bool,
    pub is_unsigned: bool,
    pub charset: Charset,
    pub labels: Vec<String>,
}

impl Declared {
    pub fn all(spec: &mut Spec) -> Option<Vec<Declared>> {
        (0..spec.number()?).map(|_| Declared::read(spec)).collect()
    }

    fn read(spec: &mut Spec) -> Option<Declared> {
        let kind = match spec.text()? {
            "int" => Kind::Int,
            "long" => Kind::Long,
            "float" => Kind::Float,
            "double" => Kind::Double,
            "binary" => Kind::Binary,
            "decimal" => Kind::Decimal,
            "text" => Kind::Text,
            _ => return None,
        };
        let (is_key, is_unsigned) = (spec.flag()?, spec.flag()?);
        let charset = match spec.text()? {
            "" => Charset::Utf8,
            "utf-16-be" => Charset::Utf16 { is_big: true },
            "utf-16-le" => Charset::Utf16 { is_big: false },
            "utf-32-be" => Charset::Utf32,
            table => Charset::Table(std::iter::once('\0').chain(table.chars()).collect()),
        };
        let labels = (0..spec.number()?).map(|_| spec.text().map(str::to_string)).collect::<Option<_>>()?;
        Some(Declared { kind, is_key, is_unsigned, charset, labels })
    }
}

/// Appends a text in UTF-8; one that is no text in its character set is left.
pub fn decode(charset: &Charset, bytes: &[u8], out: &mut Vec<u8>) -> Fast<()> {
    match charset {
        Charset::Utf8 => {
            std::str::from_utf8(bytes).map_err(|_| NeedsExact)?;
            out.extend_from_slice(bytes);
        }
        Charset::Table(table) => {
            for byte in bytes {
                push(*table.get(usize::from(*byte)).ok_or(NeedsExact)?, out);
            }
        }
        Charset::Utf16 { is_big } => {
            let units = units(bytes, 2)?.map(|unit| {
                let unit = [unit[0], unit[1]];
                if *is_big {
                    u16::from_be_bytes(unit)
                } else {
                    u16::from_le_bytes(unit)
                }
            });
            for found in char::decode_utf16(units) {
                push(found.map_err(|_| NeedsExact)?, out);
            }
        }
        Charset::Utf32 => {
            for unit in units(bytes, 4)? {
                push(char::from_u32(super::big(unit) as u32).ok_or(NeedsExact)?, out);
            }
        }
    }
    Ok(())
}

fn units(bytes: &[u8], size: usize) -> Fast<std::slice::ChunksExact<'_, u8>> {
    if bytes.len() % size == 0 {
        Ok(bytes.chunks_exact(size))
    } else {
        Err(NeedsExact)
    }
}

fn push(found: char, out: &mut Vec<u8>) {
    out.extend(found.encode_utf8(&mut [0; 4]).bytes());
}

/// The values of a column; a null number has a value, too.
pub enum Values {
    Ints(Vec<u8>, Vec<i32>),
    Longs(Vec<u8>, Vec<i64>),
    Floats(Vec<u8>, Vec<f32>),
    Doubles(Vec<u8>, Vec<f64>),
    Texts(Texts),
}

impl Values {
    pub fn of(kind: Kind) -> Values {
        match kind {
            Kind::Int => Values::Ints(vec![], vec![]),
            Kind::Long => Values::Longs(vec![], vec![]),
            Kind::Float => Values::Floats(vec![], vec![]),
            Kind::Double => Values::Doubles(vec![], vec![]),
            Kind::Binary | Kind::Decimal | Kind::Text => Values::Texts(Texts::default()),
        }
    }

    pub fn push_null(&mut self) {
        match self {
            Values::Ints(valid, values) => add(valid, values, 0, 0),
            Values::Longs(valid, values) => add(valid, values, 0, 0),
            Values::Floats(valid, values) => add(valid, values, 0, 0.0),
            Values::Doubles(valid, values) => add(valid, values, 0, 0.0),
            Values::Texts(texts) => texts.push_null(),
        }
    }

    /// Adds an integer that the column has room for.
    #[inline(always)]
    pub fn push_whole(&mut self, value: i64) -> Fast<()> {
        match self {
            Values::Ints(valid, values) => add(valid, values, 1, i32::try_from(value).map_err(|_| NeedsExact)?),
            Values::Longs(valid, values) => add(valid, values, 1, value),
            _ => return Err(NeedsExact),
        }
        Ok(())
    }

    pub fn push_float(&mut self, bits: u32) -> Fast<()> {
        match self {
            Values::Floats(valid, values) => add(valid, values, 1, f32::from_bits(bits)),
            _ => return Err(NeedsExact),
        }
        Ok(())
    }

    pub fn push_double(&mut self, bits: u64) -> Fast<()> {
        match self {
            Values::Doubles(valid, values) => add(valid, values, 1, f64::from_bits(bits)),
            _ => return Err(NeedsExact),
        }
        Ok(())
    }

    /// Adds the text or the bytes that a function appends.
    #[inline(always)]
    pub fn write(&mut self, append: impl FnOnce(&mut Vec<u8>) -> Fast<()>) -> Fast<()> {
        match self {
            Values::Texts(texts) => texts.write(append),
            _ => Err(NeedsExact),
        }
    }

    /// Whether the last two values are the same.
    pub fn repeats(&self) -> bool {
        match self {
            Values::Ints(valid, values) => last(valid, values),
            Values::Longs(valid, values) => last(valid, values),
            Values::Texts(texts) => {
                let (ends, bytes) = (texts.ends(), texts.bytes());
                let [.., start, middle, end] = ends else { return false };
                bytes[*start as usize..*middle as usize] == bytes[*middle as usize..*end as usize]
            }
            Values::Floats(..) | Values::Doubles(..) => false,
        }
    }

    /// Cuts the column back to its first rows.
    pub fn truncate(&mut self, rows: usize) {
        match self {
            Values::Ints(valid, values) => cut(valid, values, rows),
            Values::Longs(valid, values) => cut(valid, values, rows),
            Values::Floats(valid, values) => cut(valid, values, rows),
            Values::Doubles(valid, values) => cut(valid, values, rows),
            Values::Texts(texts) => texts.truncate(rows),
        }
    }

    pub fn array(self) -> Array {
        match self {
            Values::Ints(valid, values) => export::nullable(&valid, values),
            Values::Longs(valid, values) => export::nullable(&valid, values),
            Values::Floats(valid, values) => export::nullable(&valid, values),
            Values::Doubles(valid, values) => export::nullable(&valid, values),
            Values::Texts(texts) => texts.array(),
        }
    }
}

#[inline(always)]
fn add<T>(valid: &mut Vec<u8>, values: &mut Vec<T>, is_valid: u8, value: T) {
    valid.push(is_valid);
    values.push(value);
}

fn last<T: PartialEq>(valid: &[u8], values: &[T]) -> bool {
    let at = values.len();
    at > 1 && values[at - 2] == values[at - 1] && valid[at - 2] == valid[at - 1]
}

fn cut<T>(valid: &mut Vec<u8>, values: &mut Vec<T>, rows: usize) {
    valid.truncate(rows);
    values.truncate(rows);
}
