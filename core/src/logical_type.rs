//! Values of logical types as text that means the same without a schema (`calve.event.envelope.logical.render`).

use crate::iso8601::{self, DAY, FIRST_DAY, LAST_DAY};
use crate::parse::{Fast, NeedsExact, Parser};
use crate::text::Text;
use crate::value::base64;
use std::collections::HashMap;

/// A decimal's unscaled value of so many bytes fits 128 bits.
const MOST_BYTES: usize = 16;
const MOST_SCALE: i64 = 38;

/// What a schema says of a value; one that does not fit it stays as it is.
pub enum LogicalType {
    AsIs,
    /// Base64 of a big-endian two's complement, divided by ten to the scale.
    Decimal(i64),
    /// The same in an object, beside its scale.
    FreeDecimal,
    /// Days since 1970.
    Date,
    /// Since midnight, in units of so many digits behind the second.
    Time(u32),
    /// Since 1970.
    Timestamp(u32),
    /// A text that may end in the offset of UTC.
    Utc,
    Struct(Fields),
    Array(Box<LogicalType>),
    Map(Box<LogicalType>),
    /// Only the exact decoder knows.
    NeedsExact,
}

/// The fields of a struct, in the order of the schema, which is mostly that of the values.
pub struct Fields {
    fields: Vec<(Vec<u8>, LogicalType)>,
    numbers: HashMap<Vec<u8>, usize>,
    has_defaults: bool,
}

impl Fields {
    pub fn new(fields: Vec<(Vec<u8>, LogicalType)>, has_defaults: bool) -> Fields {
        let numbers = fields.iter().enumerate().map(|(number, (name, _))| (name.clone(), number)).collect();
        Fields { fields, numbers, has_defaults }
    }

    /// What is said of a key, which is perhaps that of the field with a number; counts the known ones.
    #[inline(always)]
    pub fn logical_type(&self, number: usize, key: Text, known: &mut usize) -> Fast<&LogicalType> {
        let logical_type = match self.fields.get(number) {
            Some((name, logical_type)) if !key.escaped && key.raw == name.as_slice() => Some(logical_type),
            _ => key.with(|key| self.numbers.get(key).map(|&number| &self.fields[number].1))?,
        };
        *known += logical_type.is_some() as usize;
        Ok(logical_type.unwrap_or(&LogicalType::AsIs))
    }

    /// Refuses an object with so many of the fields if the others may have defaults.
    pub fn check(&self, known: usize) -> Fast<()> {
        if self.has_defaults && known < self.fields.len() {
            Err(NeedsExact)
        } else {
            Ok(())
        }
    }
}

impl LogicalType {
    /// Writes a value, which is valid JSON without a repeated key.
    pub fn write(&self, parser: &mut Parser, out: &mut Vec<u8>) -> Fast<()> {
        let is_number = parser.is_number();
        match (self, parser.peek()) {
            (LogicalType::NeedsExact, _) => Err(NeedsExact),
            (_, b'n') | (LogicalType::AsIs, _) => copy(parser, out),
            (LogicalType::Decimal(scale), b'"') => {
                parser.string()?.with(|text| decimal(text, *scale, out).ok_or(NeedsExact)).and_then(|done| done)
            }
            (LogicalType::FreeDecimal, b'{') => free_decimal(parser, out),
            (LogicalType::FreeDecimal, _) => Err(NeedsExact),
            (LogicalType::Date | LogicalType::Time(_) | LogicalType::Timestamp(_), _) if is_number => {
                self.epoch(parser, out)
            }
            (LogicalType::Utc, b'"') => utc(parser.string()?, out),
            (LogicalType::Struct(fields), b'{') => {
                let (mut number, mut known) = (0, 0);
                members(parser, out, |key| {
                    number += 1;
                    fields.logical_type(number - 1, key, &mut known)
                })?;
                fields.check(known)
            }
            (LogicalType::Map(values), b'{') => members(parser, out, |_| Ok(values)),
            (LogicalType::Array(values), b'[') => elements(parser, out, values),
            _ => copy(parser, out),
        }
    }

    fn epoch(&self, parser: &mut Parser, out: &mut Vec<u8>) -> Fast<()> {
        let text = parser.number()?.text;
        let value: i64 = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(NeedsExact)?;
        out.push(b'"');
        let is_written = match *self {
            LogicalType::Time(digits) => write_time(value, digits, out),
            LogicalType::Timestamp(digits) => write_timestamp(value, digits, out),
            _ => write_date(value, out),
        };
        if is_written.is_none() {
            out.extend(value.to_string().bytes());
        }
        out.push(b'"');
        Ok(())
    }
}

