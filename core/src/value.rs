//! Texts of numbers, dates and times as values: exactly, or not at all (`calve.convert.scalar`, `calve.convert.iso8601`).

use crate::parse::Number;

pub const POWERS: usize = 39;
const DOUBLES: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];
const SAFE: u64 = 1 << 53;

/// A decimal number: `(-1)^negative * mantissa * 10^exponent`, the mantissa without trailing zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exact {
    pub negative: bool,
    pub mantissa: u128,
    pub exponent: i64,
}

/// Reads `[+-]?(digits(.digits*)?|.digits)([eE][+-]?digits)?`; None: it is none, or has more than 38 digits.
///
/// A zero with an exponent is not decided: whether that is too large for an integer depends on the exponent.
pub fn exact(text: &[u8]) -> Option<Exact> {
    let negative = text.first() == Some(&b'-');
    let mut at = usize::from(negative || text.first() == Some(&b'+'));
    let (mut mantissa, mut zeros, mut exponent) = (0u128, 0u32, 0i64);
    let (mut digits, mut point) = (0, false);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'0'..=b'9' => {
                digits += 1;
                exponent -= i64::from(point);
                if byte == b'0' {
                    zeros += u32::from(mantissa != 0);
                } else {
                    mantissa = mantissa.checked_mul(10u128.checked_pow(zeros + 1)?)?;
                    mantissa = mantissa.checked_add(u128::from(byte - b'0'))?;
                    zeros = 0;
                }
            }
            b'.' if !point => point = true,
            _ => break,
        }
        at += 1;
    }
    if digits == 0 || mantissa >= 10u128.pow(38) {
        return None;
    }
    exponent += i64::from(zeros);
    if at < text.len() {
        if mantissa == 0 {
            return None;
        }
        exponent += power(&text[at..])?;
    }
    if mantissa == 0 {
        exponent = 0;
    }
    Some(Exact { negative, mantissa, exponent })
}

fn power(text: &[u8]) -> Option<i64> {
    let (first, rest) = text.split_first()?;
    if first | 32 != b'e' {
        return None;
    }
    let minus = rest.first() == Some(&b'-');
    let digits = &rest[usize::from(minus || rest.first() == Some(&b'+'))..];
    if digits.is_empty() || digits.len() > 9 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    Some(if minus { -value } else { value })
}

impl Exact {
    /// The number times a power of ten, if that is whole.
    pub fn whole(self, shift: i64) -> Option<i128> {
        if self.mantissa == 0 {
            return Some(0);
        }
        let power = u32::try_from(self.exponent + shift).ok().filter(|&power| power < POWERS as u32)?;
        let value = i128::try_from(self.mantissa.checked_mul(10u128.pow(power))?).ok()?;
        Some(if self.negative { -value } else { value })
    }

    /// The place of the first digit: 0 for 1 to 9.
    pub fn magnitude(self) -> i64 {
        self.mantissa.checked_ilog10().map_or(0, i64::from) + self.exponent
    }
}

/// A text as a whole number in bounds.
pub fn integer(text: &[u8], low: i64, high: i64) -> Option<i64> {
    let value = i64::try_from(exact(text)?.whole(0)?).ok()?;
    (low..=high).contains(&value).then_some(value)
}

pub fn decimal(text: &[u8], precision: u32, scale: u32) -> Option<i128> {
    let value = exact(text)?.whole(i64::from(scale))?;
    (value.unsigned_abs() < 10u128.pow(precision)).then_some(value)
}

#[inline(always)]
pub fn double(number: &Number) -> Option<f64> {
    if number.digits <= 19 && number.mantissa < SAFE && (-22..=22).contains(&number.exponent) {
        let mantissa = number.mantissa as f64;
        let power = DOUBLES[number.exponent.unsigned_abs() as usize];
        let value = if number.exponent < 0 { mantissa / power } else { mantissa * power };
        return Some(if number.negative { -value } else { value });
    }
    slow_double(number.text)
}

/// A text of digits, signs, points and exponents; whole numbers only if a double keeps all their digits.
#[cold]
fn slow_double(text: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok().filter(|value: &f64| value.is_finite())?;
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    if value.abs() >= SAFE as f64 && digits.contains(&b'.') && !digits.iter().any(|byte| byte | 32 == b'e') {
        return None; // perhaps a whole number
    }
    if value.abs() >= SAFE as f64 && digits.iter().all(u8::is_ascii_digit) {
        let whole = std::str::from_utf8(digits).ok()?.parse::<u128>().ok().filter(|&whole| whole < 1 << 127)?;
        return (value.abs() as u128 == whole).then_some(value);
    }
    Some(value)
}

/// A double as a float; a whole number that a float does not keep, or one too large, is not decided here.
#[inline(always)]
pub fn narrow(value: f64) -> Option<f32> {
    let narrow = value as f32;
    let is_changed = f64::from(narrow) != value && (value.fract() == 0.0 || narrow.is_infinite());
    (!is_changed).then_some(narrow)
}

pub fn text_double(text: &[u8]) -> Option<f64> {
    match text {
        b"NaN" => Some(f64::NAN),
        b"Infinity" | b"+Infinity" => Some(f64::INFINITY),
        b"-Infinity" => Some(f64::NEG_INFINITY),
        _ if text.iter().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte)) => slow_double(text),
        _ => None,
    }
}

/// Whether the shortest text of the double nearest to a number has the same value (`kinds.number_kind`).
pub fn survives_double(number: &Number) -> bool {
    if number.digits <= 15 && (-290..=290).contains(&number.exponent) {
        return true;
    }
    let value = std::str::from_utf8(number.text).ok().and_then(|text| text.parse::<f64>().ok());
    match (value, exact(number.text)) {
        (Some(value), Some(written)) if value.is_finite() => exact(format!("{value:e}").as_bytes())
            .map_or(written.mantissa == 0 && value == 0.0, |shortest| {
                (shortest.mantissa, shortest.exponent) == (written.mantissa, written.exponent)
            }),
        (Some(value), None) => {
            value == 0.0
                && number.text.iter().take_while(|byte| **byte | 32 != b'e').all(|b| !(b'1'..=b'9').contains(b))
        }
        _ => false,
    }
}

pub fn boolean(text: &[u8]) -> Option<u8> {
    if text.eq_ignore_ascii_case(b"true") {
        Some(1)
    } else if text.eq_ignore_ascii_case(b"false") {
        Some(0)
    } else {
        None
    }
}

pub fn uuid(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let dashes = [8, 13, 18, 23];
    let dashed = text.len() == 36 && dashes.iter().all(|&at| text[at] == b'-');
    if !dashed && text.len() != 32 {
        return None;
    }
    let mut digits = (0..text.len()).filter(|at| !dashed || !dashes.contains(at));
    while let (Some(high), Some(low)) = (digits.next(), digits.next()) {
        let high = char::from(text[high]).to_digit(16)?;
        out.push((high * 16 + char::from(text[low]).to_digit(16)?) as u8);
    }
    Some(())
}

/// Strict Base64 with its padding, appended without it.
pub fn base64(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    if text.len() % 4 != 0 {
        return None;
    }
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return None;
    }
    for block in text[..text.len() - padding].chunks(4) {
        let mut bits = 0u32;
        for &byte in block {
            bits = bits << 6 | sextet(byte)?;
        }
        bits <<= 6 * (4 - block.len());
        out.extend_from_slice(&bits.to_be_bytes()[1..block.len()]);
    }
    Some(())
}

fn sextet(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}
