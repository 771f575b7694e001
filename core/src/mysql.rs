//! What MySQL and MariaDB send: rows of the binary log, and of prepared statements, as columns.
//!
//! The decoders in Python (`sources/mysql/rows/log_rows.py` and `results.py`) are the reference; what is not as it should be is left
//! to them.

pub mod column;
pub mod json;
pub mod packed;
pub mod results;
pub mod rows;
pub mod stored;

use crate::parse::{Fast, NeedsExact};

/// Takes the next bytes.
#[inline(always)]
pub fn take<'a>(data: &'a [u8], at: &mut usize, size: usize) -> Fast<&'a [u8]> {
    let found = data.get(*at..).and_then(|rest| rest.get(..size)).ok_or(NeedsExact)?;
    *at += size;
    Ok(found)
}

/// Reads an integer, the lowest byte first.
#[inline(always)]
pub fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Reads an integer, the highest byte first.
#[inline(always)]
pub fn big(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Reads an integer of variable length.
#[inline(always)]
pub fn length(data: &[u8], at: &mut usize) -> Fast<usize> {
    let size = match take(data, at, 1)?[0] {
        small @ ..=250 => return Ok(small.into()),
        252 => 2,
        253 => 3,
        254 => 8,
        _ => return Err(NeedsExact),
    };
    usize::try_from(little(take(data, at, size)?)).map_err(|_| NeedsExact)
}
