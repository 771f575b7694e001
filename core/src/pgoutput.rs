//! What PostgreSQL sends of its log: changes of `pgoutput` (protocol version 1, text) as columns of texts.
//!
//! https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html

use crate::convert::Events;
use crate::export::Texts;
use std::str;

/// Of a message: its kind and its length.
pub const HEAD_BYTES: usize = 5;
/// Of the message of replication before a message of `pgoutput`: `w` and three numbers.
const WAL_BYTES: usize = 25;
const INSERT: i32 = 0;
const UPDATE: i32 = 1;
const DELETE: i32 = 2;
/// The delete of the row with the old key of an UPDATE.
const DELETE_OLD: i32 = 3;

type Value<'a> = Option<&'a [u8]>;

/// Gives the bytes of the data messages at the beginning that are complete, one after the other.
pub fn frames(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let head = data.get(at..at + HEAD_BYTES)?;
        let end = at + 1 + integer(&head[1..]);
        let found = data.get(at + HEAD_BYTES..end).filter(|_| head[0] == b'd')?;
        at = end;
        Some(found)
    })
}

/// Messages of replication.
#[derive(Default)]
pub struct Messages {
    /// The bytes that they take in the stream.
    pub size: usize,
    /// Changes of one table that follow each other, without what is before each; or another message as it is.
    pub pieces: Vec<Vec<u8>>,
    /// How many changes a piece has; 0: it is another message.
    pub counts: Vec<i32>,
    /// The length of each change.
    pub lengths: Vec<i32>,
}

/// Takes the messages of replication that are completely there, and joins complete changes.
pub fn messages(data: &[u8]) -> Messages {
    let mut found = Messages::default();
    for frame in frames(data) {
        found.size += HEAD_BYTES + frame.len();
        match change(frame) {
            Some(change) => found.push(change),
            None => {
                found.pieces.push(frame.to_vec());
                found.counts.push(0);
            }
        }
    }
    found
}

impl Messages {
    fn push(&mut self, change: &[u8]) {
        self.lengths.push(change.len() as i32);
        if let (Some(piece), Some(count @ 1..)) = (self.pieces.last_mut(), self.counts.last_mut()) {
            if piece[1..HEAD_BYTES] == change[1..HEAD_BYTES] {
                piece.extend_from_slice(change);
                *count += 1;
                return;
            }
        }
        self.pieces.push(change.to_vec());
        self.counts.push(1);
    }
}

/// Gives the change in a message of replication, if it lacks no value.
fn change(frame: &[u8]) -> Option<&[u8]> {
    let message = frame.get(WAL_BYTES..).filter(|_| frame[0] == b'w')?;
    let mut reader = Reader { message, at: HEAD_BYTES };
    let rows = match message.first()? {
        b'I' | b'D' => 1,
        b'U' if matches!(message.get(HEAD_BYTES)?, b'K' | b'O') => 2,
        b'U' => 1,
        _ => return None,
    };
    for _ in 0..rows {
        reader.kind()?;
        let count = reader.count()?;
        (0..count).try_for_each(|_| reader.value().map(|_| ()))?;
    }
    (reader.at == message.len()).then_some(message)
}

/// The rows of changes.
pub struct Rows {
    pub columns: Vec<Texts>,
    /// The number of the change of each row.
    pub changes: Vec<i32>,
    pub kinds: Vec<i32>,
}

impl Rows {
    pub fn new(columns: usize) -> Rows {
        Rows { columns: (0..columns).map(|_| Texts::default()).collect(), changes: vec![], kinds: vec![] }
    }

    fn push(&mut self, number: usize, kind: i32, row: &[Value]) -> Option<()> {
        self.changes.push(i32::try_from(number).ok()?);
        self.kinds.push(kind);
        self.columns.iter_mut().zip(row).try_for_each(|(column, value)| column.push(*value)).ok()
    }
}

/// Decodes changes of a table of which `keys` tells whether a column is of the key; None where the exact reader must.
pub fn rows(changes: &impl Events, keys: &[u8]) -> Option<Rows> {
    let mut found = Rows::new(keys.len());
    let (mut old, mut new) = (Vec::with_capacity(keys.len()), Vec::with_capacity(keys.len()));
    for number in 0..changes.count() {
        let message = changes.value(number)?;
        let mut reader = Reader { message, at: HEAD_BYTES };
        let kind = *message.first()?;
        let mut row = reader.kind()?;
        let has_old = row != b'N';
        if has_old {
            reader.row(keys.len(), &mut old)?;
            let others = old.iter_mut().zip(keys).filter(|(_, key)| **key == 0);
            others.for_each(|(value, _)| *value = None);
            row = if kind == b'D' { b'N' } else { reader.kind()? };
        }
        if kind != b'D' {
            reader.row(keys.len(), &mut new)?;
        }
        if row != b'N' || reader.at != message.len() {
            return None;
        }
        match (kind, has_old) {
            (b'I', false) => found.push(number, INSERT, &new)?,
            (b'D', true) => found.push(number, DELETE, &old)?,
            (b'U', _) => {
                let is_other = |((old, new), key): ((&Value, &Value), &u8)| *key != 0 && old != new;
                if has_old && old.iter().zip(&new).zip(keys).any(is_other) {
                    found.push(number, DELETE_OLD, &old)?;
                }
                found.push(number, UPDATE, &new)?;
            }
            _ => return None,
        }
    }
    Some(found)
}

struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let found = self.message.get(self.at..)?.get(..size)?;
        self.at += size;
        Some(found)
    }

    /// Reads what a row is: the new one, the old one, or its key.
    fn kind(&mut self) -> Option<u8> {
        Some(self.take(1)?[0]).filter(|kind| matches!(kind, b'N' | b'O' | b'K'))
    }

    fn count(&mut self) -> Option<usize> {
        self.take(2).map(integer)
    }

    /// Reads a value; None if it is left out.
    fn value(&mut self) -> Option<Value<'a>> {
        match self.take(1)?[0] {
            b'n' => Some(None),
            b't' => {
                let size = self.take(4).map(integer)?;
                self.take(size).map(Some)
            }
            _ => None,
        }
    }

    fn row(&mut self, count: usize, row: &mut Vec<Value<'a>>) -> Option<()> {
        row.clear();
        if self.count()? != count {
            return None;
        }
        for _ in 0..count {
            let value = self.value()?;
            if value.is_some_and(|text| str::from_utf8(text).is_err()) {
                return None;
            }
            row.push(value);
        }
        Some(())
    }
}

fn integer(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |value, byte| value << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
    }

    fn wal(message: &[u8]) -> Vec<u8> {
        framed(b'd', &[&[b'w'; WAL_BYTES][..], message].concat())
    }

    #[test]
    fn changes_of_a_table_are_joined_and_what_lacks_a_value_is_a_message_of_its_own() {
        let insert = b"I\0\0\0\x01N\0\x02nt\0\0\0\x01a";
        let other = b"I\0\0\0\x02N\0\x01n";
        let lacking = b"U\0\0\0\x01N\0\x02nu";
        let sent = [wal(insert), wal(insert), wal(other), wal(lacking), wal(insert), wal(b"C")].concat();
        let found = messages(&[&sent[..], b"d\0\0"].concat());
        assert_eq!(found.size, sent.len());
        assert_eq!(found.counts, [2, 1, 0, 1, 0]);
        assert_eq!(found.lengths, [15, 15, 9, 15]);
        assert_eq!(found.pieces[0], [&insert[..], insert].concat());
        assert_eq!(found.pieces[3], insert);
    }
}
