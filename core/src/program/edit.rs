//! What a step of a processor does to an event.

use super::event::Event;
use crate::parse::{Fast, NeedsExact, Number, Parser};
use crate::spec::Spec;
use crate::text::quote_plain;
use std::io::Write;
use std::ops::Range;

/// What a step does to an event.
pub enum Edit {
    Put {
        to: usize,
        overwrites: bool,
        json: Vec<u8>,
    },
    /// What becomes of the value in its old place, and if there is none.
    Move {
        from: usize,
        to: usize,
        overwrites: bool,
        how: Move,
    },
    Format {
        to: usize,
        overwrites: bool,
        parts: Vec<Part>,
    },
    Delete(Vec<usize>),
    Select(Vec<usize>),
    Text(Vec<usize>, Change),
    Convert(usize, Kind),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Move {
    Rename,
    Copy,
    /// A copy, or null.
    Point,
}

pub enum Part {
    Text(Vec<u8>),
    Field(usize),
}

pub enum Change {
    Lower,
    Upper,
    Trim,
    Truncate { start: usize, length: Option<usize>, is_recursive: bool },
}

#[derive(Clone, Copy)]
pub enum Kind {
    Whole { bits: u32 },
    Double,
    String,
    Boolean,
}

impl Edit {
    /// Reads what `calve.processors` says of a step; None: this is not known here.
    pub fn new(kind: &str, spec: &mut Spec, names: usize) -> Option<Edit> {
        Some(match kind {
            "put" => {
                let (to, overwrites) = (spec.number_below(names)?, spec.flag()?);
                Edit::Put { to, overwrites, json: spec.text()?.into() }
            }
            "rename" | "copy" | "point" => {
                let how = match kind {
                    "rename" => Move::Rename,
                    "copy" => Move::Copy,
                    _ => Move::Point,
                };
                let (from, to) = (spec.number_below(names)?, spec.number_below(names)?);
                Edit::Move { from, to, overwrites: spec.flag()?, how }
            }
            "format" => {
                let (to, overwrites) = (spec.number_below(names)?, spec.flag()?);
                let part = |spec: &mut Spec| {
                    Some(if spec.flag()? {
                        Part::Field(spec.number_below(names)?)
                    } else {
                        Part::Text(spec.text()?.into())
                    })
                };
                Edit::Format { to, overwrites, parts: (0..spec.number()?).map(|_| part(spec)).collect::<Option<_>>()? }
            }
            "delete" => Edit::Delete(spec.numbers(names)?),
            "select" => Edit::Select(spec.numbers(names)?),
            "convert" => {
                let name = spec.number_below(names)?;
                let kind = match spec.text()? {
                    "integer" => Kind::Whole { bits: 32 },
                    "long" => Kind::Whole { bits: 64 },
                    "double" => Kind::Double,
                    "string" => Kind::String,
                    "boolean" => Kind::Boolean,
                    _ => return None,
                };
                Edit::Convert(name, kind)
            }
            _ => Edit::Text(spec.numbers(names)?, Change::new(kind, spec)?),
        })
    }

    /// Changes an event, and gives whether it did.
    pub fn apply(&self, event: &mut Event) -> Fast<bool> {
        match self {
            Edit::Put { to, overwrites, json } => {
                if event.has(*to) && !overwrites {
                    return Ok(false);
                }
                let value = event.make(|out| out.extend_from_slice(json));
                event.put(*to, value);
            }
            Edit::Move { from, to, overwrites, how } => {
                let is_there = event.has(*from) || *how == Move::Point;
                if !is_there || (event.has(*to) && !overwrites) {
                    return Ok(false);
                }
                let found = if *how == Move::Rename { event.remove(*from) } else { event.value(*from).cloned() };
                let value = found.unwrap_or_else(|| event.make(|out| out.extend_from_slice(b"null")));
                event.put(*to, value);
            }
            Edit::Format { to, overwrites, parts } => {
                let mut text = vec![];
                parts.iter().try_for_each(|part| part.append(event, &mut text))?;
                if event.has(*to) && !overwrites {
                    return Ok(false);
                }
                let value = event.make(|out| quote_plain(&text, out));
                event.put(*to, value);
            }
            Edit::Delete(names) => return Ok(names.iter().filter(|&&name| event.remove(name).is_some()).count() > 0),
            Edit::Select(names) => event.select(names),
            Edit::Text(names, change) => {
                return names.iter().try_fold(false, |is_changed, &name| Ok(change.apply(event, name)? || is_changed))
            }
            Edit::Convert(name, kind) => return kind.convert(event, *name),
        }
        Ok(true)
    }
}

impl Part {
    /// Appends the part to a text (`calve.processors.fields.text_of`).
    fn append(&self, event: &Event, out: &mut Vec<u8>) -> Fast<()> {
        let name = match self {
            Part::Text(text) => {
                out.extend_from_slice(text);
                return Ok(());
            }
            Part::Field(name) => *name,
        };
        let Some(value) = event.value(name) else { return Ok(()) };
        match event.json(value).first() {
            Some(b'{' | b'[') => Err(NeedsExact),
            Some(b'n') => Ok(()),
            _ => event.append(value, out),
        }
    }
}

impl Change {
    fn new(kind: &str, spec: &mut Spec) -> Option<Change> {
        Some(match kind {
            "lower" => Change::Lower,
            "upper" => Change::Upper,
            "trim" => Change::Trim,
            "truncate" => {
                let (start, length) = (spec.number()?, spec.text()?);
                let length = if length.is_empty() { None } else { Some(length.parse().ok()?) };
                Change::Truncate { start, length, is_recursive: spec.flag()? }
            }
            _ => return None,
        })
    }

