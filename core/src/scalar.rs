//! One value of a simple type, read from an event: a number, or a string that holds it.

use crate::iso8601::{self, DAY, FIRST_DAY, LAST_DAY};
use crate::parse::{Fast, NeedsExact, Parser};
use crate::value;

/// What numbers in a column of timestamps count: `10^-scale` seconds, or what their size suggests.
#[derive(Clone, Copy)]
pub enum Counts {
    Scale(i64),
    Auto,
}

/// Numbers in a column of timestamps, and whether texts may hold them.
#[derive(Clone, Copy)]
pub struct Numbers {
    pub counts: Counts,
    pub in_texts: bool,
}

/// Reads a string by a function.
#[inline(always)]
pub fn text<T>(parser: &mut Parser, read: impl FnOnce(&[u8]) -> Option<T>) -> Fast<T> {
    parser.string()?.with(read)?.ok_or(NeedsExact)
}

/// Reads a number or a string that holds one.
#[inline(always)]
pub fn either<T>(parser: &mut Parser, read: impl FnOnce(&[u8]) -> Option<T>) -> Fast<T> {
    if parser.is_number() {
        return read(parser.number()?.text).ok_or(NeedsExact);
    }
    text(parser, read)
}

#[inline(always)]
pub fn long(parser: &mut Parser) -> Fast<i64> {
    if !parser.is_number() {
        return text(parser, |text| value::integer(text, i64::MIN, i64::MAX));
    }
    let number = parser.number()?;
    if number.whole && number.digits <= 18 {
        let value = number.mantissa as i64;
        return Ok(if number.negative { -value } else { value });
    }
    value::integer(number.text, i64::MIN, i64::MAX).ok_or(NeedsExact)
}

#[inline(always)]
pub fn double(parser: &mut Parser) -> Fast<f64> {
    if !parser.is_number() {
        return text(parser, value::text_double);
    }
    value::double(&parser.number()?).ok_or(NeedsExact)
}

#[inline(always)]
pub fn timestamp(parser: &mut Parser, digits: usize, numbers: Numbers, takes_zones: bool) -> Fast<i64> {
    let second = 10i64.pow(digits as u32);
    let found = if parser.is_number() {
        since_1970(parser.number()?.text, digits, numbers.counts)
    } else {
        text(parser, |text| {
            let Some(stamp) = iso8601::stamp(text) else {
                return numbers.in_texts.then(|| since_1970(text, digits, numbers.counts)).flatten();
            };
            let days = stamp.seconds.div_euclid(DAY);
            if !(FIRST_DAY..=LAST_DAY).contains(&days) || (stamp.has_zone && !takes_zones) {
                return None;
            }
            stamp.seconds.checked_mul(second)?.checked_add(iso8601::units(stamp.fraction, digits)?)
        })
        .map(Some)?
    };
    found.ok_or(NeedsExact)
}

/// A number as units since 1970, in the years 1 to 9999.
fn since_1970(number: &[u8], digits: usize, counts: Counts) -> Option<i64> {
    let exact = value::exact(number)?;
    let scale = match counts {
        Counts::Scale(scale) => scale,
        Counts::Auto => match exact.magnitude() {
            ..=10 => 0,
            11..=13 => 3,
            14..=16 => 6,
            _ => 9,
        },
    };
    let value = i64::try_from(exact.whole(digits as i64 - scale)?).ok()?;
    let day = value.div_euclid(DAY * 10i64.pow(digits as u32));
    (FIRST_DAY..=LAST_DAY).contains(&day).then_some(value)
}

/// A date, or a number of days since 1970.
pub fn date(parser: &mut Parser) -> Fast<i64> {
    let days = if parser.is_number() {
        value::integer(parser.number()?.text, FIRST_DAY, LAST_DAY)
    } else {
        text(parser, |text| {
            let stamp = iso8601::stamp(text)?;
            let is_midnight = stamp.seconds % DAY == 0 && iso8601::units(stamp.fraction, 0).is_some();
            is_midnight.then_some(stamp.seconds / DAY)
        })
        .map(Some)?
    };
    days.filter(|day| (FIRST_DAY..=LAST_DAY).contains(day)).ok_or(NeedsExact)
}

/// Microseconds since midnight, or a number of milliseconds.
pub fn time(parser: &mut Parser) -> Fast<i64> {
    let micros = if parser.is_number() {
        value::exact(parser.number()?.text).and_then(|exact| i64::try_from(exact.whole(3)?).ok())
    } else {
        text(parser, |text| {
            let (seconds, fraction) = iso8601::time(text)?;
            Some(seconds * 1_000_000 + iso8601::units(fraction, 6)?)
        })
        .map(Some)?
    };
    micros.filter(|value| (0..DAY * 1_000_000).contains(value)).ok_or(NeedsExact)
}
