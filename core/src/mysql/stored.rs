//! How the binary log stores values of a column, and how rows of prepared statements have them.
//!
//! https://dev.mysql.com/doc/dev/mysql-server/latest/field__types_8h.html

use super::column::{decode, Charset, Declared, Kind, Values};
use super::packed::{self, Decimal};
use super::{json, length, little, take};
use crate::parse::{Fast, NeedsExact};

const UNSIGNED: u64 = 0x20;
const STRING: u8 = 254;
const ENUM: u8 = 247;
const SET: u8 = 248;
const MOST_DECIMAL_BYTES: usize = 32;
const MOST_FRACTION_DIGITS: usize = 6;

/// Where a value ends.
pub enum Size {
    Fixed(usize),
    /// A length of so many bytes is before it.
    Length(usize),
    /// A length of variable size is before it.
    Counted,
}

/// What its bytes mean.
enum Meaning {
    Signed,
    Unsigned,
    Float,
    Double,
    Year,
    /// Bytes, with zeros at the end up to a size.
    Bytes(usize),
    Text,
    Json,
    Enum,
    Set,
    Decimal(Decimal),
    Bits(usize),
    Date,
    Timestamp(usize),
    DateTime(usize),
    Time(usize),
    /// A text in UTF-8.
    Utf8,
    /// A date of a prepared statement; with so many digits a time; and the text after it.
    Moment(Option<usize>, &'static str),
    Duration(usize),
}

/// How values of a column are stored.
pub struct Stored {
    pub size: Size,
    meaning: Meaning,
}

/// Reads the description of a table's columns: their number, their types, and what belongs to these.
pub fn layout(data: &[u8], columns: &[Declared]) -> Fast<Vec<Stored>> {
    let mut at = 0;
    let count = length(data, &mut at)?;
    let types = take(data, &mut at, count)?;
    let size = length(data, &mut at)?;
    let metas = take(data, &mut at, size)?;
    if count != columns.len() {
        return Err(NeedsExact);
    }
    at = 0;
    let each = types.iter().zip(columns);
    each.map(|(kind, column)| stored(*kind, take(metas, &mut at, meta_bytes(*kind))?, column)).collect()
}

fn meta_bytes(kind: u8) -> usize {
    match kind {
        4 | 5 | 17 | 18 | 19 | 242 | 245 | 252 | 255 => 1,
        15 | 16 | 246 | 253 | STRING => 2,
        _ => 0,
    }
}

fn stored(kind: u8, meta: &[u8], column: &Declared) -> Fast<Stored> {
    let whole = if column.is_unsigned { Meaning::Unsigned } else { Meaning::Signed };
    let (size, meaning) = match kind {
        1 => (Size::Fixed(1), whole),
        2 => (Size::Fixed(2), whole),
        9 => (Size::Fixed(3), whole),
        3 => (Size::Fixed(4), whole),
        8 => (Size::Fixed(8), whole),
        4 => (Size::Fixed(4), Meaning::Float),
        5 => (Size::Fixed(8), Meaning::Double),
        15 | 253 => (length_of(little(meta)), text(column, 0)),
        STRING if matches!(meta[0], ENUM | SET) => {
            let meaning = if meta[0] == ENUM { Meaning::Enum } else { Meaning::Set };
            (Size::Fixed(meta[1].into()), meaning)
        }
        STRING => {
            let most = u64::from(meta[1]) | (u64::from(meta[0] & 0x30) ^ 0x30) << 4;
            (length_of(most), text(column, most as usize))
        }
        252 | 255 => (Size::Length(meta[0].into()), text(column, 0)),
        245 => (Size::Length(meta[0].into()), Meaning::Json),
        246 => {
            let decimal = Decimal::new(meta[0].into(), meta[1].into())?;
            (Size::Fixed(decimal.bytes), Meaning::Decimal(decimal))
        }
        16 => {
            let bits = usize::from(meta[1]) * 8 + usize::from(meta[0]);
            (Size::Fixed((bits + 7) / 8), Meaning::Bits(bits))
        }
        10 => (Size::Fixed(3), Meaning::Date),
        13 => (Size::Fixed(1), Meaning::Year),
        17..=19 => moment(kind, meta[0].into())?,
        _ => return Err(NeedsExact),
    };
    let most = if matches!(meaning, Meaning::Decimal(_)) { MOST_DECIMAL_BYTES } else { 8 };
    match size {
        Size::Fixed(bytes) if (1..=most).contains(&bytes) => Ok(Stored { size, meaning }),
        Size::Length(1..=4) => Ok(Stored { size, meaning }),
        _ => Err(NeedsExact),
    }
}

/// How a prepared statement has the values of a column: its type, flags, length and digits.
pub fn of_result(described: &[u8]) -> Fast<Stored> {
    let (kind, flags) = (described[0], little(&described[1..3]));
    let (length, digits) = (little(&described[3..7]) as usize, usize::from(described[7]));
    let whole = if flags & UNSIGNED > 0 { Meaning::Unsigned } else { Meaning::Signed };
    if matches!(kind, 7 | 11 | 12) && digits > MOST_FRACTION_DIGITS {
        return Err(NeedsExact);
    }
    let (size, meaning) = match kind {
        1 => (Size::Fixed(1), whole),
        2 => (Size::Fixed(2), whole),
        3 | 9 => (Size::Fixed(4), whole),
        8 => (Size::Fixed(8), whole),
        13 => (Size::Fixed(2), Meaning::Unsigned),
        4 => (Size::Fixed(4), Meaning::Float),
        5 => (Size::Fixed(8), Meaning::Double),
        7 => (Size::Length(1), Meaning::Moment(Some(digits), "+00")),
        10 => (Size::Length(1), Meaning::Moment(None, "")),
        12 => (Size::Length(1), Meaning::Moment(Some(digits), "")),
        11 => (Size::Length(1), Meaning::Duration(digits)),
        16 if length <= 64 => (Size::Counted, Meaning::Bits(length)),
        15 | 245..=255 => (Size::Counted, Meaning::Utf8),
        _ => return Err(NeedsExact),
    };
    Ok(Stored { size, meaning })
}

fn length_of(most: u64) -> Size {
    Size::Length(if most < 256 { 1 } else { 2 })
}

fn text(column: &Declared, least: usize) -> Meaning {
    if column.kind == Kind::Binary {
        Meaning::Bytes(least)
    } else {
        Meaning::Text
    }
}

fn moment(kind: u8, digits: usize) -> Fast<(Size, Meaning)> {
    if digits > MOST_FRACTION_DIGITS {
        return Err(NeedsExact);
    }
    let extra = (digits + 1) / 2;
    Ok(match kind {
        17 => (Size::Fixed(4 + extra), Meaning::Timestamp(digits)),
        18 => (Size::Fixed(5 + extra), Meaning::DateTime(digits)),
        _ => (Size::Fixed(3 + extra), Meaning::Time(digits)),
    })
}

impl Stored {
    /// Takes the bytes of the next value.
    #[inline(always)]
    pub fn take<'a>(&self, data: &'a [u8], at: &mut usize) -> Fast<&'a [u8]> {
        match self.size {
            Size::Fixed(size) => take(data, at, size),
            Size::Length(bytes) => {
                let size = little(take(data, at, bytes)?) as usize;
                take(data, at, size)
            }
            Size::Counted => {
                let size = length(data, at)?;
                take(data, at, size)
            }
        }
    }

    /// Adds a value to its column.
    #[inline(always)]
    pub fn push(&self, bytes: &[u8], column: &Declared, values: &mut Values) -> Fast<()> {
        match (&self.meaning, column.kind) {
            (Meaning::Signed, kind) => {
                let unused = 64 - 8 * bytes.len();
                let value = (little(bytes) << unused) as i64 >> unused;
                if kind == Kind::Decimal {
                    return values.write(|out| append(out, &value.to_string()));
                }
                values.push_whole(value)
            }
            (Meaning::Unsigned, Kind::Decimal) => values.write(|out| append(out, &little(bytes).to_string())),
            (Meaning::Unsigned, _) => values.push_whole(i64::try_from(little(bytes)).map_err(|_| NeedsExact)?),
            (Meaning::Year, _) => values.push_whole(if bytes[0] > 0 { i64::from(bytes[0]) + 1900 } else { 0 }),
            (Meaning::Float, _) => values.push_float(little(bytes) as u32),
            (Meaning::Double, _) => values.push_double(little(bytes)),
            (Meaning::Utf8, Kind::Binary) => values.write(|out| {
                out.extend_from_slice(bytes);
                Ok(())
            }),
            (Meaning::Bytes(least), _) => values.write(|out| {
                let end = out.len() + least;
                out.extend_from_slice(bytes);
                out.resize(end.max(out.len()), 0);
                Ok(())
            }),
            (meaning, Kind::Decimal | Kind::Text) => values.write(|out| write(meaning, bytes, column, out)),
            _ => Err(NeedsExact),
        }
    }
}

