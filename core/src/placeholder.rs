//! What stands for a value that the source did not send (`calve.event.envelope.placeholder.Placeholder`).

use crate::parse::{Fast, NeedsExact, Parser};
use crate::text::Text;

/// The fields of a geometry, with one of which it begins.
const GEOMETRY: [&[u8]; 4] = [b"wkb", b"srid", b"x", b"y"];

#[derive(Default)]
pub struct Placeholder {
    /// The texts, also as the only element of an array; the first one also as the key and value of a map.
    pub texts: Vec<Vec<u8>>,
    /// Texts with which an array begins that only the exact decoder knows.
    pub firsts: Vec<Vec<u8>>,
    /// The digits with which such an array of numbers begins; 0: none does.
    pub digits: u64,
    /// The texts of geometries that only the exact decoder knows.
    pub geometries: Vec<Vec<u8>>,
}

impl Placeholder {
    /// Checks a value and leaves it behind; true: it stands for another one.
    pub fn skip(&self, parser: &mut Parser) -> Fast<bool> {
        let start = parser.at;
        match parser.peek() {
            b'"' => self.is_text(parser.string()?),
            open @ (b'[' | b'{') => {
                parser.skip_unique()?;
                let value = &parser.bytes[start..parser.at];
                let mut inside = Parser::new(value);
                inside.open(open + 2)?;
                if open == b'[' {
                    self.is_array(&mut inside)
                } else {
                    self.is_object(&mut inside, value)
                }
            }
            _ => parser.skip().map(|()| false),
        }
    }

    fn is_text(&self, text: Text) -> Fast<bool> {
        text.with(|text| self.texts.iter().any(|one| one == text))
    }

    fn is_first(&self, text: Text) -> Fast<bool> {
        text.with(|text| self.firsts.iter().any(|one| one == text))
    }

    fn is_array(&self, parser: &mut Parser) -> Fast<bool> {
        match parser.peek() {
            b'"' => {
                let first = parser.string()?;
                let is_placeholder = self.is_text(first)?;
                if !is_placeholder && self.is_first(first)? {
                    return Err(NeedsExact);
                }
                Ok(is_placeholder && !parser.more(b']')?)
            }
            b'{' if self.digits > 0 => self.is_array_of_decimals(parser),
            _ if parser.is_number() && self.digits > 0 => {
                let mut digits = parser.number()?.mantissa;
                while digits > self.digits {
                    digits /= 10;
                }
                if digits == self.digits {
                    Err(NeedsExact)
                } else {
                    Ok(false)
                }
            }
            _ => Ok(false),
        }
    }

    /// Leaves an array of decimals with their scales to the exact decoder, if the first one may be the placeholder's.
    fn is_array_of_decimals(&self, parser: &mut Parser) -> Fast<bool> {
        let mut has_more = parser.open(b'}')?;
        while has_more {
            let key = parser.key()?;
            if key.escaped {
                return Err(NeedsExact);
            }
            match key.raw {
                b"value" if parser.peek() == b'"' => {
                    return if self.is_first(parser.string()?)? { Err(NeedsExact) } else { Ok(false) };
                }
                b"scale" if parser.is_number() && parser.number()?.mantissa == 0 => has_more = parser.more(b'}')?,
                _ => return Ok(false),
            }
        }
        Ok(false)
    }

    fn is_object(&self, parser: &mut Parser, value: &[u8]) -> Fast<bool> {
        if self.texts.is_empty() || parser.peek() != b'"' {
            return Ok(false);
        }
        let key = parser.key()?;
        let has = |text: &Vec<u8>| value.windows(text.len()).any(|part| part == text.as_slice());
        let may_be_geometry = key.escaped || GEOMETRY.contains(&key.raw);
        if may_be_geometry && (value.contains(&b'\\') || self.geometries.iter().any(has)) {
            return Err(NeedsExact);
        }
        let is_text = |text: Text| text.with(|text| text == self.texts[0].as_slice());
        Ok(is_text(key)? && parser.peek() == b'"' && is_text(parser.string()?)? && !parser.more(b'}')?)
    }
}
