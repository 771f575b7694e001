//! One field and its column. What is read goes into the open row; the row before it is never touched.

use crate::column::{Column, Store};
use crate::parse::{Fast, NeedsExact};
use crate::protobuf::leaf::{self, Leaf};
use crate::protobuf::map::Map;
use crate::protobuf::message::Message;
use crate::protobuf::wire::{Reader, FIXED32, FIXED64, LENGTH, VARINT};
use std::ops::Range;
use std::str;

/// What the bits of a number mean.
#[derive(Clone, Copy)]
pub enum Bits {
    Bool,
    Varint32,
    Unsigned32,
    ZigZag32,
    Varint64,
    ZigZag64,
    Fixed32,
    SignedFixed32,
    Fixed64,
}

impl Bits {
    #[inline(always)]
    fn wire(self) -> u8 {
        match self {
            Bits::Fixed32 | Bits::SignedFixed32 => FIXED32,
            Bits::Fixed64 => FIXED64,
            _ => VARINT,
        }
    }

    /// The value, in 64 bits; types of 32 bits ignore the others.
    #[inline(always)]
    fn value(self, raw: u64) -> u64 {
        match self {
            Bits::Bool => u64::from(raw != 0),
            Bits::Varint32 | Bits::SignedFixed32 => raw as i32 as u64,
            Bits::Unsigned32 => raw as u32 as u64,
            Bits::ZigZag32 => ((raw as u32 >> 1) as i32 ^ -(raw as i32 & 1)) as u64,
            Bits::ZigZag64 => (raw >> 1) ^ (raw & 1).wrapping_neg(),
            Bits::Varint64 | Bits::Fixed32 | Bits::Fixed64 => raw,
        }
    }
}

pub struct Enum {
    /// Numbers, ascending, and their names.
    pub names: Vec<(i32, Vec<u8>)>,
    /// Whether a number without a name is a field that nobody knows.
    pub is_closed: bool,
}

impl Enum {
    fn name(&self, number: i32) -> Option<&[u8]> {
        let guess = usize::try_from(number).ok().filter(|&at| self.names.get(at).is_some_and(|one| one.0 == number));
        let at = guess.or_else(|| self.names.binary_search_by_key(&number, |one| one.0).ok())?;
        Some(&self.names[at].1)
    }
}

pub enum Kind {
    Number(Bits),
    String,
    Bytes,
    Enum(Enum),
    Leaf(Leaf),
    /// A message around one field, whose value it is.
    Wrapper(Box<Field>),
    Message(Message),
    List(Box<Field>),
    Map(Box<Map>),
}

/// What a message without the field has.
pub enum Missing {
    Null,
    Number(u64),
    Text(Vec<u8>),
    /// An empty message.
    Empty,
    Required,
}

pub struct Field {
    pub number: u32,
    pub oneof: Option<usize>,
    pub missing: Missing,
    pub kind: Kind,
    /// Where the messages are that together are the value of the open row.
    pub pieces: Vec<Range<usize>>,
}

impl Field {
    /// Reads a value; false: it has a number that its enum does not know.
    #[inline(always)]
    pub fn read(&mut self, column: &mut Column, row: usize, wire: u8, reader: &mut Reader) -> Fast<bool> {
        match &self.kind {
            Kind::Number(bits) if wire == bits.wire() => put_number(column, row, bits.value(reader.bits(wire)?)),
            Kind::String if wire == LENGTH => {
                let text = reader.length()?.rest();
                str::from_utf8(text).map_err(|_| NeedsExact)?;
                put_text(column, row, text);
            }
            Kind::Bytes if wire == LENGTH => put_text(column, row, reader.length()?.rest()),
            Kind::Enum(names) if wire == VARINT => return Ok(put_name(names, column, row, reader.varint()?)),
            Kind::List(_) => self.read_elements(column, wire, reader)?,
            Kind::Number(_) | Kind::String | Kind::Bytes | Kind::Enum(_) => return Err(NeedsExact),
            _ if wire == LENGTH => self.read_message(column, row, reader.length()?)?,
            _ => return Err(NeedsExact),
        }
        Ok(true)
    }

    fn read_message(&mut self, column: &mut Column, row: usize, mut reader: Reader) -> Fast<()> {
        let is_open = column.valid.len() > row;
        match &mut self.kind {
            Kind::Message(message) => {
                let Store::Struct(level) = &mut column.store else { return Err(NeedsExact) };
                if !is_open {
                    column.valid.push(1);
                }
                message.read(&mut level.columns, row, reader)
            }
            Kind::Map(map) => map.read(column, &mut self.pieces, reader),
            Kind::Wrapper(inner) => {
                if !is_open {
                    inner.put_missing(column, row, &reader)?;
                }
                while reader.has_more() {
                    match reader.tag()? {
                        (number, wire) if number == inner.number => drop(inner.read(column, row, wire, &mut reader)?),
                        (number, wire) => reader.skip(number, wire)?,
                    }
                }
                Ok(())
            }
            Kind::Leaf(leaf) => {
                if !is_open {
                    self.pieces.clear();
                }
                self.pieces.push(reader.at..reader.end);
                if let [_] = self.pieces[..] {
                    return put_leaf(leaf, column, row, reader.rest());
                }
                let joined: Vec<u8> =
                    self.pieces.iter().flat_map(|piece| reader.within(piece).rest()).copied().collect();
                put_leaf(leaf, column, row, &joined)
            }
            _ => Err(NeedsExact),
        }
    }

