//! Rows of the binary log as columns.

use super::column::{Declared, Values};
use super::stored::{layout, Stored};
use super::{big, take};
use crate::convert::Events;
use crate::parse::{Fast, NeedsExact};

const INSERT: i32 = 0;
const UPDATE: i32 = 1;
const DELETE: i32 = 2;
/// The delete of the row with the old key of an UPDATE.
const DELETE_OLD: i32 = 3;
/// The number of the table, the kind of the changes, and the size of the layout.
const OID_BYTES: usize = 4;

type Row<'a> = Vec<Option<&'a [u8]>>;

/// The rows of changes.
pub struct Rows {
    pub columns: Vec<Values>,
    /// The number of the message of each row.
    pub messages: Vec<i32>,
    pub kinds: Vec<i32>,
}

impl Rows {
    pub fn new(columns: &[Declared]) -> Rows {
        let columns = columns.iter().map(|column| Values::of(column.kind)).collect();
        Rows { columns, messages: vec![], kinds: vec![] }
    }
}

/// Decodes messages of a table (`rows.message` in Python).
pub fn rows(messages: &impl Events, columns: &[Declared]) -> Fast<Rows> {
    let mut decoder = Decoder { columns, stored: vec![], found: Rows::new(columns) };
    let (mut known, mut old, mut new): (&[u8], _, _) = (&[], vec![], vec![]);
    for number in 0..messages.count() {
        let data = messages.value(number).ok_or(NeedsExact)?;
        let mut at = OID_BYTES;
        let kind = take(data, &mut at, 1)?[0];
        let size = big(take(data, &mut at, 2)?) as usize;
        let described = take(data, &mut at, size)?;
        if described != known {
            decoder.stored = layout(described, columns)?;
            known = described;
        }
        let number = i32::try_from(number).map_err(|_| NeedsExact)?;
        while at < data.len() {
            match kind {
                b'I' => {
                    decoder.take(data, &mut at, &mut new)?;
                    decoder.push(number, INSERT, &new)?;
                }
                b'D' => {
                    decoder.take(data, &mut at, &mut old)?;
                    decoder.push_key(number, DELETE, &old)?;
                }
                b'U' => {
                    decoder.take(data, &mut at, &mut old)?;
                    decoder.take(data, &mut at, &mut new)?;
                    decoder.update(number, &old, &new)?;
                }
                _ => return Err(NeedsExact),
            }
        }
    }
    Ok(decoder.found)
}

struct Decoder<'a> {
    columns: &'a [Declared],
    stored: Vec<Stored>,
    found: Rows,
}

impl Decoder<'_> {
    /// Takes the values of the next row as they are stored.
    fn take<'b>(&self, data: &'b [u8], at: &mut usize, row: &mut Row<'b>) -> Fast<()> {
        row.clear();
        let nulls = take(data, at, (self.stored.len() + 7) / 8)?;
        for (index, stored) in self.stored.iter().enumerate() {
            let is_null = nulls[index / 8] >> (index % 8) & 1 == 1;
            row.push(if is_null { None } else { Some(stored.take(data, at)?) });
        }
        Ok(())
    }

    fn push(&mut self, number: i32, kind: i32, row: &Row) -> Fast<()> {
        self.add(number, kind, row, false)
    }

    /// Adds a row with its key alone.
    fn push_key(&mut self, number: i32, kind: i32, row: &Row) -> Fast<()> {
        self.add(number, kind, row, true)
    }

    #[inline(always)]
    fn add(&mut self, number: i32, kind: i32, row: &Row, only_key: bool) -> Fast<()> {
        self.found.messages.push(number);
        self.found.kinds.push(kind);
        let each = row.iter().zip(&self.stored).zip(self.columns).zip(&mut self.found.columns);
        for (((value, stored), column), values) in each {
            match value {
                Some(bytes) if column.is_key || !only_key => stored.push(bytes, column, values)?,
                _ => values.push_null(),
            }
        }
        Ok(())
    }

    /// Adds an update; a new key is a delete of the old one, too. Different bytes may be the same value.
    fn update(&mut self, number: i32, old: &Row, new: &Row) -> Fast<()> {
        let mut keys = self.columns.iter().zip(old.iter().zip(new)).filter(|(column, _)| column.is_key);
        if keys.all(|(_, (old, new))| old == new) {
            return self.push(number, UPDATE, new);
        }
        let start = self.found.kinds.len();
        self.push_key(number, DELETE_OLD, old)?;
        self.push(number, UPDATE, new)?;
        let mut keys = self.found.columns.iter().zip(self.columns).filter(|(_, column)| column.is_key);
        if keys.all(|(values, _)| values.repeats()) {
            self.found.messages.truncate(start);
            self.found.kinds.truncate(start);
            self.found.columns.iter_mut().for_each(|values| values.truncate(start));
            return self.push(number, UPDATE, new);
        }
        Ok(())
    }
}
