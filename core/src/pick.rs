//! Whether events are JSON objects that every reader takes for the same, and the few fields of them that routes and names of
//! tables ask for, so that SQL sees each distinct choice of these once.

use crate::convert::Events;
use crate::parse::{Done, Left, Parser};
use crate::text::{quote_byte, Keys};
use std::collections::HashMap;

/// Of each event the number of its text in `texts`: an object of the wanted fields alone, as they are written there.
///
/// -1: the event is not plain (`check::is_plain`).
#[derive(Default)]
pub struct Picked {
    pub numbers: Vec<i32>,
    pub texts: Vec<Vec<u8>>,
}

pub fn pick(events: &impl Events, names: &[&str]) -> Picked {
    let wanted: Vec<Vec<u8>> = names.iter().map(|name| quoted(name)).collect();
    let mut picked = Picked::default();
    let mut known: HashMap<Vec<u8>, i32> = HashMap::new();
    let mut fields = Fields { names, last: Vec::new() };
    let (mut text, mut values) = (Vec::new(), vec![None; names.len()]);
    for row in 0..events.count() {
        values.fill(None);
        if events.text(row).map_or(Err(Left), |event| fields.find(event, &mut values)).is_err() {
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
    /// The first keys of the last event as they are written, all different, and which of the names each is: as long as an
    /// event has the same, none needs to be compared with the others.
    last: Vec<(&'a [u8], Option<usize>)>,
}

impl<'a> Fields<'_, 'a> {
    fn find(&mut self, event: &'a [u8], values: &mut [Option<&'a [u8]>]) -> Done<()> {
        let Fields { names, last } = self;
        let (mut number, mut is_same, mut keys) = (0, true, Keys::default());
        Parser::new(event).whole(|parser| {
            parser.object(|parser, key| {
                let found = match last.get(number) {
                    Some((raw, found)) if is_same && !key.escaped && *raw == key.raw => *found,
                    _ => {
                        if is_same {
                            is_same = false;
                            last.truncate(number);
                            keys = Keys::of(last.iter().map(|(raw, _)| *raw));
                        }
                        if !keys.add(key)? {
                            return Err(Left);
                        }
                        let found = key.with(|key| names.iter().position(|name| name.as_bytes() == key))?;
                        last.push((key.raw, found));
                        found
                    }
                };
                number += 1;
                let start = parser.at;
                parser.skip_unique()?;
                if let Some(name) = found {
                    values[name] = Some(&event[start..parser.at]);
                }
                Ok(())
            })
        })
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
