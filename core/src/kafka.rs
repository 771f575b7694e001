//! Records of Kafka as Arrow columns: events, offsets, and the metadata that was asked for.

use crate::export::{self, Array, Texts, TooLarge};
use crate::text::quote_byte;
use std::borrow::Cow;
use std::collections::HashMap;

/// The bits that ask for metadata.
const KEY: u32 = 1;
const TIMESTAMP: u32 = 2;
const TIMESTAMP_TYPE: u32 = 4;
const HEADERS: u32 = 8;
const EXACT: u32 = 16;

type Value<'a> = Option<&'a [u8]>;

pub struct Header<'a> {
    pub name: &'a [u8],
    pub value: Value<'a>,
}

/// A message of librdkafka, whose bytes stay its own.
pub trait Message {
    fn value(&self) -> Option<&[u8]>;
    fn key(&self) -> Option<&[u8]>;
    fn offset(&self) -> i64;
    /// Milliseconds, and what they are: 1 CreateTime, 2 LogAppendTime, 0 there are none.
    fn timestamp(&self) -> (i64, i32);
    fn headers(&self) -> Vec<Header<'_>>;
}

/// The records of a batch.
pub struct Records {
    wanted: u32,
    events: Texts,
    offsets: Vec<i64>,
    keys: Texts,
    has_time: Vec<u8>,
    times: Vec<i64>,
    time_types: Texts,
    headers: Texts,
    exact: Texts,
}

impl Records {
    pub fn new(wanted: u32) -> Records {
        Records {
            wanted,
            events: Texts::default(),
            offsets: vec![],
            keys: Texts::default(),
            has_time: vec![],
            times: vec![],
            time_types: Texts::default(),
            headers: Texts::default(),
            exact: Texts::default(),
        }
    }

    pub fn push(&mut self, message: &impl Message) -> Result<(), TooLarge> {
        self.events.push(message.value())?;
        self.offsets.push(message.offset());
        if self.wanted & KEY != 0 {
            self.keys.push(message.key().map(text).as_deref().map(str::as_bytes))?;
        }
        if self.wanted & (TIMESTAMP | TIMESTAMP_TYPE) != 0 {
            self.push_time(message.timestamp())?;
        }
        if self.wanted & HEADERS != 0 {
            self.headers.push(object(&message.headers()).as_deref())?;
        }
        if self.wanted & EXACT != 0 {
            self.exact.push(exact(message.key(), &message.headers()).as_deref())?;
        }
        Ok(())
    }

    fn push_time(&mut self, (at, kind): (i64, i32)) -> Result<(), TooLarge> {
        self.has_time.push(u8::from(kind != 0));
        self.times.push(at);
        self.time_types.push(match kind {
            1 => Some(b"CreateTime"),
            2 => Some(b"LogAppendTime"),
            _ => None,
        })
    }

    /// Gives the columns, empty where they were not asked for; the records begin again.
    pub fn take(&mut self) -> [Array; 7] {
        let taken = std::mem::replace(self, Records::new(self.wanted));
        [
            taken.events.array(),
            export::longs(taken.offsets),
            taken.keys.array(),
            export::nullable(&taken.has_time, taken.times),
            taken.time_types.array(),
            taken.headers.array(),
            taken.exact.array(),
        ]
    }
}

/// Gives bytes as text; what is not UTF-8 as Base64.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| Cow::Owned(base64(bytes)), Cow::Borrowed)
}

pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut found = String::with_capacity((bytes.len() + 2) / 3 * 4);
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            found.push(if digit <= three.len() { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
    found
}

/// Gives headers as a JSON object; a repeated name has an array of its values, where the first one was.
fn object(headers: &[Header]) -> Option<Vec<u8>> {
    let mut fields: Vec<(&[u8], Vec<Value>)> = Vec::with_capacity(headers.len());
    let mut indexes = HashMap::with_capacity(headers.len());
    for header in headers {
        let index = *indexes.entry(header.name).or_insert(fields.len());
        match fields.get_mut(index) {
            Some((_, values)) => values.push(header.value),
            None => fields.push((header.name, vec![header.value])),
        }
    }
    let mut json = vec![];
    for (name, values) in fields {
        json.push(if json.is_empty() { b'{' } else { b',' });
        quote(&text(name), &mut json);
        json.push(b':');
        if let [value] = values[..] {
            header_value(value, &mut json);
            continue;
        }
        for (number, value) in values.into_iter().enumerate() {
            json.push(if number == 0 { b'[' } else { b',' });
            header_value(value, &mut json);
        }
        json.push(b']');
    }
    json.push(b'}');
    (!headers.is_empty()).then_some(json)
}

fn header_value(value: Value, json: &mut Vec<u8>) {
    match value {
        Some(value) => quote(&text(value), json),
        None => json.extend(b"null"),
    }
}

/// Gives key and headers in Base64, `[key, [[name, value], …]]`, from which each byte can be made again.
fn exact(key: Value, headers: &[Header]) -> Option<Vec<u8>> {
    if key.is_none() && headers.is_empty() {
        return None;
    }
    let mut json = vec![b'['];
    base64_value(key, &mut json);
    json.extend(b",[");
    for (number, header) in headers.iter().enumerate() {
        json.extend(if number == 0 { &b"["[..] } else { b",[" });
        quote(&text(header.name), &mut json);
        json.push(b',');
        base64_value(header.value, &mut json);
        json.push(b']');
    }
    json.extend(b"]]");
    Some(json)
}

fn base64_value(value: Value, json: &mut Vec<u8>) {
    match value {
        Some(bytes) => quote(&base64(bytes), json),
        None => json.extend(b"null"),
    }
}

fn quote(text: &str, json: &mut Vec<u8>) {
    json.push(b'"');
    text.bytes().for_each(|byte| quote_byte(byte, json));
    json.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_base64_with_its_padding() {
        assert_eq!(text("ø".as_bytes()), "ø");
        assert_eq!([base64(b"\xff"), base64(b"\xff\x00"), base64(b"\xff\x00\x3e")], ["/w==", "/wA=", "/wA+"]);
    }

    #[test]
    fn a_repeated_header_has_all_its_values_where_the_first_one_was() {
        assert_eq!(object(&[]), None);
        let headers = [("a", Some("1")), ("b", None), ("a", Some("\"\u{1}ø")), ("", Some(""))]
            .map(|(name, value)| Header { name: name.as_bytes(), value: value.map(str::as_bytes) });
        assert_eq!(object(&headers).unwrap(), r#"{"a":["1","\"\u0001ø"],"b":null,"":""}"#.as_bytes());
    }
}
