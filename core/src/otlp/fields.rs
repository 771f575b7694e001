//! The fields of one message of Protobuf, by number. A field of another wire type than its message has is unknown, and skipped.

use crate::parse::{Fast, NeedsExact};
use crate::protobuf::wire::{Reader, FIXED32, FIXED64, LENGTH, VARINT};
use std::str;

#[derive(Clone, Copy)]
enum Content<'a> {
    Bits(u8, u64),
    Part(&'a [u8]),
}

/// So many events, links, exemplars or quantiles a row may have, and eight bytes of numbers for each of so many.
const MOST_VALUES: usize = 100_000;
/// So many fields of a message are remembered; further ones are read whenever they are asked for, because a message of tiny
/// fields would take many times its length.
const REMEMBERED: usize = 512;
/// Room for the fields of most messages.
const USUAL: usize = 32;
/// Numbers below this one are found without a search.
const NUMBERS: usize = 24;

pub struct Fields<'a> {
    first: Vec<(u32, Content<'a>)>,
    /// Behind the last field of each number in `first`; 0: there is none.
    behind_last: [u16; NUMBERS],
    others: Reader<'a>,
}

impl<'a> Fields<'a> {
    pub fn read(mut reader: Reader<'a>) -> Fast<Fields<'a>> {
        let mut first = Vec::with_capacity(if reader.has_more() { USUAL } else { 0 });
        let mut behind_last = [0; NUMBERS];
        while first.len() < REMEMBERED {
            let Some(field) = next(&mut reader)? else { break };
            first.push(field);
            if let Some(behind) = behind_last.get_mut(field.0 as usize) {
                *behind = first.len() as u16;
            }
        }
        let others = reader;
        while next(&mut reader)?.is_some() {}
        Ok(Fields { first, behind_last, others })
    }

    fn others(&self) -> impl Iterator<Item = (u32, Content<'a>)> + 'a {
        let mut others = self.others;
        std::iter::from_fn(move || next(&mut others).ok().flatten())
    }

    fn all(&self) -> impl Iterator<Item = (u32, Content<'a>)> + '_ {
        self.first.iter().copied().chain(self.others())
    }

    /// The last field of a number that is wanted.
    fn last_field<T>(&self, number: u32, wanted: impl Fn((u32, Content<'a>)) -> Option<T> + Copy) -> Option<T> {
        if !self.others.has_more() {
            match self.behind_last.get(number as usize) {
                Some(0) => return None,
                Some(behind) => {
                    if let Some(found) = wanted(self.first[usize::from(*behind) - 1]) {
                        return Some(found);
                    }
                }
                None => {}
            }
        }
        self.last(wanted)
    }

    /// The last thing that is wanted.
    fn last<T>(&self, wanted: impl Fn((u32, Content<'a>)) -> Option<T> + Copy) -> Option<T> {
        let of_others = self.others().filter_map(wanted).last();
        of_others.or_else(|| self.first.iter().rev().copied().find_map(wanted))
    }

    /// The last value of a number that may be absent.
    pub fn optional(&self, number: u32, wire: u8) -> Option<u64> {
        self.last_field(number, |field| match field {
            (n, Content::Bits(w, bits)) if (n, w) == (number, wire) => Some(bits),
            _ => None,
        })
    }

    /// The last value of a number, or 0.
    pub fn number(&self, number: u32, wire: u8) -> u64 {
        self.optional(number, wire).unwrap_or(0)
    }

    pub fn double(&self, number: u32) -> Option<f64> {
        self.optional(number, FIXED64).map(f64::from_bits)
    }

    /// A number of 32 bits without a sign.
    pub fn count(&self, number: u32, wire: u8) -> i64 {
        i64::from(self.number(number, wire) as u32)
    }

    /// Of a oneof with these fields, all of one wire type, the one that counts: the last.
    pub fn last_of(&self, numbers: &[u32], wire: u8) -> Option<u32> {
        self.last(|(number, content)| {
            let own = match content {
                Content::Bits(wire, _) => wire,
                Content::Part(_) => LENGTH,
            };
            (own == wire && numbers.contains(&number)).then_some(number)
        })
    }

    pub fn parts(&self, number: u32) -> impl Iterator<Item = Reader<'a>> + '_ {
        let wanted = move |field| part_of(field, number);
        self.first.iter().copied().filter_map(wanted).chain(self.others().filter_map(wanted))
    }

    /// Whether some repeated fields have few enough values for a row: messages, and numbers, packed or not.
    pub fn are_few(&self, messages: &[u32], numbers: &[u32]) -> bool {
        if numbers.is_empty() && !self.others.has_more() {
            return true;
        }
        let bytes = self.all().filter(|field| numbers.contains(&field.0)).map(|(_, content)| match content {
            Content::Part(part) => part.len(),
            Content::Bits(..) => 8,
        });
        bytes.sum::<usize>() <= 8 * MOST_VALUES
            && self.all().filter(|field| messages.contains(&field.0)).count() <= MOST_VALUES
    }

    /// The last message of a field; an empty one if there is none.
    pub fn part(&self, number: u32) -> Reader<'a> {
        self.last_field(number, |field| part_of(field, number)).unwrap_or_else(|| Reader::new(&[]))
    }

    pub fn message(&self, number: u32) -> Fast<Fields<'a>> {
        Fields::read(self.part(number))
    }

    pub fn bytes(&self, number: u32) -> &'a [u8] {
        self.part(number).rest()
    }

    pub fn text(&self, number: u32) -> Fast<&'a [u8]> {
        checked(self.part(number))
    }

    /// Repeated numbers, packed or not.
    pub fn numbers(&self, number: u32, wire: u8) -> Fast<Vec<u64>> {
        let mut numbers = vec![];
        for (_, content) in self.all().filter(|field| field.0 == number) {
            match content {
                Content::Bits(other, bits) if other == wire => numbers.push(bits),
                Content::Bits(..) => {}
                Content::Part(part) => {
                    let mut part = Reader::new(part);
                    while part.has_more() {
                        numbers.push(part.bits(wire)?);
                    }
                }
            }
        }
        Ok(numbers)
    }
}

fn part_of<'a>(field: (u32, Content<'a>), number: u32) -> Option<Reader<'a>> {
    match field {
        (n, Content::Part(part)) if n == number => Some(Reader::new(part)),
        _ => None,
    }
}

/// The next field that is known by its wire type.
fn next<'a>(reader: &mut Reader<'a>) -> Fast<Option<(u32, Content<'a>)>> {
    while reader.has_more() {
        let (number, wire) = reader.tag()?;
        match wire {
            LENGTH => return Ok(Some((number, Content::Part(reader.length()?.rest())))),
            VARINT | FIXED32 | FIXED64 => return Ok(Some((number, Content::Bits(wire, reader.bits(wire)?)))),
            _ => reader.skip(number, wire)?,
        }
    }
    Ok(None)
}

/// A text, which is UTF-8.
pub fn checked(part: Reader<'_>) -> Fast<&[u8]> {
    str::from_utf8(part.rest()).map(str::as_bytes).map_err(|_| NeedsExact)
}

/// A number of `sint32`.
pub fn zigzag(bits: u64) -> i32 {
    let bits = bits as u32;
    (bits >> 1) as i32 ^ -((bits & 1) as i32)
}
