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
    let (mut text, mut values) = (Vec::new(), vec![None; names.len()]);
    for row in 0..events.count() {
        values.fill(None);
        if events.text(row).map_or(Err(Left), |event| fields(event, names, &mut values)).is_err() {
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

/// Finds the values of some fields of a plain event, as they are written.
fn fields<'a>(event: &'a [u8], names: &[&str], values: &mut [Option<&'a [u8]>]) -> Done<()> {
    let mut keys = Keys::default();
    Parser::new(event).whole(|parser| {
        parser.object(|parser, key| {
            if !keys.add(key)? {
                return Err(Left);
            }
            let found = key.with(|key| names.iter().position(|name| name.as_bytes() == key))?;
            let start = parser.at;
            parser.skip_unique()?;
            if let Some(number) = found {
                values[number] = Some(&event[start..parser.at]);
            }
            Ok(())
        })
    })
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
