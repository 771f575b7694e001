//! Messages that become one value: timestamps, durations, JSON (`calve.serde.protobuf.leaves` is the reference).

use crate::iso8601::{write_date, write_fraction, write_time};
use crate::parse::{Fast, NeedsExact};
use crate::protobuf::json;
use crate::protobuf::wire::{Reader, VARINT};

const FIRST_SECOND: i64 = -62_135_596_800;
const LAST_SECOND: i64 = 253_402_300_799;
const MOST_SECONDS: i64 = 315_576_000_000;
const NANOS: i64 = 1_000_000_000;
const DIGITS: u32 = 9;
const DAY: i64 = 86_400;

pub enum Leaf {
    /// Microseconds; other timestamps are left.
    Timestamp,
    TimestampText,
    Duration,
    Json(json::Kind),
    /// A message without fields.
    Empty,
}

/// The microseconds of a timestamp.
pub fn micros(payload: &[u8]) -> Fast<i64> {
    let (seconds, nanos) = timestamp(payload)?;
    if nanos % 1000 != 0 {
        return Err(NeedsExact);
    }
    Ok(seconds * 1_000_000 + nanos / 1000)
}

/// Appends the text of a message.
pub fn write(leaf: &Leaf, payload: &[u8], out: &mut Vec<u8>) -> Fast<()> {
    match leaf {
        Leaf::Json(kind) => return json::write(*kind, payload, out),
        Leaf::Empty => {
            let mut reader = Reader::new(payload);
            while reader.has_more() {
                let (number, wire) = reader.tag()?;
                reader.skip(number, wire)?;
            }
            out.extend(b"{}");
        }
        Leaf::Duration => {
            let (seconds, nanos) = parts(payload)?;
            let is_mixed = (seconds < 0 && nanos > 0) || (seconds > 0 && nanos < 0);
            if !(-MOST_SECONDS..=MOST_SECONDS).contains(&seconds) || nanos.abs() >= NANOS || is_mixed {
                return Err(NeedsExact);
            }
            out.extend(if seconds < 0 || nanos < 0 { &b"PT-"[..] } else { b"PT" });
            out.extend(seconds.abs().to_string().bytes());
            write_fraction(nanos.abs(), DIGITS, out);
            out.push(b'S');
        }
        Leaf::Timestamp | Leaf::TimestampText => {
            let (seconds, nanos) = timestamp(payload)?;
            write_date(seconds.div_euclid(DAY), out);
            out.push(b'T');
            write_time(seconds.rem_euclid(DAY), nanos, DIGITS, out);
            out.push(b'Z');
        }
    }
    Ok(())
}

fn timestamp(payload: &[u8]) -> Fast<(i64, i64)> {
    let (seconds, nanos) = parts(payload)?;
    if !(FIRST_SECOND..=LAST_SECOND).contains(&seconds) || !(0..NANOS).contains(&nanos) {
        return Err(NeedsExact);
    }
    Ok((seconds, nanos))
}

/// Seconds and nanoseconds, the fields 1 and 2 of both messages.
fn parts(payload: &[u8]) -> Fast<(i64, i64)> {
    let (mut seconds, mut nanos, mut reader) = (0, 0, Reader::new(payload));
    while reader.has_more() {
        match reader.tag()? {
            (1, VARINT) => seconds = reader.varint()? as i64,
            (2, VARINT) => nanos = i64::from(reader.varint()? as i32),
            (1 | 2, _) => return Err(NeedsExact),
            (number, wire) => reader.skip(number, wire)?,
        }
    }
    Ok((seconds, nanos))
}
