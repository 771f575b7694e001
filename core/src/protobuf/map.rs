//! Maps: on the wire a list of messages with a key and a value, of which the last of each key counts.

use crate::column::{Column, Store};
use crate::parse::{Fast, NeedsExact};
use crate::protobuf::field::Field;
use crate::protobuf::wire::Reader;
use std::collections::HashMap;
use std::ops::Range;

/// So many keys are compared with each other; more are looked up.
const FEW: usize = 8;

pub struct Map {
    pub key: Field,
    pub value: Field,
}

#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Number(i128),
    Text(&'a [u8]),
}

impl Map {
    /// Reads an entry, and notes where it is; one whose value is a number that its enum does not know is no entry.
    pub fn read(&mut self, column: &mut Column, pieces: &mut Vec<Range<usize>>, reader: Reader) -> Fast<()> {
        let Store::Map(ends, pair) = &mut column.store else { return Err(NeedsExact) };
        if ends.last().map(|&end| end as usize) == Some(pair.0.valid.len()) {
            pieces.clear();
        }
        if self.read_entry(pair, reader)? {
            pieces.push(reader.at..reader.end);
        }
        Ok(())
    }

    fn read_entry(&mut self, (keys, values): &mut (Column, Column), mut reader: Reader) -> Fast<bool> {
        let row = keys.valid.len();
        while reader.has_more() {
            let (number, wire) = reader.tag()?;
            let is_known = match number {
                1 => self.key.read(keys, row, wire, &mut reader)?,
                2 => self.value.read(values, row, wire, &mut reader)?,
                _ => {
                    reader.skip(number, wire)?;
                    true
                }
            };
            if !is_known {
                keys.truncate(row);
                values.truncate(row);
                return Ok(false);
            }
        }
        self.key.close(keys, row, &reader)?;
        self.value.close(values, row, &reader)?;
        Ok(true)
    }

    /// Ends the open row; where a key is repeated, its entries are read again, each key once.
    pub fn close(&mut self, column: &mut Column, pieces: &[Range<usize>], whole: &Reader) -> Fast<()> {
        let Store::Map(ends, pair) = &mut column.store else { return Err(NeedsExact) };
        let start = ends.last().map_or(0, |&end| end as usize);
        if let Some(kept) = last_of_each(&pair.0, start) {
            pair.0.truncate(start);
            pair.1.truncate(start);
            for at in kept {
                self.read_entry(pair, whole.within(&pieces[at]))?;
            }
        }
        ends.push(i32::try_from(pair.0.valid.len()).map_err(|_| NeedsExact)?);
        column.valid.push(1);
        Ok(())
    }
}

/// The numbers of the entries with the last value of each key, in the order of the keys; None: no key is repeated.
fn last_of_each(keys: &Column, start: usize) -> Option<Vec<usize>> {
    let count = keys.valid.len() - start;
    if count < 2 {
        return None;
    }
    let found: Vec<Key> = (start..start + count).map(|at| key(keys, at)).collect::<Option<_>>()?;
    if count <= FEW && (1..count).all(|at| !found[..at].contains(&found[at])) {
        return None;
    }
    let (mut kept, mut numbers): (Vec<usize>, HashMap<&Key, usize>) = (vec![], HashMap::new());
    for (at, key) in found.iter().enumerate() {
        let next = kept.len();
        let number = *numbers.entry(key).or_insert(next);
        if number == next {
            kept.push(at);
        } else {
            kept[number] = at;
        }
    }
    (kept.len() < count).then_some(kept)
}

fn key(keys: &Column, at: usize) -> Option<Key<'_>> {
    Some(match &keys.store {
        Store::Bytes(ends, values) => Key::Text(values.get(*ends.get(at)? as usize..*ends.get(at + 1)? as usize)?),
        Store::Bits(values) => Key::Number((*values.get(at)?).into()),
        Store::Ints(values) => Key::Number((*values.get(at)?).into()),
        Store::Longs(values) => Key::Number((*values.get(at)?).into()),
        Store::Decimals(values) => Key::Number(*values.get(at)?),
        _ => return None,
    })
}