    /// Changes a string; anything else stays, but what is in it.
    fn apply(&self, event: &mut Event, name: usize) -> Fast<bool> {
        let Some(value) = event.value(name) else { return Ok(false) };
        match (event.json(value).first(), self) {
            (Some(b'"'), _) => {}
            (Some(b'['), Change::Truncate { .. }) | (Some(b'{'), Change::Truncate { is_recursive: true, .. }) => {
                return Err(NeedsExact)
            }
            _ => return Ok(false),
        }
        let mut text = vec![];
        event.append(value, &mut text)?;
        let Some(kept) = self.changed(&mut text)? else { return Ok(false) };
        let value = event.make(|out| quote_plain(&text[kept], out));
        event.put(name, value);
        Ok(true)
    }

    /// Changes a text; gives which part of it is the result, None if that is the text as it was.
    fn changed(&self, text: &mut [u8]) -> Fast<Option<Range<usize>>> {
        let whole = 0..text.len();
        let kept = match self {
            Change::Lower | Change::Upper => {
                if !text.is_ascii() {
                    return Err(NeedsExact); // the tables of characters might be of different versions
                }
                let is_lower = matches!(self, Change::Lower);
                let other = |byte: &u8| if is_lower { byte.is_ascii_uppercase() } else { byte.is_ascii_lowercase() };
                if !text.iter().any(other) {
                    return Ok(None);
                }
                if is_lower {
                    text.make_ascii_lowercase()
                } else {
                    text.make_ascii_uppercase()
                }
                return Ok(Some(whole));
            }
            Change::Trim => {
                let end = text.iter().rposition(|&byte| byte > b' ').map_or(0, |last| last + 1);
                text[..end].iter().position(|&byte| byte > b' ').unwrap_or(end)..end
            }
            Change::Truncate { start, length, .. } => {
                let text = std::str::from_utf8(text).map_err(|_| NeedsExact)?;
                let at = |text: &str, count| text.char_indices().nth(count).map_or(text.len(), |(at, _)| at);
                let start = at(text, *start);
                start..length.map_or(text.len(), |length| start + at(&text[start..], length))
            }
        };
        Ok(Some(kept).filter(|kept| *kept != whole))
    }
}

impl Kind {
    /// Converts a value as `calve.processors.convert.converted` does; null stays.
    fn convert(self, event: &mut Event, name: usize) -> Fast<bool> {
        let Some(value) = event.value(name) else { return Ok(false) };
        let first = *event.json(value).first().ok_or(NeedsExact)?;
        if matches!(first, b'{' | b'[' | b'n') {
            return if first == b'n' { Ok(false) } else { Err(NeedsExact) };
        }
        let (mut text, mut done) = (vec![], Ok(()));
        event.append(value, &mut text)?;
        let value = event.make(|out| done = self.write(&text, first, out));
        event.put(name, value);
        done.map(|()| true)
    }

    fn write(self, text: &[u8], first: u8, out: &mut Vec<u8>) -> Fast<()> {
        let (is_text, is_boolean) = (first == b'"', first == b't' || first == b'f');
        match self {
            Kind::String => quote_plain(text, out),
            Kind::Boolean => {
                let is_true = match first {
                    b'"' if !text.is_ascii() => return Err(NeedsExact),
                    b'"' => text.eq_ignore_ascii_case(b"true"),
                    _ if is_boolean => first == b't',
                    _ => few_digits(text)?.mantissa != 0,
                };
                out.extend_from_slice(if is_true { b"true" } else { b"false" });
            }
            Kind::Whole { bits } => {
                let value = match first {
                    b'"' => digits(text)?,
                    _ if is_boolean => i64::from(first == b't'),
                    _ => truncated(text)?,
                };
                if value >> (bits - 1) != 0 && value >> (bits - 1) != -1 {
                    return Err(NeedsExact);
                }
                write!(out, "{value}").map_err(|_| NeedsExact)?;
            }
            Kind::Double if is_boolean => out.extend_from_slice(if first == b't' { b"1.0" } else { b"0.0" }),
            Kind::Double => {
                let number = few_digits(text)?;
                if is_text && number.text.iter().any(|byte| byte | 32 == b'e') {
                    return Err(NeedsExact);
                }
                let text = std::str::from_utf8(text).map_err(|_| NeedsExact)?;
                let value: f64 = text.parse().map_err(|_| NeedsExact)?;
                if value != 0.0 && !(1e-4..1e16).contains(&value.abs()) {
                    return Err(NeedsExact); // Python writes it with an exponent
                }
                write!(out, "{value:?}").map_err(|_| NeedsExact)?;
            }
        }
        Ok(())
    }
}

/// A text that is a JSON number with a mantissa of at most 18 digits.
fn few_digits(text: &[u8]) -> Fast<Number<'_>> {
    let mut parser = Parser::new(text);
    let number = parser.number()?;
    let is_small = number.digits <= 18 && (-300..=300).contains(&number.exponent);
    (is_small && parser.at == text.len()).then_some(number).ok_or(NeedsExact)
}

/// A number without its fraction.
fn truncated(text: &[u8]) -> Fast<i64> {
    let number = few_digits(text)?;
    let power = u32::try_from(-number.exponent).ok().filter(|&power| power <= 18).ok_or(NeedsExact)?;
    let value = (number.mantissa / 10u64.pow(power)) as i64;
    Ok(if number.negative { -value } else { value })
}

/// A text that is `[+-]?[0-9]+`.
fn digits(text: &[u8]) -> Fast<i64> {
    let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(NeedsExact);
    }
    let value = digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'));
    Ok(if text[0] == b'-' { -value } else { value })
}
