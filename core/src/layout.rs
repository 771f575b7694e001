//! The keys of events, which mostly are those of the event before, in the same order.

use crate::parse::{Fast, NeedsExact, Parser};
use crate::text::{Keys, Text};
use std::ops::Range;

/// So many keys are expected to come again in the next event.
const MOST_KEYS: usize = 256;

/// Reads events, and remembers for the keys of the last one what was found for each.
pub struct Layout<T> {
    /// None is repeated; as they were written up to the colon.
    keys: Vec<(Vec<u8>, T)>,
    /// Where the keys of this event are.
    at: Vec<Range<usize>>,
}

impl<T> Default for Layout<T> {
    fn default() -> Layout<T> {
        Layout { keys: vec![], at: vec![] }
    }
}

impl<T: Copy> Layout<T> {
    /// Forgets what was found for the keys.
    pub fn forget(&mut self) {
        self.keys.clear();
    }

    /// Reads an object that repeats no key, and whose own keys have no escapes.
    ///
    /// `find` gets a key that is not the one expected; `member` gets each key with its quotes, and leaves its value behind.
    #[inline(always)]
    pub fn read<'a>(
        &mut self,
        text: &'a [u8],
        mut find: impl FnMut(&'a [u8]) -> T,
        mut member: impl FnMut(&mut Parser<'a>, Range<usize>, T) -> Fast<()>,
    ) -> Fast<()> {
        self.at.clear();
        let mut keys = None;
        Parser::new(text).whole(|parser| {
            let mut more = parser.open(b'}')?;
            while more {
                let start = parser.at;
                let expected = self.keys.get(self.at.len()).filter(|_| keys.is_none());
                let (found, end) = match expected.filter(|(key, _)| text[start..].starts_with(key)) {
                    Some((key, found)) => {
                        parser.at += key.len();
                        parser.blanks();
                        (*found, start + key.len() - 1)
                    }
                    None => self.other_key(parser, text, &mut keys, &mut find)?,
                };
                self.at.push(start..end);
                member(parser, start..end, found)?;
                more = parser.more(b'}')?;
            }
            Ok(())
        })
    }

    /// Reads a key that is not the one expected; this event has another layout from there on.
    #[inline(never)]
    fn other_key<'a>(
        &mut self,
        parser: &mut Parser<'a>,
        text: &'a [u8],
        keys: &mut Option<Keys<'a>>,
        find: &mut impl FnMut(&'a [u8]) -> T,
    ) -> Fast<(T, usize)> {
        let (start, number) = (parser.at, self.at.len());
        if keys.is_none() {
            self.keys.truncate(number);
            let known = keys.insert(Keys::default());
            for key in &self.at {
                known.add(Text { raw: &text[key.start + 1..key.end - 1], escaped: false })?;
            }
        }
        let key = parser.key()?;
        if key.escaped || !keys.get_or_insert_with(Keys::default).add(key)? {
            return Err(NeedsExact);
        }
        let found = find(key.raw);
        if self.keys.len() == number && number < MOST_KEYS {
            self.keys.push(([b"\"", key.raw, b"\":"].concat(), found));
        }
        Ok((found, start + key.raw.len() + 2))
    }
}
