//! The fields of one message of Protobuf, by number. A field of another wire type than its message has is unknown, and skipped.

use crate::parse::{Fast, NeedsExact};
use crate::protobuf::wire::{Reader, FIXED32, FIXED64, LENGTH, VARINT};
use std::str;

#[derive(Clone, Copy)]
enum Content<'a> {
    Bits(u8, u64),
    Part(Reader<'a>),
}

pub struct Fields<'a>(Vec<(u32, Content<'a>)>);

impl<'a> Fields<'a> {
    pub fn read(mut reader: Reader<'a>) -> Fast<Fields<'a>> {
        let mut fields = vec![];
        while reader.has_more() {
            let (number, wire) = reader.tag()?;
            match wire {
                LENGTH => fields.push((number, Content::Part(reader.length()?))),
                VARINT | FIXED32 | FIXED64 => fields.push((number, Content::Bits(wire, reader.bits(wire)?))),
                _ => reader.skip(number, wire)?,
            }
        }
        Ok(Fields(fields))
    }

    /// The last value of a number that may be absent.
    pub fn optional(&self, number: u32, wire: u8) -> Option<u64> {
        self.0.iter().rev().find_map(|field| match field {
            (n, Content::Bits(w, bits)) if (*n, *w) == (number, wire) => Some(*bits),
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

    /// Of a oneof with these fields the one that counts: the last.
    pub fn last_of(&self, numbers: &[u32]) -> Option<u32> {
        self.0.iter().rev().map(|field| field.0).find(|number| numbers.contains(number))
    }

    pub fn parts(&self, number: u32) -> impl Iterator<Item = Reader<'a>> + '_ {
        self.0.iter().filter_map(move |field| match field {
            (n, Content::Part(part)) if *n == number => Some(*part),
            _ => None,
        })
    }

    /// The last message of a field; an empty one if there is none.
    pub fn part(&self, number: u32) -> Reader<'a> {
        self.parts(number).last().unwrap_or_else(|| Reader::new(&[]))
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
        for (_, content) in self.0.iter().filter(|field| field.0 == number) {
            match *content {
                Content::Bits(other, bits) if other == wire => numbers.push(bits),
                Content::Bits(..) => {}
                Content::Part(mut part) => {
                    while part.has_more() {
                        numbers.push(part.bits(wire)?);
                    }
                }
            }
        }
        Ok(numbers)
    }
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
