//! Records of Kafka as Arrow columns: events, offsets, and the metadata that was asked for.
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write;

/// The bits that ask for metadata; the order is that of `Records::columns`.
const KEY: u32 = 1;
const TIMESTAMP: u32 = 2;
const TIMESTAMP_TYPE: u32 = 4;
const HEADERS: u32 = 8;

/// A column would pass the 2 GiB that the offsets of Arrow's binary arrays can express.
#[derive(Debug, PartialEq)]
pub struct TooLarge;

/// Name and value of one header.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// One message of librdkafka, whose bytes stay its own.
pub trait Message {
    fn value(&self) -> Option<&[u8]>;
    fn key(&self) -> Option<&[u8]>;
    fn offset(&self) -> i64;
    /// The time in milliseconds and what it means: 1 CreateTime, 2 LogAppendTime, 0 there is none.
    fn timestamp(&self) -> (i64, i32);
    fn headers(&self) -> Vec<Header<'_>>;
}

/// An array of binary or text values, or of integers, as Arrow's buffers.
#[derive(Default)]
pub struct Column {
    /// A bit for each row that has a value; empty while every row has one.
    pub valid: Vec<u8>,
    /// Where the rows' bytes begin, and where the last ones end; empty for integers.
    pub offsets: Vec<i32>,
    pub bytes: Vec<u8>,
    pub integers: Vec<i64>,
}

impl Column {
    fn of_bytes() -> Column {
        Column { offsets: vec![0], ..Column::default() }
    }

    fn push_bytes(&mut self, value: Option<&[u8]>) -> Result<(), TooLarge> {
        self.mark(self.offsets.len() - 1, value.is_some());
        let value = value.unwrap_or_default();
        let end = i32::try_from(self.bytes.len() + value.len()).map_err(|_| TooLarge)?;
        self.bytes.extend_from_slice(value);
        self.offsets.push(end);
        Ok(())
    }

    fn push_integer(&mut self, value: Option<i64>) {
        self.mark(self.integers.len(), value.is_some());
        self.integers.push(value.unwrap_or_default());
    }

    /// Note whether a row has a value; bits are kept from the first null on.
    fn mark(&mut self, row: usize, is_valid: bool) {
        if is_valid && self.valid.is_empty() {
            return;
        }
        if self.valid.is_empty() {
            self.valid = vec![0xff; row / 8];
            self.valid.push((1u8 << (row % 8)) - 1);
        } else if row % 8 == 0 {
            self.valid.push(0);
        }
        self.valid[row / 8] |= u8::from(is_valid) << (row % 8);
    }
}

/// The records of one batch.
pub struct Records {
    wanted: u32,
    events: Column,
    offsets: Column,
    keys: Column,
    timestamps: Column,
    timestamp_types: Column,
    headers: Column,
}

impl Records {
    pub fn new(wanted: u32) -> Records {
        Records {
            wanted,
            events: Column::of_bytes(),
            offsets: Column::default(),
            keys: Column::of_bytes(),
            timestamps: Column::default(),
            timestamp_types: Column::of_bytes(),
            headers: Column::of_bytes(),
        }
    }

    pub fn columns(&self) -> [&Column; 6] {
        [&self.events, &self.offsets, &self.keys, &self.timestamps, &self.timestamp_types, &self.headers]
    }

    pub fn push(&mut self, message: &impl Message) -> Result<(), TooLarge> {
        self.events.push_bytes(message.value())?;
        self.offsets.push_integer(Some(message.offset()));
        if self.wanted & KEY != 0 {
            let key = message.key().map(text);
            self.keys.push_bytes(key.as_ref().map(|key| key.as_bytes()))?;
        }
        if self.wanted & (TIMESTAMP | TIMESTAMP_TYPE) != 0 {
            self.push_time(message.timestamp())?;
        }
        if self.wanted & HEADERS != 0 {
            let headers = object(&message.headers());
            self.headers.push_bytes(headers.as_ref().map(|json| json.as_bytes()))?;
        }
        Ok(())
    }

    fn push_time(&mut self, (at, kind): (i64, i32)) -> Result<(), TooLarge> {
        self.timestamps.push_integer(if kind == 0 { None } else { Some(at) });
        self.timestamp_types.push_bytes(match kind {
            1 => Some(b"CreateTime"),
            2 => Some(b"LogAppendTime"),
            _ => None,
        })
    }
}

/// Return bytes as text; what is not UTF-8 as Base64.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| Cow::Owned(base64(bytes)), Cow::Borrowed)
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut found = String::with_capacity((bytes.len() + 2) / 3 * 4);
    for three in bytes.chunks(3) {
        let byte = |number: usize| u32::from(three.get(number).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            found.push(if digit <= three.len() { DIGITS[value as usize] as char } else { '=' });
        }
    }
    found
}

/// Return headers as a JSON object; of a repeated name the last value, at the place of the first.
fn object(headers: &[Header]) -> Option<String> {
    let mut places: HashMap<&[u8], usize> = HashMap::new();
    let mut fields: Vec<Header> = Vec::new();
    for &(name, value) in headers {
        let place = *places.entry(name).or_insert(fields.len());
        match fields.get_mut(place) {
            Some(field) => field.1 = value,
            None => fields.push((name, value)),
        }
    }
    let mut json = String::new();
    for (name, value) in &fields {
        json.push(if json.is_empty() { '{' } else { ',' });
        quote(&mut json, &text(name));
        json.push(':');
        match value {
            Some(value) => quote(&mut json, &text(value)),
            None => json.push_str("null"),
        }
    }
    json.push('}');
    if fields.is_empty() { None } else { Some(json) }
}

fn quote(json: &mut String, text: &str) {
    json.push('"');
    for letter in text.chars() {
        match letter {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '\u{8}' => json.push_str("\\b"),
            '\u{c}' => json.push_str("\\f"),
            '\0'..='\u{1f}' => write!(json, "\\u{:04x}", letter as u32).expect("a String takes all"),
            _ => json.push(letter),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_kept_from_the_first_null_on() {
        for first in 0..20 {
            let mut column = Column::of_bytes();
            for row in 0..40 {
                let value: Option<&[u8]> = if row < first || row % 3 == 0 { Some(b"ab") } else { None };
                column.push_bytes(value).unwrap();
            }
            for row in 0..40 {
                let has_one = row < first || row % 3 == 0;
                assert_eq!(column.valid[row / 8] >> (row % 8) & 1 == 1, has_one, "{first} {row}");
                assert_eq!(column.offsets[row + 1] - column.offsets[row], if has_one { 2 } else { 0 });
            }
        }
    }

    #[test]
    fn a_column_without_nulls_has_no_bits() {
        let mut column = Column::default();
        (0..9).for_each(|value| column.push_integer(Some(value)));
        assert!(column.valid.is_empty());
    }

    #[test]
    fn bytes_that_are_no_text_are_base64_with_its_padding() {
        assert_eq!(text("ø".as_bytes()), "ø");
        assert_eq!([base64(b"\xff"), base64(b"\xff\x00"), base64(b"\xff\x00\x3e")], ["/w==", "/wA=", "/wA+"]);
    }

    #[test]
    fn of_a_repeated_header_the_last_value_stands_at_the_first_place() {
        assert_eq!(object(&[]), None);
        let headers: [Header; 4] = [(b"a", Some(b"1")), (b"b", None), (b"a", Some(b"\"\x01\xc3\xb8")), (b"", Some(b""))];
        assert_eq!(object(&headers).unwrap(), r#"{"a":"\"\u0001ø","b":null,"":""}"#);
    }
}
