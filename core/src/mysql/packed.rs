//! Values as the binary log packs them, as the texts that MySQL writes for them (`packed.py` is the reference).

use super::{big, little};
use crate::iso8601::{write_date, write_digits};
use crate::parse::{Fast, NeedsExact};

const DIGITS_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
const GROUP: usize = 9;
const MOST_DIGITS: usize = 65;
const MICROSECONDS: u64 = 1_000_000;
const DATE_TIME_OFFSET: u64 = 1 << 39;
/// A number of so many digits is the only one that is read as its double.
const SURE_DIGITS: usize = 15;
/// No double has more digits.
const MOST_PLACES: usize = 770;
const SMALLEST_POWER: i32 = -15;
const LARGEST_POWER: i32 = 15;

/// A packed decimal: groups of nine digits in four bytes, the sign in the first bit.
pub struct Decimal {
    /// How many digits each group has, in the order in which they are stored.
    groups: Vec<usize>,
    /// How many of them are before the point.
    whole: usize,
    pub bytes: usize,
}

impl Decimal {
    pub fn new(precision: usize, scale: usize) -> Fast<Decimal> {
        let whole = precision.checked_sub(scale).filter(|_| precision <= MOST_DIGITS).ok_or(NeedsExact)?;
        let mut groups = vec![whole % GROUP];
        groups.resize(1 + whole / GROUP, GROUP);
        let before = groups.len();
        groups.resize(before + scale / GROUP, GROUP);
        groups.push(scale % GROUP);
        let bytes = groups.iter().map(|digits| DIGITS_BYTES[*digits]).sum();
        Ok(Decimal { groups, whole: before, bytes })
    }

    pub fn write(&self, data: &[u8], out: &mut Vec<u8>) -> Fast<()> {
        if data.len() != self.bytes || data.is_empty() {
            return Err(NeedsExact);
        }
        let flip = if data[0] & 0x80 == 0 { 0xFF } else { 0 };
        if flip > 0 {
            out.push(b'-');
        }
        let (start, mut at) = (out.len(), 0);
        for (number, digits) in self.groups.iter().enumerate() {
            if number == self.whole {
                if out.len() == start {
                    out.push(b'0');
                }
                if self.groups[number..].iter().any(|digits| *digits > 0) {
                    out.push(b'.');
                }
            }
            let size = DIGITS_BYTES[*digits];
            let group = data[at..at + size].iter().fold(0, |value, byte| value << 8 | i64::from(byte ^ flip));
            let sign = if at == 0 && size > 0 { 0x80 << (8 * (size - 1)) } else { 0 };
            let value = group ^ sign;
            at += size;
            if value >= 10_i64.pow(*digits as u32) {
                return Err(NeedsExact);
            }
            if number >= self.whole || out.len() > start {
                write_digits(value, *digits, out);
            } else if value > 0 {
                write_digits(value, 1, out);
            }
        }
        Ok(())
    }
}

/// Writes a DATE of three bytes.
pub fn write_packed_date(packed: u64, out: &mut Vec<u8>) {
    write_day(packed >> 9, packed >> 5 & 15, packed & 31, out);
}

pub fn write_day(year: u64, month: u64, day: u64, out: &mut Vec<u8>) {
    write_digits(year as i64, 4, out);
    out.push(b'-');
    write_digits(month as i64, 2, out);
    out.push(b'-');
    write_digits(day as i64, 2, out);
}

pub fn write_clock(hour: u64, minute: u64, second: u64, out: &mut Vec<u8>) {
    write_digits(hour as i64, 2, out);
    out.push(b':');
    write_digits(minute as i64, 2, out);
    out.push(b':');
    write_digits(second as i64, 2, out);
}

pub fn write_microseconds(microseconds: u64, digits: usize, out: &mut Vec<u8>) -> Fast<()> {
    if microseconds >= MICROSECONDS || digits > 6 {
        return Err(NeedsExact);
    }
    if digits > 0 {
        out.push(b'.');
        write_digits(microseconds as i64, 6, out);
        out.truncate(out.len() - 6 + digits);
    }
    Ok(())
}

