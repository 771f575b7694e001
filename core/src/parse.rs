//! A strict pull parser over one event. What it refuses, it leaves to the exact converter, which knows the reason.

pub use crate::needs_exact::{Fast, NeedsExact};
use crate::text::{quote, Keys, Text};

/// So many levels of objects and arrays an event may have (`calve.event.exact_json.DEEPEST`).
pub const DEEPEST: u32 = 250;

const BYTES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Where the parser is in an event. Every access is checked.
pub struct Parser<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
    /// How many objects and arrays are open.
    pub depth: u32,
}

/// A number as it was written: `(-1)^negative * digits * 10^exponent`.
#[derive(Clone, Copy)]
pub struct Number<'a> {
    pub text: &'a [u8],
    pub negative: bool,
    /// The digits as a number, exact if there are at most 19.
    pub mantissa: u64,
    pub digits: usize,
    pub exponent: i32,
    /// Whether it has neither a fraction nor an exponent.
    pub whole: bool,
}

/// Returns a mark in each byte of eight that ends a string, begins an escape or is a control character.
#[inline(always)]
fn special(block: u64) -> u64 {
    let quote = block ^ (BYTES * b'"' as u64);
    let escape = block ^ (BYTES * b'\\' as u64);
    let zero = (quote.wrapping_sub(BYTES) & !quote) | (escape.wrapping_sub(BYTES) & !escape);
    (zero | (block.wrapping_sub(BYTES * 0x20) & !block)) & HIGH
}

