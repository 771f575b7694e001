//! Protobuf's wire format: numbers, fields, and how those that nobody knows are skipped.

use crate::parse::{Fast, NeedsExact};
use std::ops::Range;

pub const VARINT: u8 = 0;
pub const FIXED64: u8 = 1;
pub const LENGTH: u8 = 2;
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
pub const FIXED32: u8 = 5;

/// So many groups may be open at once (`calve.serde.protobuf.wire`).
const MOST_GROUPS: usize = 100;

/// A part of a value; every access is checked.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    pub at: usize,
    pub end: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0, end: bytes.len() }
    }

    /// The same value between other positions.
    pub fn within(&self, range: &Range<usize>) -> Reader<'a> {
        Reader { bytes: self.bytes, at: range.start, end: range.end }
    }

    pub fn has_more(&self) -> bool {
        self.at < self.end
    }

    #[inline(always)]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..self.end]
    }

    #[inline(always)]
    fn byte(&mut self) -> Fast<u8> {
        if self.at >= self.end {
            return Err(NeedsExact);
        }
        let byte = self.bytes[self.at];
        self.at += 1;
        Ok(byte)
    }

    #[inline(always)]
    pub fn varint(&mut self) -> Fast<u64> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(first.into());
        }
        self.longer(u64::from(first & 0x7f))
    }

    fn longer(&mut self, mut found: u64) -> Fast<u64> {
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return Err(NeedsExact);
            }
            found |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(found);
            }
        }
        Err(NeedsExact)
    }

    /// A tag or a length: 32 bits in at most five bytes.
    #[inline(always)]
    fn short(&mut self) -> Fast<u32> {
        let start = self.at;
        let found = u32::try_from(self.varint()?).map_err(|_| NeedsExact)?;
        if self.at - start > 5 {
            return Err(NeedsExact);
        }
        Ok(found)
    }

    /// The number of the next field and its wire type.
    #[inline(always)]
    pub fn tag(&mut self) -> Fast<(u32, u8)> {
        let tag = self.short()?;
        match tag >> 3 {
            0 => Err(NeedsExact),
            number => Ok((number, (tag & 7) as u8)),
        }
    }

    #[inline(always)]
    fn take(&mut self, size: usize) -> Fast<&'a [u8]> {
        if size > self.end - self.at {
            return Err(NeedsExact);
        }
        let found = &self.bytes[self.at..self.at + size];
        self.at += size;
        Ok(found)
    }

    /// What a field of a message, a text or packed numbers holds.
    #[inline(always)]
    pub fn length(&mut self) -> Fast<Reader<'a>> {
        let size = self.short()? as usize;
        let start = self.at;
        self.take(size)?;
        Ok(self.within(&(start..self.at)))
    }

    /// The bits of a number of a wire type.
    #[inline(always)]
    pub fn bits(&mut self, wire: u8) -> Fast<u64> {
        match wire {
            VARINT => self.varint(),
            FIXED32 => Ok(u32::from_le_bytes(self.take(4)?.try_into().map_err(|_| NeedsExact)?).into()),
            FIXED64 => Ok(u64::from_le_bytes(self.take(8)?.try_into().map_err(|_| NeedsExact)?)),
            _ => Err(NeedsExact),
        }
    }

    /// Goes behind a field.
    pub fn skip(&mut self, number: u32, wire: u8) -> Fast<()> {
        if wire != START_GROUP {
            return self.skip_value(wire);
        }
        let mut open = vec![number];
        while let Some(&innermost) = open.last() {
            match self.tag()? {
                (number, END_GROUP) if number == innermost => drop(open.pop()),
                (number, START_GROUP) if open.len() < MOST_GROUPS => open.push(number),
                (_, wire) => self.skip_value(wire)?,
            }
        }
        Ok(())
    }

    fn skip_value(&mut self, wire: u8) -> Fast<()> {
        match wire {
            LENGTH => self.length().map(drop),
            wire => self.bits(wire).map(drop),
        }
    }
}