fn write_date(days: i64, out: &mut Vec<u8>) -> Option<()> {
    (FIRST_DAY..=LAST_DAY).contains(&days).then(|| iso8601::write_date(days, out))
}

fn write_time(value: i64, digits: u32, out: &mut Vec<u8>) -> Option<()> {
    let unit = 10i64.pow(digits);
    let seconds = value.div_euclid(unit);
    (0..DAY).contains(&seconds).then(|| iso8601::write_time(seconds, value.rem_euclid(unit), digits, out))
}

fn write_timestamp(value: i64, digits: u32, out: &mut Vec<u8>) -> Option<()> {
    let unit = 10i64.pow(digits);
    let seconds = value.div_euclid(unit);
    write_date(seconds.div_euclid(DAY), out)?;
    out.push(b'T');
    iso8601::write_time(seconds.rem_euclid(DAY), value.rem_euclid(unit), digits, out);
    Some(())
}

/// Writes a value as it is written.
fn copy(parser: &mut Parser, out: &mut Vec<u8>) -> Fast<()> {
    let start = parser.at;
    parser.skip()?;
    out.extend_from_slice(&parser.bytes[start..parser.at]);
    Ok(())
}

fn members<'m, 'a>(
    parser: &mut Parser<'a>,
    out: &mut Vec<u8>,
    mut logical_type: impl FnMut(Text<'a>) -> Fast<&'m LogicalType>,
) -> Fast<()> {
    out.push(b'{');
    let first = out.len();
    parser.object(|parser, key| {
        if out.len() > first {
            out.push(b',');
        }
        key.copy(out);
        out.push(b':');
        logical_type(key)?.write(parser, out)
    })?;
    out.push(b'}');
    Ok(())
}

fn elements(parser: &mut Parser, out: &mut Vec<u8>, values: &LogicalType) -> Fast<()> {
    out.push(b'[');
    let first = out.len();
    parser.array(|parser| {
        if out.len() > first {
            out.push(b',');
        }
        values.write(parser, out)
    })?;
    out.push(b']');
    Ok(())
}

fn utc(text: Text, out: &mut Vec<u8>) -> Fast<()> {
    if text.escaped {
        return Err(NeedsExact);
    }
    let raw = text.raw.strip_suffix(b"Z").unwrap_or(text.raw);
    Text { raw: raw.strip_suffix(b"+00:00").unwrap_or(raw), ..text }.copy(out);
    Ok(())
}

fn free_decimal(parser: &mut Parser, out: &mut Vec<u8>) -> Fast<()> {
    let (mut scale, mut value) = (None, None);
    parser.object(|parser, key| {
        let start = parser.at;
        parser.skip()?;
        let text = &parser.bytes[start..parser.at];
        key.with(|key| match key {
            b"scale" => scale = Some(text),
            b"value" => value = Some(text),
            _ => {}
        })
    })?;
    let scale =
        scale.and_then(|text| std::str::from_utf8(text).ok()).and_then(|text| text.parse().ok()).ok_or(NeedsExact)?;
    let text = Parser::new(value.ok_or(NeedsExact)?).string()?;
    text.with(|text| decimal(text, scale, out).ok_or(NeedsExact))?
}

fn decimal(text: &[u8], scale: i64, out: &mut Vec<u8>) -> Option<()> {
    let mut bytes = Vec::with_capacity(MOST_BYTES);
    base64(text, &mut bytes)?;
    if bytes.is_empty() || bytes.len() > MOST_BYTES || !(-MOST_SCALE..=MOST_SCALE).contains(&scale) {
        return None;
    }
    let sign = if bytes[0] < 128 { 0 } else { -1 };
    let unscaled = bytes.iter().fold(sign, |value: i128, byte| value << 8 | i128::from(*byte));
    let decimals = scale.max(0) as usize;
    let digits = format!("{:0>1$}", unscaled.unsigned_abs(), decimals + 1);
    let (whole, fraction) = digits.split_at(digits.len() - decimals);
    out.push(b'"');
    out.extend((unscaled < 0).then_some(b'-'));
    out.extend(whole.bytes());
    if decimals > 0 {
        out.push(b'.');
        out.extend(fraction.bytes());
    } else if unscaled != 0 {
        out.resize(out.len() + scale.unsigned_abs() as usize, b'0');
    }
    out.push(b'"');
    Some(())
}
