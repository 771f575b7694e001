//! Attributes, and values of any kind as texts: a string as it is, bytes as Base64, lists and maps as JSON.

use crate::column::{Column, Kind, Store};
use crate::kafka::base64;
use crate::otlp::fields::checked;
use crate::parse::{Fast, NeedsExact};
use crate::protobuf::wire::{Reader, FIXED64, LENGTH, VARINT};
use crate::text::quote_byte;
use std::collections::HashSet;
use std::io::Write;

/// So many levels a value may have.
const DEEPEST: u32 = 100;
/// Below this number of keys, each is compared with each.
const FEW_KEYS: usize = 16;
/// With so many, those that count are sorted out before others are read.
const MANY_KEYS: usize = 1 << 16;
/// What an entry of a map takes beside its texts.
const ENTRY_BYTES: usize = 18;

enum Value<'a> {
    Empty,
    Text(&'a [u8]),
    Bool(bool),
    Int(i64),
    Double(f64),
    List(Reader<'a>),
    Map(Reader<'a>),
    Bytes(&'a [u8]),
}

fn value(mut reader: Reader<'_>) -> Fast<Value<'_>> {
    let mut value = Value::Empty;
    while reader.has_more() {
        value = match reader.tag()? {
            (1, LENGTH) => Value::Text(checked(reader.length()?)?),
            (2, VARINT) => Value::Bool(reader.varint()? != 0),
            (3, VARINT) => Value::Int(reader.varint()? as i64),
            (4, FIXED64) => Value::Double(f64::from_bits(reader.bits(FIXED64)?)),
            (5, LENGTH) => Value::List(reader.length()?),
            (6, LENGTH) => Value::Map(reader.length()?),
            (7, LENGTH) => Value::Bytes(reader.length()?.rest()),
            (number, wire) => {
                reader.skip(number, wire)?;
                value
            }
        };
    }
    Ok(value)
}

/// Appends the text of a value; false: it is empty.
fn write(reader: Reader, out: &mut Vec<u8>) -> Fast<bool> {
    match value(reader)? {
        Value::Empty => return Ok(false),
        Value::Text(text) => out.extend_from_slice(text),
        Value::Bytes(bytes) => out.extend(base64(bytes).bytes()),
        Value::Double(number) => double(number, out),
        other => json(&other, out, 0)?,
    }
    Ok(true)
}

/// Fails where `write` does.
pub fn check(reader: Reader) -> Fast<()> {
    match value(reader)? {
        nested @ (Value::List(_) | Value::Map(_)) => json(&nested, &mut vec![], 0),
        _ => Ok(()),
    }
}

fn json(given: &Value, out: &mut Vec<u8>, depth: u32) -> Fast<()> {
    if depth > DEEPEST {
        return Err(NeedsExact);
    }
    match given {
        Value::Empty => out.extend(b"null"),
        Value::Text(text) => quote(text, out),
        Value::Bool(is_true) => out.extend(if *is_true { &b"true"[..] } else { b"false" }),
        Value::Int(number) => written(out, format_args!("{number}")),
        Value::Double(number) if number.is_finite() => double(*number, out),
        Value::Double(number) => {
            out.push(b'"');
            double(*number, out);
            out.push(b'"');
        }
        Value::Bytes(bytes) => quote(base64(bytes).as_bytes(), out),
        Value::List(list) => {
            let (mut reader, mut mark) = (*list, b'[');
            while reader.has_more() {
                match reader.tag()? {
                    (1, LENGTH) => {
                        out.push(mark);
                        json(&value(reader.length()?)?, out, depth + 1)?;
                        mark = b',';
                    }
                    (number, wire) => reader.skip(number, wire)?,
                }
            }
            out.extend(if mark == b'[' { &b"[]"[..] } else { b"]" });
        }
        Value::Map(map) => {
            let mut mark = b'{';
            for (key, part) in entries(parts(*map))? {
                out.push(mark);
                quote(key, out);
                out.push(b':');
                json(&value(part)?, out, depth + 1)?;
                mark = b',';
            }
            out.extend(if mark == b'{' { &b"{}"[..] } else { b"}" });
        }
    }
    Ok(())
}

fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    text.iter().for_each(|byte| quote_byte(*byte, out));
    out.push(b'"');
}

/// The shortest text that is the number; one without a fraction ends in `.0` or has an exponent.
fn double(number: f64, out: &mut Vec<u8>) {
    match number {
        f64::INFINITY => out.extend(b"Infinity"),
        f64::NEG_INFINITY => out.extend(b"-Infinity"),
        number => written(out, format_args!("{number:?}")),
    }
}

fn written(out: &mut Vec<u8>, text: std::fmt::Arguments) {
    out.write_fmt(text).unwrap_or_default(); // memory takes everything
}

fn parts(mut reader: Reader<'_>) -> impl Iterator<Item = Fast<Reader<'_>>> {
    let mut next = move || {
        while reader.has_more() {
            match reader.tag()? {
                (1, LENGTH) => return reader.length().map(Some),
                (number, wire) => reader.skip(number, wire)?,
            }
        }
        Ok(None)
    };
    std::iter::from_fn(move || next().transpose())
}

type Entry<'a> = (&'a [u8], Reader<'a>);

/// Keys and their values, the last one of each key.
fn entries<'a>(pairs: impl Iterator<Item = Fast<Reader<'a>>>) -> Fast<Vec<Entry<'a>>> {
    let (mut entries, mut most) = (Vec::with_capacity(FEW_KEYS), MANY_KEYS);
    for pair in pairs {
        let (mut pair, mut key, mut value) = (pair?, &b""[..], Reader::new(&[]));
        while pair.has_more() {
            match pair.tag()? {
                (1, LENGTH) => key = checked(pair.length()?)?,
                (2, LENGTH) => value = pair.length()?,
                (number, wire) => pair.skip(number, wire)?,
            }
        }
        entries.push((key, value));
        if entries.len() == most {
            keep_last(&mut entries); // the same key again and again takes no room
            most = MANY_KEYS.max(2 * entries.len());
        }
    }
    keep_last(&mut entries);
    Ok(entries)
}

/// Keeps the last entry of each key.
fn keep_last(entries: &mut Vec<Entry>) {
    if entries.len() < FEW_KEYS {
        for at in (0..entries.len()).rev() {
            if entries[at + 1..].iter().any(|later| later.0 == entries[at].0) {
                entries.remove(at);
            }
        }
    } else {
        let mut keys = HashSet::with_capacity(entries.len());
        entries.reverse();
        entries.retain(|entry| keys.insert(entry.0));
        entries.reverse();
    }
}

pub fn column(store: Store) -> Column {
    Column { kind: Kind::Nested, store, valid: vec![], required: false, may_lack: false, defers: false }
}

pub fn texts() -> Column {
    column(Store::Bytes(vec![0], vec![]))
}

/// The attributes of something as texts: keys, and values, if they have one.
pub struct Attributes {
    keys: Column,
    values: Column,
}

impl Default for Attributes {
    fn default() -> Attributes {
        Attributes { keys: texts(), values: texts() }
    }
}

impl Attributes {
    pub fn read<'a>(pairs: impl Iterator<Item = Reader<'a>>) -> Fast<Attributes> {
        let mut attributes = Attributes::default();
        push(&entries(pairs.map(Ok))?, &mut attributes.keys, &mut attributes.values)?;
        Ok(attributes)
    }

    pub fn size(&self) -> usize {
        let bytes = [&self.keys, &self.values].map(|column| as_texts(column).1.len());
        bytes[0] + bytes[1] + ENTRY_BYTES * self.keys.valid.len()
    }

    /// The value of a key.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let text = |column, at: usize| {
            let (ends, bytes): (&[i64], &[u8]) = as_texts(column);
            &bytes[ends[at] as usize..ends[at + 1] as usize]
        };
        let at = (0..self.keys.valid.len()).find(|at| text(&self.keys, *at) == name)?;
        (self.values.valid[at] == 1).then(|| text(&self.values, at))
    }

    /// Adds them to a column of maps.
    pub fn push_to(&self, column: &mut Column) -> Fast<()> {
        push_map(column, |keys, values| {
            extend(keys, &self.keys);
            extend(values, &self.values);
            Ok(())
        })
    }
}

