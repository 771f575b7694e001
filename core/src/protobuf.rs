//! Messages of Protobuf into columns, in one pass over each; those that are not certainly right are left to the exact decoder
//! (`calve.serde.protobuf.exact`).

pub mod field;
pub mod json;
pub mod leaf;
pub mod map;
pub mod message;
pub mod plan;
pub mod wire;

use crate::column::Column;
use crate::convert::Events;
use crate::export::{self, Array};
use crate::protobuf::message::Message;
use crate::protobuf::wire::Reader;

pub struct Decoder {
    message: Message,
    columns: Vec<Column>,
}

/// The columns of the messages that were decoded, and their positions.
pub struct Decoded {
    pub columns: Array,
    pub rows: Array,
}

impl Decoder {
    pub fn new(message: Message, columns: Vec<Column>) -> Decoder {
        Decoder { message, columns }
    }

    /// Decodes values; `start` is the first byte of each that belongs to its message.
    pub fn decode(&mut self, values: &impl Events, start: usize) -> Decoded {
        let share = values.bytes() / self.columns.len().max(2) * 2;
        for column in &mut self.columns {
            column.reserve(values.count(), share);
            column.truncate(0); // a panic may have left something
        }
        let mut rows: Vec<i64> = Vec::with_capacity(values.count());
        for at in 0..values.count() {
            if self.take(values.value(at).and_then(|value| value.get(start..)), rows.len()) {
                rows.push(at as i64);
            } else {
                self.columns.iter_mut().for_each(|column| column.truncate(rows.len()));
            }
        }
        Decoded { columns: export::columns(&mut self.columns, rows.len()), rows: export::longs(rows) }
    }

    #[inline(always)]
    fn take(&mut self, value: Option<&[u8]>, row: usize) -> bool {
        let Some(value) = value else { return false };
        let (columns, reader) = (&mut self.columns, Reader::new(value));
        self.message.read(columns, row, reader).and_then(|()| self.message.close(columns, row, &reader)).is_ok()
    }
}
