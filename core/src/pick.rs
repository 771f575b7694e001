//! The few fields that routes and names of tables ask for, so that SQL sees each distinct choice of them once.

use crate::convert::Events;
use crate::parse::{Done, Left, Parser};
use crate::text::quote_byte;
use std::collections::HashMap;

/// Of each event the number of its text in `texts`: an object of the wanted fields alone, as they are written there.
///
/// An event that is no JSON object stands for itself. Of a repeated field the first one counts: who wants the last has
/// to look first (`check::is_plain`).
pub struct Picked {
    pub numbers: Vec<i32>,
    pub texts: Vec<Vec<u8>>,
}

pub fn pick(events: &impl Events, names: &[&str]) -> Picked {
    let wanted: Vec<Vec<u8>> = names.iter().map(|name| quoted(name)).collect();
    let mut picked = Picked { numbers: Vec::with_capacity(events.count()), texts: vec![] };
    let mut known: HashMap<Vec<u8>, i32> = HashMap::new();
    let (mut text, mut values) = (Vec::new(), vec![None; names.len()]);
    for row in 0..events.count() {
        let event = events.text(row).unwrap_or(b"");
        text.clear();
        values.fill(None);
        match fields(event, names, &mut values) {
            Ok(()) => write(&wanted, &values, &mut text),
            Err(Left) => text.extend_from_slice(event),
        }
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

/// Finds the values of some fields of an event, as they are written; it looks no further than it must.
fn fields<'a>(event: &'a [u8], names: &[&str], values: &mut [Option<&'a [u8]>]) -> Done<()> {
    let mut parser = Parser::new(event);
    parser.blanks();
    if parser.peek() != b'{' {
        return Err(Left);
    }
    let mut missing = names.len();
    let mut more = parser.open(b'}')?;
    while more && missing > 0 {
        let key = parser.key()?;
        let found = key.with(|key| names.iter().position(|name| name.as_bytes() == key))?;
        let start = parser.at;
        parser.skip()?;
        if let Some(value) = found.map(|number| &mut values[number]).filter(|value| value.is_none()) {
            *value = Some(&event[start..parser.at]);
            missing -= 1;
        }
        more = parser.more(b'}')?;
    }
    Ok(())
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
