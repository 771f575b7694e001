//! OTLP's JSON as the same message of Protobuf, so that there is one decoder (OTLP 1, "JSON Protobuf Encoding").
//!
//! Ids are hexadecimal, other bytes Base64; numbers may be texts; unknown fields are skipped. A repeated field has the values
//! of all its lists, of any other one the last counts.

use crate::otlp::messages::{Field, Form, Message};
use crate::otlp::Signal;
use crate::parse::{NeedsExact, Number, Parser, DEEPEST};
use crate::protobuf::wire::{FIXED32, FIXED64, LENGTH, VARINT};
use crate::value::base64;
use std::str;

/// A request has so many bytes at most.
const LONGEST: usize = 1 << 30;

/// Where a body is not the message, the innermost field first, and what is missing there; None: it is not JSON.
#[derive(Default)]
struct Fault {
    path: Vec<&'static str>,
    expected: Option<&'static str>,
}

impl From<NeedsExact> for Fault {
    fn from(_: NeedsExact) -> Fault {
        Fault::default()
    }
}

fn not(expected: &'static str) -> Fault {
    Fault { path: vec![], expected: Some(expected) }
}

type Written<T> = Result<T, Fault>;

/// Returns a request as Protobuf, or a sentence about what is wrong with it.
pub fn encode(signal: Signal, body: &[u8]) -> Result<Vec<u8>, String> {
    str::from_utf8(body).map_err(|error| format!("byte {} is not UTF-8", error.valid_up_to()))?;
    let (mut parser, mut out) = (Parser::new(body), Vec::with_capacity(body.len()));
    parser.blanks();
    let read = message(&mut parser, Message::of(signal), &mut out).and_then(|()| Ok(parser.end()?));
    let Err(mut fault) = read else { return Ok(out) };
    fault.path.reverse();
    Err(match fault.expected {
        Some(expected) if fault.path.is_empty() => format!("it is not {expected}"),
        Some(expected) => format!("{} is not {expected}", fault.path.join(".")),
        None if parser.depth > DEEPEST => format!("it is nested more than {DEEPEST} times"),
        None => format!("JSON is malformed (byte {})", parser.at),
    })
}

fn message(parser: &mut Parser, message: &Message, out: &mut Vec<u8>) -> Written<()> {
    if parser.peek() != b'{' {
        return wrong(parser, "an object");
    }
    let mut more = parser.open(b'}')?;
    while more {
        match parser.key()?.with(|key| message.field(key))? {
            Some(field) if !parser.null()? => {
                values(parser, field, out).map_err(|mut fault| {
                    fault.path.push(field.0);
                    fault
                })?;
            }
            Some(_) => {}
            None => parser.skip()?,
        }
        more = parser.more(b'}')?;
    }
    Ok(())
}

fn values(parser: &mut Parser, field: &Field, out: &mut Vec<u8>) -> Written<()> {
    let Field(_, number, form, is_list) = *field;
    if !is_list {
        return value(parser, number, form, out);
    }
    if parser.peek() != b'[' {
        return wrong(parser, "an array");
    }
    let mut more = parser.open(b']')?;
    while more {
        value(parser, number, form, out)?;
        more = parser.more(b']')?;
    }
    Ok(())
}