impl<'a> Parser<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Parser { bytes, at: 0, depth: 0 }
    }

    /// The byte at a position, 0 behind the end.
    #[inline(always)]
    fn byte(&self, at: usize) -> u8 {
        if at < self.bytes.len() {
            self.bytes[at]
        } else {
            0
        }
    }

    #[inline(always)]
    pub fn peek(&self) -> u8 {
        self.byte(self.at)
    }

    #[inline(always)]
    pub fn is_number(&self) -> bool {
        let byte = self.peek();
        byte == b'-' || byte.is_ascii_digit()
    }

    #[inline(always)]
    pub fn blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    #[inline(always)]
    pub fn expect(&mut self, byte: u8) -> Fast<()> {
        if self.peek() != byte {
            return Err(NeedsExact);
        }
        self.at += 1;
        Ok(())
    }

    #[inline(always)]
    pub fn word(&mut self, word: &[u8]) -> Fast<()> {
        if !self.bytes[self.at..].starts_with(word) {
            return Err(NeedsExact);
        }
        self.at += word.len();
        Ok(())
    }

    /// Passes a key and its colon, and the blanks behind them, if they are written like this; nothing is like "".
    #[inline(always)]
    pub fn passes(&mut self, pattern: &[u8]) -> bool {
        let is_next = !pattern.is_empty() && self.bytes[self.at..].starts_with(pattern);
        if is_next {
            self.at += pattern.len();
            self.blanks();
        }
        is_next
    }

    /// Passes `null` if it is next.
    #[inline(always)]
    pub fn null(&mut self) -> Fast<bool> {
        if self.peek() != b'n' {
            return Ok(false);
        }
        self.word(b"null").map(|()| true)
    }

    /// Reads the outermost object by a function that is called at its brace; nothing may follow.
    #[inline(always)]
    pub fn whole(&mut self, read: impl FnOnce(&mut Self) -> Fast<()>) -> Fast<()> {
        self.begin()?;
        read(self)?;
        self.end()
    }

    /// Goes to the brace of the outermost object.
    #[inline(always)]
    pub fn begin(&mut self) -> Fast<()> {
        self.blanks();
        if self.peek() == b'{' {
            Ok(())
        } else {
            Err(NeedsExact)
        }
    }

    /// Checks that nothing follows.
    #[inline(always)]
    pub fn end(&mut self) -> Fast<()> {
        self.blanks();
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(NeedsExact)
        }
    }

    #[inline(always)]
    pub fn string(&mut self) -> Fast<Text<'a>> {
        self.expect(b'"')?;
        let start = self.at;
        let mut at = start;
        let mut escaped = false;
        loop {
            while at + 8 <= self.bytes.len() {
                let block: [u8; 8] = self.bytes[at..at + 8].try_into().map_err(|_| NeedsExact)?;
                let marks = special(u64::from_le_bytes(block));
                if marks != 0 {
                    at += marks.trailing_zeros() as usize / 8;
                    break;
                }
                at += 8;
            }
            match self.byte(at) {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    at += self.escape(at)?;
                }
                control if control < 0x20 => return Err(NeedsExact),
                _ => at += 1,
            }
        }
        self.at = at + 1;
        Ok(Text { raw: &self.bytes[start..at], escaped })
    }

    /// The length of the escape at a position.
    #[cold]
    fn escape(&self, at: usize) -> Fast<usize> {
        match self.byte(at + 1) {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(2),
            b'u' if (2..6).all(|next| self.byte(at + next).is_ascii_hexdigit()) => Ok(6),
            _ => Err(NeedsExact),
        }
    }

    #[inline(always)]
    fn digits(&self, mut at: usize, mantissa: &mut u64) -> usize {
        loop {
            let digit = self.byte(at).wrapping_sub(b'0');
            if digit > 9 {
                return at;
            }
            *mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
            at += 1;
        }
    }

    #[inline(always)]
    pub fn number(&mut self) -> Fast<Number<'a>> {
        let start = self.at;
        let negative = self.peek() == b'-';
        let first = start + usize::from(negative);
        let mut mantissa = 0;
        let mut at = self.digits(first, &mut mantissa);
        let mut digits = at - first;
        if digits == 0 || (digits > 1 && self.byte(first) == b'0') {
            return Err(NeedsExact);
        }
        let (mut exponent, mut whole) = (0, true);
        if self.byte(at) == b'.' {
            let from = at + 1;
            at = self.digits(from, &mut mantissa);
            if at == from {
                return Err(NeedsExact);
            }
            digits += at - from;
            exponent = -i32::try_from(at - from).map_err(|_| NeedsExact)?;
            whole = false;
        }
        if self.byte(at) | 32 == b'e' {
            let minus = self.byte(at + 1) == b'-';
            let from = at + 1 + usize::from(minus || self.byte(at + 1) == b'+');
            at = from;
            let mut power = 0i32;
            while self.byte(at).is_ascii_digit() {
                power = (power.saturating_mul(10)).saturating_add(i32::from(self.byte(at) - b'0'));
                at += 1;
            }
            if at == from {
                return Err(NeedsExact);
            }
            exponent = exponent.saturating_add(if minus { -power } else { power });
            whole = false;
        }
        self.at = at;
        Ok(Number { text: &self.bytes[start..at], negative, mantissa, digits, exponent, whole })
    }

    /// Checks any value and leaves it behind.
    pub fn skip(&mut self) -> Fast<()> {
        match self.peek() {
            b'"' => self.string().map(|_| ()),
            b'{' => self.object(|parser, _| parser.skip()),
            b'[' => self.array(|parser| parser.skip()),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.number().map(|_| ()),
        }
    }

    /// The same, of a value in which no object repeats a key, and no text is half a surrogate pair.
    pub fn skip_unique(&mut self) -> Fast<()> {
        match self.peek() {
            b'{' => {
                let mut keys = Keys::default();
                self.object(|parser, key| {
                    if !keys.add(key)? {
                        return Err(NeedsExact);
                    }
                    parser.skip_unique()
                })
            }
            b'[' => self.array(Self::skip_unique),
            b'"' => self.string()?.with(|_| ()),
            _ => self.skip(),
        }
    }

    #[inline(always)]
    fn deeper(&mut self) -> Fast<()> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(NeedsExact);
        }
        Ok(())
    }

    /// Goes to the next member after a value; false: there is none, and the object or array is behind.
    #[inline(always)]
    pub fn more(&mut self, close: u8) -> Fast<bool> {
        self.blanks();
        let byte = self.peek();
        self.at += 1;
        if byte == close {
            self.depth -= 1;
            return Ok(false);
        }
        if byte != b',' {
            return Err(NeedsExact);
        }
        self.blanks();
        Ok(true)
    }

    /// Opens an object or array; false: it is empty, and behind.
    #[inline(always)]
    pub fn open(&mut self, close: u8) -> Fast<bool> {
        self.deeper()?;
        self.at += 1;
        self.blanks();
        if self.peek() == close {
            self.at += 1;
            self.depth -= 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// Reads a key up to its value.
    #[inline(always)]
    pub fn key(&mut self) -> Fast<Text<'a>> {
        let key = self.string()?;
        self.blanks();
        self.expect(b':')?;
        self.blanks();
        Ok(key)
    }

    pub fn object(&mut self, mut each: impl FnMut(&mut Self, Text<'a>) -> Fast<()>) -> Fast<()> {
        let mut more = self.open(b'}')?;
        while more {
            let key = self.key()?;
            each(self, key)?;
            more = self.more(b'}')?;
        }
        Ok(())
    }

    pub fn array(&mut self, mut each: impl FnMut(&mut Self) -> Fast<()>) -> Fast<()> {
        let mut more = self.open(b']')?;
        while more {
            each(self)?;
            more = self.more(b']')?;
        }
        Ok(())
    }

    /// Writes any value as compact JSON, each number as it was written (`calve.event.exact_json.dump`).
    pub fn dump(&mut self, out: &mut Vec<u8>) -> Fast<()> {
        let start = self.at;
        match self.peek() {
            b'"' => return quote(self.string()?, out),
            b'{' => return self.dump_object(out),
            b'[' => {
                out.push(b'[');
                let mut more = self.open(b']')?;
                while more {
                    self.dump(out)?;
                    more = self.more(b']')?;
                    out.push(if more { b',' } else { b']' });
                }
                if out.last() == Some(&b'[') {
                    out.push(b']');
                }
                return Ok(());
            }
            _ => self.skip()?,
        }
        out.extend_from_slice(&self.bytes[start..self.at]);
        Ok(())
    }

    fn dump_object(&mut self, out: &mut Vec<u8>) -> Fast<()> {
        let mut keys = Keys::default();
        out.push(b'{');
        let mut first = true;
        self.object(|parser, key| {
            if !keys.add(key)? {
                return Err(NeedsExact); // the last one counts, in the position of the first
            }
            if !first {
                out.push(b',');
            }
            first = false;
            quote(key, out)?;
            out.push(b':');
            parser.dump(out)
        })?;
        out.push(b'}');
        Ok(())
    }
}