/// Writes a DATETIME: 17 bits of months, then day, hour, minute and second.
pub fn write_packed_time(packed: u64, microseconds: u64, digits: usize, out: &mut Vec<u8>) -> Fast<()> {
    let (months, day) = (packed >> 22, packed >> 17 & 31);
    write_day(months / 13, months % 13, day, out);
    out.push(b' ');
    write_clock(packed >> 12 & 31, packed >> 6 & 63, packed & 63, out);
    write_microseconds(microseconds, digits, out)
}

/// Writes a DATETIME of the log: five bytes, and those of the fraction.
pub fn write_date_time(data: &[u8], digits: usize, out: &mut Vec<u8>) -> Fast<()> {
    let (whole, part) = data.split_at(5);
    let packed = big(whole).checked_sub(DATE_TIME_OFFSET).ok_or(NeedsExact)?;
    write_packed_time(packed, fraction(part), digits, out)
}

/// Writes a TIMESTAMP of the log in UTC, with its offset; 0 is MySQL's zero.
pub fn write_timestamp(data: &[u8], digits: usize, out: &mut Vec<u8>) -> Fast<()> {
    let (whole, part) = data.split_at(4);
    let (seconds, microseconds) = (big(whole), fraction(part));
    if seconds == 0 && microseconds == 0 {
        write_day(0, 0, 0, out);
    } else {
        write_date((seconds / 86_400) as i64, out);
    }
    out.push(b' ');
    write_clock(seconds / 3600 % 24, seconds / 60 % 60, seconds % 60, out);
    write_microseconds(microseconds, digits, out)?;
    out.extend(b"+00");
    Ok(())
}

/// Writes a TIME of the log: one number with its fraction, moved so that it is positive.
pub fn write_time(data: &[u8], digits: usize, out: &mut Vec<u8>) -> Fast<()> {
    let bits = 8 * (data.len() - 3);
    let value = big(data) as i64 - (1 << (8 * data.len() - 1));
    let size = value.unsigned_abs();
    let part = (size & ((1 << bits) - 1)) * scale(data.len() - 3);
    write_packed_duration(value < 0, size >> bits, part, digits, out)
}

/// Writes a TIME: ten bits of hours, six of minutes and seconds.
pub fn write_packed_duration(
    is_negative: bool,
    whole: u64,
    microseconds: u64,
    digits: usize,
    out: &mut Vec<u8>,
) -> Fast<()> {
    if is_negative {
        out.push(b'-');
    }
    write_clock(whole >> 12 & 0x3FF, whole >> 6 & 63, whole & 63, out);
    write_microseconds(microseconds, digits, out)
}

/// Writes a date of a prepared statement, and its time if that has so many digits; what is not there is zero.
pub fn write_moment(data: &[u8], digits: Option<usize>, out: &mut Vec<u8>) -> Fast<()> {
    let mut whole = [0; 11];
    if !matches!(data.len(), 0 | 4 | 7 | 11) {
        return Err(NeedsExact);
    }
    whole[..data.len()].copy_from_slice(data);
    let [year, more, month, day, hour, minute, second, part @ ..] = whole;
    write_day(little(&[year, more]), month.into(), day.into(), out);
    if let Some(digits) = digits {
        out.push(b' ');
        write_clock(hour.into(), minute.into(), second.into(), out);
        write_microseconds(little(&part), digits, out)?;
    }
    Ok(())
}

/// Writes a TIME of a prepared statement: a sign, days, hours, minutes, seconds and microseconds.
pub fn write_duration(data: &[u8], digits: usize, out: &mut Vec<u8>) -> Fast<()> {
    let mut whole = [0; 12];
    if !matches!(data.len(), 0 | 8 | 12) {
        return Err(NeedsExact);
    }
    whole[..data.len()].copy_from_slice(data);
    if whole[0] > 0 {
        out.push(b'-');
    }
    write_clock(little(&whole[1..5]) * 24 + u64::from(whole[5]), whole[6].into(), whole[7].into(), out);
    write_microseconds(little(&whole[8..]), digits, out)
}

