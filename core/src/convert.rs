//! Events into the rows of a table; events that are not certainly right are left to the exact converter.

use crate::export::{self, Array};
use crate::object_columns::{EventNotes, ObjectColumns};
use crate::parse::Parser;
use std::collections::HashMap;

/// Events: texts in one piece of memory.
pub trait Events {
    fn count(&self) -> usize;
    /// The bytes of an event; None where there is none.
    fn value(&self, at: usize) -> Option<&[u8]>;
    /// The text of an event; None where there is none, or none that is UTF-8.
    fn text(&self, at: usize) -> Option<&[u8]>;
    fn bytes(&self) -> usize;
    /// Lets the processor load an event that is soon read.
    fn fetch(&self, _at: usize) {}
}

/// How many events before it is read an event is fetched, where the processor does not foresee which one is next.
const AHEAD: usize = 4;

pub struct Converter {
    level: ObjectColumns,
    notes: EventNotes,
}

/// What became of events: the columns of the good ones, their positions; those of them that have fields without a column,
/// and of each of these the number of its set of such fields; all sets. And the values that Python decides: the rows of
/// `columns`, the numbers of the columns, their texts. And what the fields without a column hold, as `Node.to_json` writes
/// it: a text if that was looked at, and is all that there is to know of these events.
pub struct Converted {
    pub columns: Array,
    pub rows: Array,
    pub unknown_rows: Array,
    pub sets: Array,
    pub fields: Array,
    pub deferred: [Array; 3],
    pub new: Array,
}

impl Converter {
    pub fn new(level: ObjectColumns) -> Converter {
        let notes = EventNotes::new(level.names.observes);
        Converter { level, notes }
    }

    /// Converts events: all of them, or those at these positions, in this order. Positions in the result are those in it.
    pub fn convert(&mut self, events: &impl Events, order: Option<&[i64]>) -> Converted {
        let count = order.map_or(events.count(), <[i64]>::len);
        if self.notes.is_half_full() {
            self.notes = EventNotes::new(self.notes.observes);
            self.level.forget();
        }
        self.notes.seen.lost = false;
        self.level.begin();
        self.level.reserve(count, events.bytes());
        self.level.columns.iter_mut().for_each(|column| column.truncate(0)); // a panic may have left something
        let mut rows: Vec<i64> = Vec::with_capacity(count);
        let (mut unknown_rows, mut sets): (Vec<i64>, Vec<i64>) = (vec![], vec![]);
        let mut numbers: HashMap<Vec<u32>, usize> = HashMap::new();
        let (mut positions, mut deferred, mut texts): (Vec<i64>, Vec<i64>, Vec<&[u8]>) = (vec![], vec![], vec![]);
        for row in 0..count {
            if let Some(next) = order.and_then(|order| order.get(row + AHEAD)) {
                events.fetch(*next as usize);
            }
            let event = events.text(order.map_or(row, |order| order[row] as usize));
            if !self.take(event) {
                self.level.columns.iter_mut().for_each(|column| column.truncate(rows.len()));
                self.notes.seen.lost |= !self.notes.unknown.is_empty(); // they are not those of this event
                continue;
            }
            for (column, range) in self.notes.deferred.drain(..) {
                positions.push(rows.len() as i64);
                deferred.push(column as i64);
                texts.extend(event.map(|text| &text[range]));
            }
            rows.push(row as i64);
            if !self.notes.unknown.is_empty() {
                let next = numbers.len();
                let number = match numbers.get(&self.notes.unknown) {
                    Some(number) => *number,
                    None => *numbers.entry(self.notes.unknown.clone()).or_insert(next),
                };
                unknown_rows.push(row as i64);
                sets.push(number as i64);
            }
        }
        let mut fields: Vec<(Vec<u32>, usize)> = numbers.into_iter().collect();
        fields.sort_by_key(|(_, number)| *number);
        let paths = |set: &[u32]| set.iter().map(|&one| self.notes.paths[one as usize].clone()).collect();
        Converted {
            fields: export::lists(fields.iter().map(|(set, _)| paths(set)).collect()),
            columns: export::columns(&mut self.level.columns, rows.len()),
            rows: export::longs(rows),
            unknown_rows: export::longs(unknown_rows),
            sets: export::longs(sets),
            new: export::texts(&self.new_fields()),
            deferred: [export::longs(positions), export::longs(deferred), export::texts(&texts)],
        }
    }

    fn new_fields(&self) -> Vec<Vec<u8>> {
        let mut text = Vec::new();
        let has_any = self.notes.observes && !self.notes.seen.lost && self.level.write_new(&mut text);
        has_any.then_some(text).into_iter().collect()
    }

    #[inline(always)]
    fn take(&mut self, event: Option<&[u8]>) -> bool {
        let Some(event) = event else { return false };
        self.notes.begin();
        let (level, notes) = (&mut self.level, &mut self.notes);
        Parser::new(event).whole(|parser| level.object(parser, notes, true)).is_ok()
    }
}