    /// Reads an element, or several that are packed.
    fn read_elements(&mut self, column: &mut Column, wire: u8, reader: &mut Reader) -> Fast<()> {
        let (Kind::List(element), Store::List(_, elements)) = (&mut self.kind, &mut column.store) else {
            return Err(NeedsExact);
        };
        let packed = match &element.kind {
            Kind::Number(bits) => Some(bits.wire()),
            Kind::Enum(_) => Some(VARINT),
            _ => None,
        };
        let (Some(inner), LENGTH) = (packed, wire) else {
            let row = elements.valid.len();
            if element.read(elements, row, wire, reader)? {
                element.close(elements, row, reader)?;
            }
            return Ok(());
        };
        let mut values = reader.length()?;
        while values.has_more() {
            let row = elements.valid.len();
            element.read(elements, row, inner, &mut values)?;
        }
        Ok(())
    }

    /// Ends the open row of the column.
    #[inline(always)]
    pub fn close(&mut self, column: &mut Column, row: usize, whole: &Reader) -> Fast<()> {
        let is_open = column.valid.len() > row;
        match (&mut self.kind, &mut column.store) {
            (Kind::List(_), Store::List(ends, elements)) => {
                ends.push(elements.valid.len() as i64);
                column.valid.push(1);
                Ok(())
            }
            (Kind::Map(map), _) => map.close(column, &self.pieces, whole),
            (Kind::Message(message), Store::Struct(level)) if is_open => message.close(&mut level.columns, row, whole),
            _ if is_open => Ok(()),
            _ => self.put_missing(column, row, whole),
        }
    }

    fn put_missing(&mut self, column: &mut Column, row: usize, whole: &Reader) -> Fast<()> {
        match &self.missing {
            Missing::Null => column.push_null(),
            Missing::Number(value) => put_number(column, row, *value),
            Missing::Text(text) => put_text(column, row, text),
            Missing::Required => return Err(NeedsExact),
            Missing::Empty => {
                self.read_message(column, row, whole.within(&(0..0)))?;
                if let (Kind::Message(message), Store::Struct(level)) = (&mut self.kind, &mut column.store) {
                    message.close(&mut level.columns, row, whole)?;
                }
            }
        }
        Ok(())
    }
}

/// Puts a value into the open row, in place of the one that it has.
#[inline(always)]
fn put<T>(values: &mut Vec<T>, row: usize, value: T) {
    match values.get_mut(row) {
        Some(open) => *open = value,
        None => values.push(value),
    }
}

#[inline(always)]
fn put_number(column: &mut Column, row: usize, value: u64) {
    match &mut column.store {
        Store::Bits(values) => put(values, row, value as u8),
        Store::Ints(values) => put(values, row, value as i32),
        Store::Longs(values) => put(values, row, value as i64),
        Store::Floats(values) => put(values, row, f32::from_bits(value as u32)),
        Store::Doubles(values) => put(values, row, f64::from_bits(value)),
        Store::Decimals(values) => put(values, row, i128::from(value)),
        _ => return,
    }
    put(&mut column.valid, row, 1);
}

/// Forgets the text of the open row; gives where the new one goes.
#[inline(always)]
fn open_text<'a>(ends: &mut Vec<i64>, values: &'a mut Vec<u8>, row: usize) -> &'a mut Vec<u8> {
    if ends.len() > row + 1 {
        ends.truncate(row + 1);
        values.truncate(ends[row] as usize);
    }
    values
}

#[inline(always)]
fn put_text(column: &mut Column, row: usize, text: &[u8]) {
    if let Store::Bytes(ends, values) = &mut column.store {
        open_text(ends, values, row).extend_from_slice(text);
        ends.push(values.len() as i64);
        put(&mut column.valid, row, 1);
    }
}

fn put_name(names: &Enum, column: &mut Column, row: usize, raw: u64) -> bool {
    let number = raw as i32;
    match names.name(number) {
        Some(name) => put_text(column, row, name),
        None if names.is_closed => return false,
        None => put_text(column, row, number.to_string().as_bytes()),
    }
    true
}

fn put_leaf(leaf: &Leaf, column: &mut Column, row: usize, payload: &[u8]) -> Fast<()> {
    match (leaf, &mut column.store) {
        (Leaf::Timestamp, Store::Longs(values)) => put(values, row, leaf::micros(payload)?),
        (leaf, Store::Bytes(ends, values)) => {
            leaf::write(leaf, payload, open_text(ends, values, row))?;
            ends.push(values.len() as i64);
        }
        _ => return Err(NeedsExact),
    }
    put(&mut column.valid, row, 1);
    Ok(())
}
