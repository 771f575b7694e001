//! Rows of a prepared statement as columns (`results.py` is the reference).
//!
//! https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html

use super::column::{Declared, Values};
use super::stored::{self, Stored};
use super::take;
use crate::convert::Events;
use crate::parse::{Fast, NeedsExact};

/// Type, flags, length and digits of a column, as Python gives them.
const COLUMN_BYTES: usize = 8;
const LONGEST: usize = 0xFF_FFFF;
const HEAD_BYTES: usize = 4;
const EOF: u8 = 0xFE;
const ERROR: u8 = 0xFF;

/// Joins the packets that are completely there, up to one that may be an end, an error or a part.
pub fn packets(data: &[u8]) -> (usize, Vec<u8>, Vec<i32>) {
    let (mut at, mut joined, mut lengths) = (0, Vec::with_capacity(data.len()), vec![]);
    while let Some(head) = data.get(at..at + HEAD_BYTES) {
        let size = super::little(&head[..3]) as usize;
        let Some(packet) = data.get(at + HEAD_BYTES..).and_then(|rest| rest.get(..size)) else { break };
        if size == LONGEST || matches!(packet.first(), None | Some(&EOF | &ERROR)) {
            break;
        }
        joined.extend_from_slice(packet);
        lengths.push(size as i32);
        at += HEAD_BYTES + size;
    }
    (at, joined, lengths)
}

/// Decodes rows whose columns the server described.
pub fn rows(rows: &impl Events, described: &[u8], columns: &[Declared]) -> Fast<Vec<Values>> {
    if described.len() != columns.len() * COLUMN_BYTES {
        return Err(NeedsExact);
    }
    let stored: Vec<Stored> = described.chunks_exact(COLUMN_BYTES).map(stored::of_result).collect::<Fast<_>>()?;
    let mut found: Vec<Values> = columns.iter().map(|column| Values::of(column.kind)).collect();
    for number in 0..rows.count() {
        let data = rows.value(number).ok_or(NeedsExact)?;
        let mut at = 1;
        let nulls = take(data, &mut at, (columns.len() + 9) / 8)?;
        for (index, stored) in stored.iter().enumerate() {
            if nulls[(index + 2) / 8] >> ((index + 2) % 8) & 1 == 1 {
                found[index].push_null();
            } else {
                stored.push(stored.take(data, &mut at)?, &columns[index], &mut found[index])?;
            }
        }
        if data[0] != 0 || at != data.len() {
            return Err(NeedsExact);
        }
    }
    Ok(found)
}
