//! JSON as MySQL stores it, as `CAST(… AS CHAR)` writes it (`json_binary.py` is the reference).
//!
//! https://dev.mysql.com/doc/dev/mysql-server/latest/json__binary_8h.html

use super::packed::{write_double, write_packed_duration, write_packed_time, Decimal};
use super::{little, take};
use crate::kafka::base64;
use crate::parse::{Fast, NeedsExact};
use crate::text::quote_byte;
use std::str;

const LARGE_OBJECT: u8 = 1;
const LARGE_ARRAY: u8 = 3;
const LITERAL: u8 = 4;
/// MySQL has no deeper values.
const MOST_LEVELS: usize = 128;
const FRACTION: u64 = 0xFF_FFFF;

/// Writes a value; an empty one is a JSON null.
pub fn write(data: &[u8], out: &mut Vec<u8>) -> Fast<()> {
    match data.first() {
        Some(kind) => value(*kind, data, 1, MOST_LEVELS, out),
        None => {
            out.extend(b"null");
            Ok(())
        }
    }
}

fn value(kind: u8, data: &[u8], mut at: usize, levels: usize, out: &mut Vec<u8>) -> Fast<()> {
    match kind {
        0..=LARGE_ARRAY => {
            container(kind, data.get(at..).ok_or(NeedsExact)?, levels.checked_sub(1).ok_or(NeedsExact)?, out)?
        }
        LITERAL => out.extend(match take(data, &mut at, 1)?[0] {
            0 => &b"null"[..],
            1 => b"true",
            2 => b"false",
            _ => return Err(NeedsExact),
        }),
        5..=10 => {
            let bytes = take(data, &mut at, 2 << ((kind - 5) / 2))?;
            let (number, unused) = (little(bytes), 64 - 8 * bytes.len());
            let is_signed = kind % 2 == 1;
            let text = if is_signed { ((number << unused) as i64 >> unused).to_string() } else { number.to_string() };
            out.extend(text.bytes());
        }
        11 => {
            let start = out.len();
            write_double(f64::from_bits(little(take(data, &mut at, 8)?)), out)?;
            if !out[start..].iter().any(|byte| matches!(byte, b'.' | b'e')) {
                out.extend(b".0");
            }
        }
        12 => {
            let size = length(data, &mut at)?;
            string(take(data, &mut at, size)?, out)?;
        }
        15 => {
            let of = take(data, &mut at, 1)?[0];
            let size = length(data, &mut at)?;
            opaque(of, take(data, &mut at, size)?, out)?;
        }
        _ => return Err(NeedsExact),
    }
    Ok(())
}

/// Writes an object or array; its offsets count from its own beginning.
fn container(kind: u8, data: &[u8], levels: usize, out: &mut Vec<u8>) -> Fast<()> {
    let is_object = kind <= LARGE_OBJECT;
    let is_large = matches!(kind, LARGE_OBJECT | LARGE_ARRAY);
    let size = if is_large { 4 } else { 2 };
    let number = |mut at: usize, size: usize| Ok(little(take(data, &mut at, size)?) as usize);
    let count = number(0, size)?;
    let keys_at = 2 * size;
    let values_at = keys_at + if is_object { count.checked_mul(size + 2).ok_or(NeedsExact)? } else { 0 };
    out.push(if is_object { b'{' } else { b'[' });
    for index in 0..count {
        if index > 0 {
            out.extend(b", ");
        }
        if is_object {
            let key_at = keys_at + index * (size + 2);
            let mut start = number(key_at, size)?;
            string(take(data, &mut start, number(key_at + size, 2)?)?, out)?;
            out.extend(b": ");
        }
        let at = values_at + index * (size + 1);
        let own = number(at, 1)? as u8;
        let is_inline = matches!(own, LITERAL..=6) || (is_large && matches!(own, 7 | 8));
        let value_at = if is_inline { at + 1 } else { number(at + 1, size)? };
        value(own, data, value_at, levels, out)?;
    }
    out.push(if is_object { b'}' } else { b']' });
    Ok(())
}

fn opaque(kind: u8, data: &[u8], out: &mut Vec<u8>) -> Fast<()> {
    if kind == 246 {
        let size = take(data, &mut 0, 2)?;
        return Decimal::new(size[0].into(), size[1].into())?.write(&data[2..], out);
    }
    if !matches!(kind, 7 | 10..=12) {
        out.extend(format!("\"base64:type{kind}:{}\"", base64(data)).bytes());
        return Ok(());
    }
    let packed = little(take(data, &mut 0, 8)?) as i64;
    let (size, is_negative) = (packed.unsigned_abs(), packed < 0);
    out.push(b'"');
    match kind {
        11 => write_packed_duration(is_negative, size >> 24, size & FRACTION, 6, out)?,
        _ if is_negative => return Err(NeedsExact),
        10 => {
            let start = out.len();
            write_packed_time(size >> 24, 0, 0, out)?;
            out.truncate(start + 10);
        }
        _ => write_packed_time(size >> 24, size & FRACTION, 6, out)?,
    }
    out.push(b'"');
    Ok(())
}

/// Reads a length of seven bits a byte.
fn length(data: &[u8], at: &mut usize) -> Fast<usize> {
    let mut size = 0;
    for shift in (0..35).step_by(7) {
        let byte = take(data, at, 1)?[0];
        size |= usize::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Ok(size);
        }
    }
    Err(NeedsExact)
}

fn string(text: &[u8], out: &mut Vec<u8>) -> Fast<()> {
    str::from_utf8(text).map_err(|_| NeedsExact)?;
    out.push(b'"');
    if text.iter().any(|byte| *byte < 32 || matches!(byte, b'"' | b'\\')) {
        text.iter().for_each(|byte| quote_byte(*byte, out));
    } else {
        out.extend_from_slice(text);
    }
    out.push(b'"');
    Ok(())
}
