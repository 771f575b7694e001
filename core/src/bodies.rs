//! Bodies of HTTP requests: a JSON array, one object, or objects in lines, split into events without decoding them.
//!
//! Only the syntax is checked. Half a surrogate pair, a repeated key and deep nesting are no reason to refuse a body: the
//! event alone is rejected when it is converted.

use crate::export::Texts;
use crate::parse::{Fast, NeedsExact, Parser};
use std::str;

/// Why a body is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The byte that is not UTF-8.
    Encoding(usize),
    /// Where the array is no JSON.
    Array(usize),
    /// The number of the line that is not one JSON value, and where it is wrong.
    Line(usize, usize),
    /// The number of the first element that is no object.
    NoObject(usize),
    TooMany,
}

/// The events of a body.
struct Split {
    events: Texts,
    count: usize,
    most: usize,
    other: Option<usize>,
}

impl Split {
    fn push(&mut self, event: &[u8]) -> Result<(), Refusal> {
        if self.count == self.most {
            return Err(Refusal::TooMany);
        }
        if event[0] != b'{' && self.other.is_none() {
            self.other = Some(self.count);
        }
        self.count += 1;
        self.events.push(Some(event)).map_err(|_| Refusal::TooMany)
    }
}

/// Splits a body into at most so many events; their bytes stay as they are.
pub fn split(body: &[u8], most: usize) -> Result<Texts, Refusal> {
    str::from_utf8(body).map_err(|error| Refusal::Encoding(error.valid_up_to()))?;
    let mut found = Split { events: Texts::default(), count: 0, most, other: None };
    let mut parser = Parser::new(body);
    parser.blanks();
    if parser.peek() == b'{' {
        objects(&mut found, parser)?;
    } else {
        elements(&mut found, parser)?;
    }
    found.other.map_or(Ok(found.events), |number| Err(Refusal::NoObject(number)))
}

fn elements(found: &mut Split, mut parser: Parser) -> Result<(), Refusal> {
    let wrong = |parser: &Parser| Refusal::Array(parser.at);
    if parser.peek() != b'[' {
        return Err(wrong(&parser));
    }
    let mut is_more = parser.open(b']').map_err(|_| wrong(&parser))?;
    while is_more {
        let start = parser.at;
        pass(&mut parser).map_err(|_| wrong(&parser))?;
        found.push(&parser.bytes[start..parser.at])?;
        is_more = parser.more(b']').map_err(|_| wrong(&parser))?;
    }
    parser.end().map_err(|_| wrong(&parser))
}

/// Splits one object, which may have line breaks in it, or a line for each object; blank lines are skipped.
fn objects(found: &mut Split, mut parser: Parser) -> Result<(), Refusal> {
    let (body, start) = (parser.bytes, parser.at);
    if pass(&mut parser).is_ok() {
        let end = parser.at;
        if parser.end().is_ok() {
            return found.push(&body[start..end]);
        }
    }
    let mut at = 0;
    for line in body.split(|byte| *byte == b'\n') {
        let mut parser = Parser::new(line);
        parser.blanks();
        if parser.at < line.len() {
            let start = parser.at;
            let wrong = |found: &Split, parser: &Parser| Refusal::Line(found.count, at + parser.at);
            pass(&mut parser).map_err(|_| wrong(found, &parser))?;
            let end = parser.at;
            parser.end().map_err(|_| wrong(found, &parser))?;
            found.push(&line[start..end])?;
        }
        at += line.len() + 1;
    }
    Ok(())
}

/// Passes any value, however deep it is.
fn pass(parser: &mut Parser) -> Fast<()> {
    let mut open = Vec::new();
    loop {
        match parser.peek() {
            b'{' | b'[' => {
                let close = parser.peek() + 2; // in ASCII
                parser.at += 1;
                parser.blanks();
                if parser.peek() != close {
                    open.push(close);
                    if close == b'}' {
                        parser.key()?;
                    }
                    continue;
                }
                parser.at += 1;
            }
            _ => parser.skip()?,
        }
        loop {
            let Some(&close) = open.last() else { return Ok(()) };
            parser.blanks();
            if parser.peek() == close {
                parser.at += 1;
                open.pop();
                continue;
            }
            parser.expect(b',').map_err(|_| NeedsExact)?;
            parser.blanks();
            if close == b'}' {
                parser.key()?;
            }
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(body: &str) -> Result<Vec<String>, Refusal> {
        let texts = split(body.as_bytes(), 4)?;
        let ends = texts.ends().to_vec();
        let event = |pair: &[i32]| texts.bytes()[pair[0] as usize..pair[1] as usize].to_vec();
        Ok(ends.windows(2).map(|pair| String::from_utf8(event(pair)).unwrap()).collect())
    }

    #[test]
    fn an_array_an_object_and_lines_are_events() {
        assert_eq!(events(" [ {\"a\":[1,{}]} ,{}\n] ").unwrap(), ["{\"a\":[1,{}]}", "{}"]);
        assert_eq!(events(" {\"a\":\n1} \n").unwrap(), ["{\"a\":\n1}"]);
        assert_eq!(events("{\"a\":\"\\ud800\"}\r\n\n {} ").unwrap(), ["{\"a\":\"\\ud800\"}", "{}"]);
        assert_eq!(events("[]").unwrap(), [""; 0]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(events(""), Err(Refusal::Array(0)));
        assert_eq!(events("{}]"), Err(Refusal::Line(0, 2)));
        assert_eq!(events("[{},]"), Err(Refusal::Array(4)));
        assert_eq!(events("{}\n{\"a\":\n"), Err(Refusal::Line(1, 8)));
        assert_eq!(events("[{},1,2]"), Err(Refusal::NoObject(1)));
        assert_eq!(events("[{},{},{},{},{}]"), Err(Refusal::TooMany));
        assert_eq!(split(b"{\"a\":\"\xff\"}", 1).err(), Some(Refusal::Encoding(6)));
    }

    #[test]
    fn any_depth_is_passed() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(events(&deep).unwrap(), [deep]);
    }
}
