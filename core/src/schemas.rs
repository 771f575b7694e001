//! Schemas that stand beside envelopes, by their texts: the texts of one schema are the same bytes, so none is parsed twice.

use crate::logical_type::LogicalType;
use crate::parse::{Fast, NeedsExact, Parser};
use std::collections::{HashMap, HashSet};

/// So many schemas that are not known are told at once.
const MOST_UNKNOWN: usize = 1000;
/// So many schemas are compared with the text before it is read.
const FEW: usize = 16;

#[derive(Default)]
pub struct Schemas {
    known: Vec<(Vec<u8>, LogicalType)>,
    numbers: HashMap<Vec<u8>, usize>,
    last: usize,
    unknown: HashSet<Vec<u8>>,
}

impl Schemas {
    /// Remembers a schema, a JSON object; gives its number.
    pub fn learn(&mut self, text: &[u8], logical_type: LogicalType) -> usize {
        let number = self.known.len();
        self.known.push((text.to_vec(), logical_type));
        self.numbers.insert(text.to_vec(), number);
        number
    }

    /// What the schema with a number says of rows; of -1, which is none, nothing.
    pub fn logical_type(&self, number: i32) -> &LogicalType {
        usize::try_from(number)
            .ok()
            .and_then(|number| self.known.get(number))
            .map_or(&LogicalType::AsIs, |(_, found)| found)
    }

    /// Reads a schema; gives its number, -1 for null. An object that begins with the bytes of another one is that one.
    #[inline(always)]
    pub fn read(&mut self, parser: &mut Parser) -> Fast<i32> {
        if parser.null()? {
            return Ok(-1);
        }
        if parser.peek() != b'{' {
            return Err(NeedsExact);
        }
        let rest = &parser.bytes[parser.at..];
        let is_next = |number: &usize| self.known.get(*number).is_some_and(|(text, _)| rest.starts_with(text));
        self.last = match std::iter::once(self.last).chain(0..FEW).find(is_next) {
            Some(number) => {
                parser.at += self.known[number].0.len();
                number
            }
            None => self.look_up(parser)?,
        };
        Ok(self.last as i32)
    }

    fn look_up(&mut self, parser: &mut Parser) -> Fast<usize> {
        let start = parser.at;
        parser.skip()?;
        let text = &parser.bytes[start..parser.at];
        if let Some(number) = self.numbers.get(text) {
            return Ok(*number);
        }
        if self.unknown.len() < MOST_UNKNOWN {
            self.unknown.insert(text.to_vec());
        }
        Err(NeedsExact)
    }

    /// Gives the schemas that were met and are not known.
    pub fn take_unknown(&mut self) -> Vec<Vec<u8>> {
        self.unknown.drain().collect()
    }
}
