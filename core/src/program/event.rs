//! An event as its top-level fields, while it is processed.

use crate::layout::Layout;
use crate::parse::Fast;
use crate::text::{quote_plain, Text};
use std::ops::Range;

const NOWHERE: usize = usize::MAX;

/// Where a value is: in the event as it came, or in what was made for it.
#[derive(Clone)]
pub struct Place {
    is_made: bool,
    at: Range<usize>,
}

/// A field; the key of one that was made is that of its name.
struct Member {
    name: usize,
    key: Option<Range<usize>>,
    value: Option<Place>,
}

/// An event while it is processed. Names are those of the program, by number.
pub struct Event<'a> {
    names: &'a [Vec<u8>],
    keys: Vec<Vec<u8>>,
    /// Which names the keys are.
    layout: Layout<usize>,
    text: &'a [u8],
    made: Vec<u8>,
    members: Vec<Member>,
    /// Of each name its member.
    at: Vec<usize>,
}

impl<'a> Event<'a> {
    pub fn new(names: &'a [Vec<u8>]) -> Event<'a> {
        let quoted = |name: &Vec<u8>| {
            let mut key = vec![];
            quote_plain(name, &mut key);
            key
        };
        Event {
            names,
            keys: names.iter().map(quoted).collect(),
            layout: Layout::default(),
            text: &[],
            made: vec![],
            members: vec![],
            at: vec![NOWHERE; names.len()],
        }
    }

    /// Reads an object in which no object repeats a key, and whose own keys have no escapes.
    pub fn read(&mut self, text: &'a [u8]) -> Fast<()> {
        self.text = text;
        self.made.clear();
        self.members.clear();
        self.at.fill(NOWHERE);
        let Event { names, layout, members, at, .. } = self;
        let find = |key: &[u8]| names.iter().position(|name| name == key).unwrap_or(NOWHERE);
        layout.read(text, find, |parser, key, name| {
            if name != NOWHERE {
                at[name] = members.len();
            }
            let from = parser.at;
            parser.skip_unique()?;
            members.push(Member { name, key: Some(key), value: Some(Place { is_made: false, at: from..parser.at }) });
            Ok(())
        })
    }

    /// Writes the event as it is now.
    pub fn write(&self, out: &mut Vec<u8>) -> Fast<()> {
        let start = out.len();
        out.push(b'{');
        for member in &self.members {
            if let Some(value) = &member.value {
                if out.len() > start + 1 {
                    out.push(b',');
                }
                match &member.key {
                    Some(key) => out.extend_from_slice(&self.text[key.clone()]),
                    None => out.extend_from_slice(&self.keys[member.name]),
                }
                out.push(b':');
                out.extend_from_slice(self.json(value));
            }
        }
        out.push(b'}');
        Ok(())
    }

    /// Writes some fields as an object.
    pub fn choose(&self, names: &[usize], out: &mut Vec<u8>) {
        out.push(b'{');
        for &name in names {
            if let Some(value) = self.value(name) {
                if out.len() > 1 {
                    out.push(b',');
                }
                out.extend_from_slice(&self.keys[name]);
                out.push(b':');
                out.extend_from_slice(self.json(value));
            }
        }
        out.push(b'}');
    }

    pub fn value(&self, name: usize) -> Option<&Place> {
        self.members.get(self.at[name])?.value.as_ref()
    }

    pub fn has(&self, name: usize) -> bool {
        self.at[name] != NOWHERE
    }

    /// Sets a field, in its place or at the end.
    pub fn put(&mut self, name: usize, value: Place) {
        if self.at[name] == NOWHERE {
            self.at[name] = self.members.len();
            self.members.push(Member { name, key: None, value: None });
        }
        self.members[self.at[name]].value = Some(value);
    }

    pub fn remove(&mut self, name: usize) -> Option<Place> {
        self.members.get_mut(std::mem::replace(&mut self.at[name], NOWHERE))?.value.take()
    }

    /// Removes all fields but these, which come in this order.
    pub fn select(&mut self, names: &[usize]) {
        let kept: Vec<_> = names.iter().filter_map(|&name| Some((name, self.value(name)?.clone()))).collect();
        self.members.clear();
        self.at.fill(NOWHERE);
        kept.into_iter().for_each(|(name, value)| self.put(name, value));
    }

    /// Makes a value by a function that appends it.
    pub fn make(&mut self, append: impl FnOnce(&mut Vec<u8>)) -> Place {
        let start = self.made.len();
        append(&mut self.made);
        Place { is_made: true, at: start..self.made.len() }
    }

    /// The JSON of a value.
    pub fn json(&self, value: &Place) -> &[u8] {
        if value.is_made {
            &self.made[value.at.clone()]
        } else {
            &self.text[value.at.clone()]
        }
    }

    /// Appends a string without its quotes and escapes, any other value as it is.
    pub fn append(&self, value: &Place, out: &mut Vec<u8>) -> Fast<()> {
        match self.json(value) {
            [b'"', raw @ .., b'"'] => Text { raw, escaped: raw.contains(&b'\\') }.write(out),
            json => {
                out.extend_from_slice(json);
                Ok(())
            }
        }
    }
}