/// Writes a value with its tag.
fn value(parser: &mut Parser, number: u32, form: Form, out: &mut Vec<u8>) -> Written<()> {
    if out.len() > LONGEST {
        return Err(not("in a message of at most 1 GiB of Protobuf"));
    }
    let wire = match form {
        Form::Fixed32 => FIXED32,
        Form::Fixed64 | Form::Sfixed64 | Form::Double => FIXED64,
        Form::Text | Form::Id | Form::Bytes | Form::Message(_) => LENGTH,
        _ => VARINT,
    };
    varint(u64::from(number << 3 | u32::from(wire)), out);
    let start = out.len();
    match form {
        Form::Message(kind) => message(parser, kind, out)?,
        Form::Text | Form::Id | Form::Bytes => text(parser, form, out)?,
        Form::Bool => out.push(boolean(parser)?),
        Form::Double => out.extend(double(parser)?.to_le_bytes()),
        Form::Enum(prefix, names) => varint(named(parser, prefix, names)? as u64, out),
        Form::Int64 => varint(whole(parser, 64, true)? as u64, out),
        Form::Uint64 => varint(whole(parser, 64, false)? as u64, out),
        Form::Uint32 => varint(whole(parser, 32, false)? as u64, out),
        Form::Sint32 => {
            let number = whole(parser, 32, true)? as i32;
            varint(u64::from((number << 1 ^ number >> 31) as u32), out);
        }
        Form::Fixed32 => out.extend((whole(parser, 32, false)? as u32).to_le_bytes()),
        Form::Fixed64 => out.extend((whole(parser, 64, false)? as u64).to_le_bytes()),
        Form::Sfixed64 => out.extend((whole(parser, 64, true)? as i64).to_le_bytes()),
    }
    if wire == LENGTH {
        let mut length = vec![];
        varint((out.len() - start) as u64, &mut length);
        out.splice(start..start, length);
    }
    Ok(())
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The fault of a value of another kind, if it is JSON.
fn wrong<T>(parser: &mut Parser, expected: &'static str) -> Written<T> {
    parser.skip()?;
    Err(not(expected))
}

fn text(parser: &mut Parser, form: Form, out: &mut Vec<u8>) -> Written<()> {
    let expected = match form {
        Form::Id => "a hexadecimal id",
        Form::Bytes => "Base64",
        _ => "a text",
    };
    if parser.peek() != b'"' {
        return wrong(parser, expected);
    }
    let text = parser.string()?;
    let written = match form {
        Form::Id => text.with(|text| hexadecimal(text, out)),
        Form::Bytes => text.with(|text| any_base64(text, out)),
        _ => text.write(out).map(Some),
    };
    written.ok().flatten().ok_or_else(|| not(expected))
}

fn hexadecimal(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    for pair in text.chunks(2) {
        out.push((digit(pair[0])? << 4 | digit(*pair.get(1)?)?) as u8);
    }
    Some(())
}

/// Base64 of either alphabet, with or without its padding.
fn any_base64(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let digits = text.len() - text.iter().rev().take_while(|byte| **byte == b'=').count();
    let standard = |byte: &u8| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => *byte,
    };
    let mut text: Vec<u8> = text[..digits].iter().map(standard).collect();
    text.resize((digits + 3) / 4 * 4, b'=');
    base64(&text, out)
}

fn boolean(parser: &mut Parser) -> Written<u8> {
    match parser.peek() {
        b't' => parser.word(b"true").map(|()| 1).map_err(Fault::from),
        b'f' => parser.word(b"false").map(|()| 0).map_err(Fault::from),
        _ => wrong(parser, "true or false"),
    }
}

/// Calls a function with a number, or with a text and the number that it is, if it is one.
fn numeric<T>(
    parser: &mut Parser,
    expected: &'static str,
    read: impl FnOnce(&[u8], Option<Number>) -> Option<T>,
) -> Written<T> {
    let number = if parser.is_number() {
        let number = parser.number()?;
        read(b"", Some(number))
    } else if parser.peek() == b'"' {
        parser.string()?.with(|text| {
            let mut digits = Parser::new(text);
            let number = digits.number().ok().filter(|_| digits.at == text.len());
            read(text, number)
        })?
    } else {
        return wrong(parser, expected);
    };
    number.ok_or_else(|| not(expected))
}

fn double(parser: &mut Parser) -> Written<f64> {
    numeric(parser, "a number", |text, number| match text {
        b"NaN" => Some(f64::NAN),
        b"Infinity" => Some(f64::INFINITY),
        b"-Infinity" => Some(f64::NEG_INFINITY),
        _ => real(number?).filter(|number| number.is_finite()),
    })
}

fn real(number: Number) -> Option<f64> {
    str::from_utf8(number.text).ok()?.parse().ok()
}

/// A whole number of so many bits; one with a fraction of zeros or an exponent is one, too.
fn integer(number: Number, bits: u32, is_signed: bool) -> Option<i128> {
    let integer = if number.whole {
        str::from_utf8(number.text).ok()?.parse().ok()?
    } else {
        let real = real(number)?;
        Some(real as i128).filter(|_| real.fract() == 0.0)?
    };
    let (least, bound) = if is_signed { (-(1 << (bits - 1)), 1 << (bits - 1)) } else { (0, 1 << bits) };
    (least..bound).contains(&integer).then_some(integer)
}

fn whole(parser: &mut Parser, bits: u32, is_signed: bool) -> Written<i128> {
    let expected = match (bits, is_signed) {
        (32, true) => "a whole number of 32 bits",
        (32, false) => "a whole number of 32 bits without a sign",
        (_, true) => "a whole number of 64 bits",
        (_, false) => "a whole number of 64 bits without a sign",
    };
    numeric(parser, expected, |_, number| integer(number?, bits, is_signed))
}

fn named(parser: &mut Parser, prefix: &str, names: &[&str]) -> Written<i128> {
    numeric(parser, "a whole number of 32 bits, or a name of the enum", |text, number| match number {
        Some(number) => integer(number, 32, true),
        None => {
            let name = text.strip_prefix(prefix.as_bytes())?;
            names.iter().position(|known| known.as_bytes() == name).map(|number| number as i128)
        }
    })
}
