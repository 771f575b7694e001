//! Strings and keys of events as they are written, and as they are meant.

use crate::needs_exact::{Fast, NeedsExact};
use std::collections::HashSet;

/// The inside of a string, and whether it holds escapes.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    pub raw: &'a [u8],
    pub escaped: bool,
}

impl<'a> Text<'a> {
    /// Writes the text without escapes; half a surrogate pair is not decided here.
    #[inline(always)]
    pub fn write(self, out: &mut Vec<u8>) -> Fast<()> {
        if !self.escaped {
            out.extend_from_slice(self.raw);
            return Ok(());
        }
        self.unescape(out)
    }

    #[cold]
    fn unescape(self, out: &mut Vec<u8>) -> Fast<()> {
        let raw = self.raw;
        let hex = |at: usize| {
            let digits = raw.get(at..at + 4).ok_or(NeedsExact)?;
            let digits = std::str::from_utf8(digits).map_err(|_| NeedsExact)?;
            u32::from_str_radix(digits, 16).map_err(|_| NeedsExact)
        };
        let mut at = 0;
        while at < raw.len() {
            if raw[at] != b'\\' {
                out.push(raw[at]);
                at += 1;
                continue;
            }
            at += 2;
            match *raw.get(at - 1).ok_or(NeedsExact)? {
                b'b' => out.push(8),
                b'f' => out.push(12),
                b'n' => out.push(10),
                b'r' => out.push(13),
                b't' => out.push(9),
                b'u' => {
                    let mut unit = hex(at)?;
                    at += 4;
                    if (0xd800..0xdc00).contains(&unit) && raw[at..].starts_with(b"\\u") {
                        let low = hex(at + 2)?;
                        if (0xdc00..0xe000).contains(&low) {
                            unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                            at += 6;
                        }
                    }
                    let character = char::from_u32(unit).ok_or(NeedsExact)?;
                    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                other => out.push(other),
            }
        }
        Ok(())
    }

    /// Writes the string with its quotes, as it is written.
    #[inline(always)]
    pub fn copy(self, out: &mut Vec<u8>) {
        out.push(b'"');
        out.extend_from_slice(self.raw);
        out.push(b'"');
    }

    /// Calls a function with the text without escapes.
    #[inline(always)]
    pub fn with<T>(self, f: impl FnOnce(&[u8]) -> T) -> Fast<T> {
        if !self.escaped {
            return Ok(f(self.raw));
        }
        let mut plain = Vec::new();
        self.unescape(&mut plain)?;
        Ok(f(&plain))
    }
}

/// Writes a string as Python's `json` does without `ensure_ascii`.
pub fn quote(text: Text, out: &mut Vec<u8>) -> Fast<()> {
    out.push(b'"');
    if text.escaped {
        text.with(|plain| plain.iter().for_each(|&byte| quote_byte(byte, out)))?;
    } else {
        out.extend_from_slice(text.raw);
    }
    out.push(b'"');
    Ok(())
}

/// Writes a text without escapes as `msgspec` does.
pub fn quote_plain(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    if text.iter().any(|&byte| byte < 32 || byte == b'"' || byte == b'\\') {
        text.iter().for_each(|&byte| quote_byte(byte, out));
    } else {
        out.extend_from_slice(text);
    }
    out.push(b'"');
}

pub fn quote_byte(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'"' | b'\\' => out.extend([b'\\', byte]),
        8 => out.extend(b"\\b"),
        9 => out.extend(b"\\t"),
        10 => out.extend(b"\\n"),
        12 => out.extend(b"\\f"),
        13 => out.extend(b"\\r"),
        0..=31 => out.extend(format!("\\u{byte:04x}").bytes()),
        _ => out.push(byte),
    }
}

/// The keys of one object: whether one is repeated.
#[derive(Default)]
pub struct Keys<'a> {
    few: Vec<&'a [u8]>,
    many: HashSet<Vec<u8>>,
    escaped: bool,
}

const FEW: usize = 12;

impl<'a> Keys<'a> {
    /// Starts with keys without escapes, all different.
    pub fn of(keys: impl Iterator<Item = &'a [u8]>) -> Self {
        Keys { few: keys.collect(), ..Keys::default() }
    }

    /// Adds a key; false: it is there already.
    #[inline(always)]
    pub fn add(&mut self, key: Text<'a>) -> Fast<bool> {
        if self.many.is_empty() && !key.escaped && !self.escaped && self.few.len() < FEW {
            let is_new = !self.few.contains(&key.raw);
            self.few.push(key.raw);
            return Ok(is_new);
        }
        self.add_to_many(key)
    }

    fn add_to_many(&mut self, key: Text<'a>) -> Fast<bool> {
        self.escaped = true;
        for one in self.few.drain(..) {
            self.many.insert(one.to_vec());
        }
        let mut plain = Vec::new();
        key.write(&mut plain)?;
        Ok(self.many.insert(plain))
    }
}
