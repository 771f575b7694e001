//! Masks of the top-level fields of events: their values become columns, and masked columns become their values again.
//!
//! What it writes is what `calve.processors.masking` writes, byte for byte; what it cannot know for certain it leaves to it.

use crate::convert::Events;
use crate::export::Texts;
use crate::layout::Layout;
use crate::parse::{Fast, NeedsExact};
use crate::spec::Spec;
use crate::text::{quote_plain, Text};
use std::collections::{HashMap, HashSet};

/// So many keys are remembered, and asked for at once.
const MOST_KEYS: usize = 20_000;
/// In place of the number of a mask: nothing is known of a key yet; it has no mask (any other number below 0); no mask,
/// but fields inside of its value may have one.
const UNKNOWN: i32 = -1;
const MAY_HAVE_INSIDE: i32 = -3;

enum Mask {
    Drop,
    /// JSON for any value but null.
    Put(Vec<u8>),
    /// Another text; `is_text`: instead of any value, else for a number a number.
    Change {
        is_text: bool,
    },
}

pub struct MaskedFields {
    masks: Vec<Mask>,
    known: HashMap<Vec<u8>, i32>,
    layout: Layout<i32>,
    read: Read,
}

/// The events that were read, without the values that are to be changed.
#[derive(Default)]
struct Read {
    /// All texts without these values.
    kept: Vec<u8>,
    holes: Vec<Hole>,
    /// Of each event where its text and its holes end; None: it is left.
    ends: Vec<Option<(usize, usize)>>,
    /// The values of each mask.
    values: Vec<Texts>,
    /// Their numbers.
    counts: Vec<usize>,
}

struct Hole {
    /// Where in `kept`.
    at: usize,
    mask: usize,
    has_quotes: bool,
}

impl MaskedFields {
    /// Reads the masks; None: one is not known here.
    pub fn new(spec: &mut Spec) -> Option<MaskedFields> {
        let masks = (0..spec.number()?).map(|_| {
            Some(match spec.text()? {
                "drop" => Mask::Drop,
                "put" => Mask::Put(spec.text()?.into()),
                "change" => Mask::Change { is_text: spec.flag()? },
                _ => return None,
            })
        });
        let masks = masks.collect::<Option<_>>()?;
        Some(MaskedFields { masks, known: HashMap::new(), layout: Layout::default(), read: Read::default() })
    }

    /// Remembers for some keys the number of a mask, or what stands for none.
    pub fn learn(&mut self, keys: &impl Events, numbers: &[i32]) {
        if self.known.len() > MOST_KEYS {
            self.known.clear();
        }
        self.layout.forget();
        for (row, number) in numbers.iter().enumerate().take(keys.count()) {
            self.known.extend(keys.text(row).map(|key| (key.to_vec(), *number)));
        }
    }

    /// Reads events; gives the keys that are to be learnt before some of them can be read, and the values of each mask.
    pub fn read(&mut self, events: &impl Events) -> (Vec<Vec<u8>>, Vec<Texts>) {
        let MaskedFields { masks, known, layout, read } = self;
        *read = Read::default();
        read.kept.reserve(events.bytes());
        read.values.resize_with(masks.len(), Texts::default);
        read.counts.resize(masks.len(), 0);
        let mut asked = HashSet::new();
        for row in 0..events.count() {
            let before = (read.kept.len(), read.holes.len());
            let is_read = events.text(row).map_or(Err(NeedsExact), |text| {
                read.kept.push(b'{');
                let mut is_known = true;
                let find = |key: &[u8]| {
                    known.get(key).copied().unwrap_or_else(|| {
                        if asked.len() < MOST_KEYS {
                            asked.insert(key.to_vec());
                        }
                        UNKNOWN
                    })
                };
                layout.read(text, find, |parser, key, number| {
                    is_known &= number != UNKNOWN;
                    let start = parser.at;
                    parser.skip_unique()?;
                    read.add(&text[key], &text[start..parser.at], number, masks, before.0 + 1)
                })?;
                read.kept.push(b'}');
                is_known.then_some(()).ok_or(NeedsExact)
            });
            if is_read.is_err() {
                read.undo(before);
            }
            read.ends.push(is_read.ok().map(|()| (read.kept.len(), read.holes.len())));
        }
        (asked.into_iter().collect(), std::mem::take(&mut read.values))
    }

    /// Writes the events that were read with other values, those of each mask in order; null for events that are left.
    pub fn write(&mut self, values: &impl Events) -> Texts {
        let MaskedFields { masks, read, .. } = self;
        let starts = read.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum - count)
        });
        let mut next: Vec<usize> = starts.collect();
        let mut texts = Texts::with_capacity(read.ends.len(), read.kept.len() + values.bytes() + 2 * read.holes.len());
        let (mut at, mut holes) = (0, read.holes.iter());
        let mut written = 0;
        for end in &read.ends {
            let Some((end, last)) = *end else {
                texts.push_null();
                continue;
            };
            let is_written = texts.write(|out| {
                for hole in holes.by_ref().take(last - written) {
                    out.extend_from_slice(&read.kept[at..hole.at]);
                    at = hole.at;
                    let value = values.text(next[hole.mask]);
                    next[hole.mask] += 1;
                    let is_text = hole.has_quotes || matches!(masks[hole.mask], Mask::Change { is_text: true });
                    match value {
                        Some(text) if is_text => quote_plain(text, out),
                        value => out.extend_from_slice(value.unwrap_or(b"null")),
                    }
                }
                out.extend_from_slice(&read.kept[at..end]);
                Ok(())
            });
            if is_written.is_err() {
                texts.push_null();
            }
            (at, written) = (end, last);
        }
        texts
    }
}

impl Read {
    /// Adds a field to an event whose fields begin at `first`.
    #[inline(always)]
    fn add(&mut self, key: &[u8], value: &[u8], number: i32, masks: &[Mask], first: usize) -> Fast<()> {
        let is_nested = matches!(value.first(), Some(b'{' | b'['));
        let mask = usize::try_from(number).ok().and_then(|number| masks.get(number));
        match mask {
            None if number == MAY_HAVE_INSIDE && is_nested => return Err(NeedsExact),
            Some(Mask::Drop) => return Ok(()),
            _ => {}
        }
        if self.kept.len() > first {
            self.kept.push(b',');
        }
        self.kept.extend_from_slice(key);
        self.kept.push(b':');
        match mask {
            Some(Mask::Put(json)) if value != b"null" => self.kept.extend_from_slice(json),
            Some(Mask::Change { .. }) if is_nested => return Err(NeedsExact),
            Some(Mask::Change { .. }) if value != b"null" => return self.take_out(value, number as usize),
            _ => self.kept.extend_from_slice(value),
        }
        Ok(())
    }

    /// Adds a value to those of a mask.
    fn take_out(&mut self, value: &[u8], mask: usize) -> Fast<()> {
        let values = &mut self.values[mask];
        match value {
            [b'"', raw @ .., b'"'] => values.write(|out| Text { raw, escaped: raw.contains(&b'\\') }.write(out))?,
            _ => values.push(Some(value)).map_err(|_| NeedsExact)?,
        }
        self.counts[mask] += 1;
        self.holes.push(Hole { at: self.kept.len(), mask, has_quotes: value[0] == b'"' });
        Ok(())
    }

    /// Removes what an event has left that could not be read to its end.
    fn undo(&mut self, (kept, holes): (usize, usize)) {
        self.kept.truncate(kept);
        for hole in self.holes.drain(holes..) {
            self.counts[hole.mask] -= 1;
            self.values[hole.mask].truncate(self.counts[hole.mask]);
        }
    }
}