fn write(meaning: &Meaning, bytes: &[u8], column: &Declared, out: &mut Vec<u8>) -> Fast<()> {
    match meaning {
        Meaning::Text => decode(&column.charset, bytes, out),
        Meaning::Json => json::write(bytes, out),
        Meaning::Enum => match little(bytes).checked_sub(1) {
            None => Ok(()),
            Some(number) => append(out, column.labels.get(number as usize).ok_or(NeedsExact)?),
        },
        Meaning::Set => {
            let chosen = little(bytes);
            let labels =
                column.labels.iter().enumerate().filter(|(at, _)| chosen.checked_shr(*at as u32).unwrap_or(0) & 1 == 1);
            let labels: Vec<&str> = labels.map(|(_, label)| label.as_str()).collect();
            append(out, &labels.join(","))
        }
        Meaning::Decimal(decimal) => decimal.write(bytes, out),
        Meaning::Bits(_) if bytes.len() > 8 => Err(NeedsExact),
        Meaning::Bits(1) => append(out, if super::big(bytes) > 0 { "t" } else { "f" }),
        Meaning::Bits(bits) => append(out, &format!("{:0bits$b}", super::big(bytes))),
        Meaning::Date => {
            packed::write_packed_date(little(bytes), out);
            Ok(())
        }
        Meaning::Timestamp(digits) => packed::write_timestamp(bytes, *digits, out),
        Meaning::DateTime(digits) => packed::write_date_time(bytes, *digits, out),
        Meaning::Time(digits) => packed::write_time(bytes, *digits, out),
        Meaning::Utf8 => decode(&Charset::Utf8, bytes, out),
        Meaning::Moment(digits, end) => {
            packed::write_moment(bytes, *digits, out)?;
            append(out, end)
        }
        Meaning::Duration(digits) => packed::write_duration(bytes, *digits, out),
        _ => Err(NeedsExact),
    }
}

fn append(out: &mut Vec<u8>, text: &str) -> Fast<()> {
    out.extend(text.bytes());
    Ok(())
}