/// Writes a double as MySQL does: the shortest digits, with an exponent below 1e-15 and from 1e15 on.
///
/// Where two texts are as short and as near as each other, the reference decides.
pub fn write_double(value: f64, out: &mut Vec<u8>) -> Fast<()> {
    if !value.is_finite() {
        return Err(NeedsExact);
    }
    let text = format!("{:e}", value.abs());
    let (mantissa, exponent) = text.split_once('e').ok_or(NeedsExact)?;
    let digits: Vec<u8> = mantissa.bytes().filter(|byte| *byte != b'.').collect();
    if digits.len() > SURE_DIGITS && is_between(value.abs(), digits.len()) {
        return Err(NeedsExact);
    }
    let power: i32 = exponent.parse().map_err(|_| NeedsExact)?;
    if value.is_sign_negative() {
        out.push(b'-');
    }
    if !(SMALLEST_POWER..LARGEST_POWER).contains(&power) {
        out.extend(mantissa.bytes());
        out.push(b'e');
        out.extend(power.to_string().bytes());
    } else if power < 0 {
        out.extend(b"0.");
        out.resize(out.len() + (-power - 1) as usize, b'0');
        out.extend(digits);
    } else {
        let whole = power as usize + 1;
        out.extend(digits.iter().take(whole));
        out.resize(out.len() + whole.saturating_sub(digits.len()), b'0');
        if digits.len() > whole {
            out.push(b'.');
            out.extend(&digits[whole..]);
        }
    }
    Ok(())
}

/// Whether a number is exactly in the middle of two numbers of so many digits.
fn is_between(value: f64, digits: usize) -> bool {
    let mantissa = |places: usize| format!("{value:.places$e}").split('e').next().map_or(vec![], |found| found.into());
    let more: Vec<u8> = mantissa(digits);
    more.ends_with(b"5") && mantissa(MOST_PLACES)[more.len()..].iter().all(|digit| *digit == b'0')
}

/// Microseconds of a fraction of so many bytes, each two digits.
fn fraction(part: &[u8]) -> u64 {
    big(part) * scale(part.len())
}

fn scale(bytes: usize) -> u64 {
    100_u64.pow(3 - bytes as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn double(value: f64) -> String {
        let mut out = vec![];
        write_double(value, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_double_has_an_exponent_where_mysql_writes_one() {
        let values = [0.0, -0.0, 1e14, 1e15, 1e-15, 1.5e-16, -123456.789, 1.25e-10, 5e-324];
        let texts = ["0", "-0", "100000000000000", "1e15", "0.000000000000001", "1.5e-16", "-123456.789"];
        let found = values.map(double);
        assert_eq!(found[..7], texts);
        assert_eq!(found[7..], ["0.000000000125", "5e-324"]);
    }

    #[test]
    fn a_double_amid_two_texts_is_left() {
        for quarters in [5_629_488_431_541_585, 5_629_488_431_541_587_i64] {
            write_double(quarters as f64 / 4.0, &mut vec![]).unwrap_err();
        }
        assert_eq!([0.1 + 0.2, 1.5e16].map(double), ["0.30000000000000004", "1.5e16"]);
    }

    #[test]
    fn a_decimal_has_its_digits_and_its_sign_and_groups_that_are_too_large_are_left() {
        let decimal = Decimal::new(5, 2).unwrap();
        let written = |data: &[u8]| {
            let mut out = vec![];
            decimal.write(data, &mut out).map(|()| String::from_utf8(out).unwrap())
        };
        assert_eq!(written(&[0x80, 1, 50]).unwrap(), "1.50");
        assert_eq!(written(&[0x7F, 0xFE, 0xCD]).unwrap(), "-1.50");
        assert_eq!(written(&[0x80, 0, 5]).unwrap(), "0.05");
        written(&[0x80, 1, 100]).unwrap_err();
        written(&[0x80, 1]).unwrap_err();
    }
}
