//! Whether events are JSON objects that every reader takes for the same, and the few fields of them that routes and names of
//! tables ask for, so that SQL sees each distinct choice of these once.

use crate::convert::Events;
use crate::parse::{Fast, NeedsExact, Parser};
use crate::text::{quote_byte, Keys};
use std::collections::hash_map::{HashMap, RandomState};
use std::hash::{BuildHasher, Hasher};

/// Of each event the number of its text in `texts`: an object of the wanted fields alone, as they are written there.
///
/// -1: the event is not plain (`check::is_plain`).
#[derive(Default)]
pub struct ScannedFields {
    pub numbers: Vec<i32>,
    pub texts: Vec<Vec<u8>>,
}

/// Picks the fields with these names; `is_whole`: events are read to their ends. Else what lies behind the last wanted field
/// is not seen, and it is for others to find events that are not plain.
pub fn scan_fields(events: &impl Events, names: &[&str], is_whole: bool) -> ScannedFields {
    let wanted: Vec<Vec<u8>> = names.iter().map(|name| quoted(name)).collect();
    let mut picked = ScannedFields::default();
    let mut known: HashMap<Vec<u8>, i32, Seed> = HashMap::with_hasher(Seed(RandomState::new().build_hasher().finish()));
    let mut fields = Fields { names, is_whole, last: Vec::new() };
    let (mut text, mut values) = (Vec::new(), vec![None; names.len()]);
    for row in 0..events.count() {
        values.fill(None);
        if events.text(row).map_or(Err(NeedsExact), |event| fields.find(event, &mut values)).is_err() {
            picked.numbers.push(-1);
            continue;
        }
        text.clear();
        write(&wanted, &values, &mut text);
        let number = match known.get(&text) {
            Some(number) => *number,
            None => {
                let number = picked.texts.len() as i32;
                picked.texts.push(text.clone());
                known.insert(text.clone(), number);
                number
            }
        };
        picked.numbers.push(number);
    }
    picked
}

/// Finds the values of some fields of plain events, as they are written.
struct Fields<'n, 'a> {
    names: &'n [&'n str],
    is_whole: bool,
    /// The first keys of the last event, all different: as long as an event has the same, none needs to be compared with
    /// the others.
    last: Vec<Known<'a>>,
}

struct Known<'a> {
    key: &'a [u8],
    /// `"key":` as it was written; empty if it was written otherwise.
    pattern: &'a [u8],
    /// Which of the names it is.
    found: Option<usize>,
}

impl<'a> Fields<'_, 'a> {
    fn find(&mut self, event: &'a [u8], values: &mut [Option<&'a [u8]>]) -> Fast<()> {
        let Fields { names, is_whole, last } = self;
        let (mut number, mut is_same, mut keys) = (0, true, Keys::default());
        let mut missing = if *is_whole { usize::MAX } else { names.len() };
        let mut parser = Parser::new(event);
        parser.begin()?;
        let mut more = parser.open(b'}')?;
        while more {
            let found = match last.get(number) {
                Some(known) if is_same && parser.passes(known.pattern) => known.found,
                _ => {
                    let start = parser.at;
                    let key = parser.key()?;
                    if is_same {
                        is_same = false;
                        last.truncate(number);
                        keys = Keys::of(last.iter().map(|known| known.key));
                    }
                    if !keys.add(key)? {
                        return Err(NeedsExact);
                    }
                    let found = key.with(|key| names.iter().position(|name| name.as_bytes() == key))?;
                    let pattern = &event[start..(start + key.raw.len() + 3).min(parser.at)];
                    let is_plain = !key.escaped && pattern.ends_with(b"\":");
                    last.push(Known { key: key.raw, pattern: if is_plain { pattern } else { b"" }, found });
                    found
                }
            };
            number += 1;
            let start = parser.at;
            match found {
                None if !*is_whole => parser.skip()?,
                _ => parser.skip_unique()?,
            }
            if let Some(name) = found {
                values[name] = Some(&event[start..parser.at]);
                missing -= 1;
                if missing == 0 {
                    return Ok(());
                }
            }
            more = parser.more(b'}')?;
        }
        parser.end()
    }
}

/// Hashes the texts of one call, which has a seed of its own: events cannot be made to meet in one place.
#[derive(Clone, Copy)]
struct Seed(u64);

impl BuildHasher for Seed {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded(self.0)
    }
}

struct Folded(u64);

impl Folded {
    #[inline(always)]
    fn fold(&mut self, word: u64) {
        let wide = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (wide >> 64) as u64 ^ wide as u64;
    }
}

impl Hasher for Folded {
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.fold(word.try_into().map_or(0, u64::from_le_bytes));
        }
        let mut last = [0; 8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        self.fold(u64::from_le_bytes(last));
    }

    #[inline(always)]
    fn write_usize(&mut self, length: usize) {
        self.fold(length as u64);
    }

    #[inline(always)]
    fn write_u8(&mut self, byte: u8) {
        self.fold(u64::from(byte));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn write(names: &[Vec<u8>], values: &[Option<&[u8]>], out: &mut Vec<u8>) {
    out.push(b'{');
    for (name, value) in names.iter().zip(values) {
        if let Some(value) = value {
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend_from_slice(name);
            out.extend_from_slice(value);
        }
    }
    out.push(b'}');
}

/// A name with its quotes and colon.
fn quoted(name: &str) -> Vec<u8> {
    let mut out = vec![b'"'];
    name.bytes().for_each(|byte| quote_byte(byte, &mut out));
    out.extend(b"\":");
    out
}