/// Checks attributes, and adds them to a column of maps, if there is one.
pub fn push_attributes<'a>(column: Option<&mut Column>, pairs: impl Iterator<Item = Reader<'a>>) -> Fast<()> {
    let entries = entries(pairs.map(Ok))?;
    match column {
        Some(column) => push_map(column, |keys, values| push(&entries, keys, values)),
        None => entries.iter().try_for_each(|entry| check(entry.1)),
    }
}

fn push_map(column: &mut Column, push: impl FnOnce(&mut Column, &mut Column) -> Fast<()>) -> Fast<()> {
    let Store::Map(ends, pair) = &mut column.store else { return Err(NeedsExact) };
    push(&mut pair.0, &mut pair.1)?;
    ends.push(i32::try_from(pair.0.valid.len()).map_err(|_| NeedsExact)?);
    column.valid.push(1);
    Ok(())
}

fn push(entries: &[Entry], keys: &mut Column, values: &mut Column) -> Fast<()> {
    for (key, value) in entries {
        push_text(keys, Some(key));
        push_value(values, *value)?;
    }
    Ok(())
}

/// Adds the text of a value to a column of texts.
pub fn push_value(column: &mut Column, value: Reader) -> Fast<()> {
    let Store::Bytes(ends, bytes) = &mut column.store else { return Err(NeedsExact) };
    column.valid.push(u8::from(write(value, bytes)?));
    ends.push(bytes.len() as i64);
    Ok(())
}

pub fn push_text(column: &mut Column, text: Option<&[u8]>) {
    match (text, &mut column.store) {
        (Some(text), Store::Bytes(ends, bytes)) => {
            bytes.extend_from_slice(text);
            ends.push(bytes.len() as i64);
            column.valid.push(1);
        }
        _ => column.push_null(),
    }
}

/// Adds the texts of another column.
fn extend(column: &mut Column, other: &Column) {
    let (other_ends, other_bytes) = as_texts(other);
    if let Store::Bytes(ends, bytes) = &mut column.store {
        let start = bytes.len() as i64;
        ends.extend(other_ends[1..].iter().map(|end| start + end));
        bytes.extend_from_slice(other_bytes);
        column.valid.extend_from_slice(&other.valid);
    }
}

fn as_texts(column: &Column) -> (&[i64], &[u8]) {
    match &column.store {
        Store::Bytes(ends, bytes) => (ends, bytes),
        _ => (&[0], &[]),
    }
}
