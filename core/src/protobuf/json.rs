//! `google.protobuf.Struct`, `Value` and `ListValue` as JSON text.

use crate::parse::{Fast, NeedsExact};
use crate::protobuf::wire::{Reader, FIXED64, LENGTH, VARINT};
use crate::text::quote_byte;
use std::collections::HashMap;
use std::str;

/// So many levels a value may have (`calve.serde.protobuf.leaves`).
const DEEPEST: u32 = 100;
/// Whole numbers below it are written without a fraction.
const WHOLE: f64 = 1e15;

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Struct,
    Value,
    List,
}

/// Appends the JSON text of a message.
pub fn write(kind: Kind, payload: &[u8], out: &mut Vec<u8>) -> Fast<()> {
    write_below(kind, payload, out, 0)
}

fn write_below(kind: Kind, payload: &[u8], out: &mut Vec<u8>, depth: u32) -> Fast<()> {
    if depth > DEEPEST {
        return Err(NeedsExact);
    }
    match kind {
        Kind::Struct => write_struct(payload, out, depth),
        Kind::Value => write_value(payload, out, depth),
        Kind::List => write_list(payload, out, depth),
    }
}

fn write_list(payload: &[u8], out: &mut Vec<u8>, depth: u32) -> Fast<()> {
    let (mut reader, mut mark) = (Reader::new(payload), b'[');
    while reader.has_more() {
        match reader.tag()? {
            (1, LENGTH) => {
                out.push(mark);
                mark = b',';
                write_below(Kind::Value, reader.length()?.rest(), out, depth + 1)?;
            }
            (1, _) => return Err(NeedsExact),
            (number, wire) => reader.skip(number, wire)?,
        }
    }
    out.extend(if mark == b'[' { &b"[]"[..] } else { b"]" });
    Ok(())
}

/// Of a repeated name the last value counts, where the first one was.
fn write_struct(payload: &[u8], out: &mut Vec<u8>, depth: u32) -> Fast<()> {
    let (mut reader, mut fields, mut indexes) = (Reader::new(payload), vec![], HashMap::new());
    while reader.has_more() {
        match reader.tag()? {
            (1, LENGTH) => {
                let (name, value) = entry(reader.length()?)?;
                let mut text = vec![];
                write_below(Kind::Value, &value, &mut text, depth + 1)?;
                let index = *indexes.entry(name).or_insert(fields.len());
                if index == fields.len() {
                    fields.push((name, text));
                } else {
                    fields[index].1 = text;
                }
            }
            (1, _) => return Err(NeedsExact),
            (number, wire) => reader.skip(number, wire)?,
        }
    }
    out.push(b'{');
    for (number, (name, text)) in fields.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        quote(name, out);
        out.push(b':');
        out.extend(text);
    }
    out.push(b'}');
    Ok(())
}

fn entry(mut reader: Reader<'_>) -> Fast<(&str, Vec<u8>)> {
    let (mut name, mut value) = ("", vec![]);
    while reader.has_more() {
        match reader.tag()? {
            (1, LENGTH) => name = str::from_utf8(reader.length()?.rest()).map_err(|_| NeedsExact)?,
            (2, LENGTH) => value.extend(reader.length()?.rest()),
            (1 | 2, _) => return Err(NeedsExact),
            (number, wire) => reader.skip(number, wire)?,
        }
    }
    Ok((name, value))
}

/// The last field counts; a struct or a list that follows itself is joined.
fn write_value(payload: &[u8], out: &mut Vec<u8>, depth: u32) -> Fast<()> {
    let (mut reader, start) = (Reader::new(payload), out.len());
    let (mut nested, mut joined) = (None, vec![]);
    out.extend(b"null");
    while reader.has_more() {
        let (number, wire) = reader.tag()?;
        let kind = match (number, wire) {
            (5, LENGTH) => Some(Kind::Struct),
            (6, LENGTH) => Some(Kind::List),
            (1 | 4, VARINT) | (2, FIXED64) | (3, LENGTH) => None,
            (1..=6, _) => return Err(NeedsExact),
            _ => {
                reader.skip(number, wire)?;
                continue;
            }
        };
        if kind.is_none() || kind != nested {
            joined.clear();
        }
        nested = kind;
        if kind.is_some() {
            joined.extend(reader.length()?.rest());
        } else {
            out.truncate(start);
            write_plain(number, &mut reader, out)?;
        }
    }
    if let Some(kind) = nested {
        out.truncate(start);
        write_below(kind, &joined, out, depth)?;
    }
    Ok(())
}

fn write_plain(number: u32, reader: &mut Reader, out: &mut Vec<u8>) -> Fast<()> {
    match number {
        2 => write_number(f64::from_bits(reader.bits(FIXED64)?), out)?,
        3 => quote(str::from_utf8(reader.length()?.rest()).map_err(|_| NeedsExact)?, out),
        4 => out.extend(if reader.varint()? == 0 { &b"false"[..] } else { b"true" }),
        _ => {
            reader.varint()?;
            out.extend(b"null");
        }
    }
    Ok(())
}

fn write_number(value: f64, out: &mut Vec<u8>) -> Fast<()> {
    if !value.is_finite() {
        return Err(NeedsExact);
    }
    let is_whole = value.fract() == 0.0 && value.abs() < WHOLE && (value != 0.0 || value.is_sign_positive());
    let text = if is_whole { (value as i64).to_string() } else { format!("{value:?}") };
    out.extend(text.bytes());
    Ok(())
}

fn quote(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    text.bytes().for_each(|byte| quote_byte(byte, out));
    out.push(b'"');
}
