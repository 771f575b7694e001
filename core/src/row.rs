//! One row of an envelope: where its values lie, and how it is written.

use crate::logical_type::LogicalType;
use crate::parse::{Fast, NeedsExact, Parser};
use crate::placeholder::Placeholder;
use crate::text::{Keys, Text};
use std::rc::Rc;

struct Member<'a> {
    key: Text<'a>,
    value: &'a [u8],
    is_told: bool,
}

/// So many tables are remembered by their keys.
const MOST_TABLES: usize = 16;

/// The keys of rows, as they are written; none is repeated.
#[derive(Default)]
struct KnownKeys(Vec<Vec<Vec<u8>>>);

#[derive(Default)]
pub struct Row<'a> {
    text: Option<&'a [u8]>,
    members: Vec<Member<'a>>,
    is_met: bool,
    is_all_told: bool,
    known: KnownKeys,
    placeholder: Rc<Placeholder>,
}

impl<'a> Row<'a> {
    pub fn new(placeholder: Rc<Placeholder>) -> Row<'a> {
        Row { placeholder, ..Row::default() }
    }

    pub fn clear(&mut self) {
        self.text = None;
        self.members.clear();
        self.is_met = false;
        self.is_all_told = true;
    }

    /// Whether there is one: it is an object.
    pub fn is_there(&self) -> bool {
        self.text.is_some()
    }

    /// Reads the value of the row's field, which must not be repeated.
    pub fn read(&mut self, parser: &mut Parser<'a>) -> Fast<()> {
        if self.is_met {
            return Err(NeedsExact);
        }
        self.is_met = true;
        if parser.peek() != b'{' {
            return parser.skip();
        }
        let start = parser.at;
        parser.object(|parser, key| {
            let start = parser.at;
            let is_told = !self.placeholder.skip(parser)?;
            self.is_all_told &= is_told;
            self.members.push(Member { key, value: &parser.bytes[start..parser.at], is_told });
            Ok(())
        })?;
        self.text = Some(&parser.bytes[start..parser.at]);
        self.known.check(&self.members)
    }

    /// Writes the row without values that the source did not tell.
    pub fn write(&self, logical_type: &LogicalType, out: &mut Vec<u8>) -> Fast<()> {
        let text = self.text.ok_or(NeedsExact)?;
        let fields = match logical_type {
            LogicalType::AsIs if self.is_all_told => {
                out.extend_from_slice(text);
                return Ok(());
            }
            LogicalType::AsIs => None,
            LogicalType::Struct(fields) => Some(fields),
            _ => return Err(NeedsExact),
        };
        out.push(b'{');
        let (first, mut known) = (out.len(), 0);
        for (number, member) in self.members.iter().enumerate().filter(|(_, member)| member.is_told) {
            if out.len() > first {
                out.push(b',');
            }
            member.key.copy(out);
            out.push(b':');
            match fields {
                Some(fields) => {
                    fields.logical_type(number, member.key, &mut known)?.write(&mut Parser::new(member.value), out)?
                }
                None => out.extend_from_slice(member.value),
            }
        }
        out.push(b'}');
        fields.map_or(Ok(()), |fields| fields.check(known))
    }

    /// Whether none of these fields had another value before; what is only written otherwise is not decided.
    pub fn has_same(&self, before: &Row, names: &[Vec<u8>]) -> Fast<bool> {
        for name in names {
            let (old, new) = (before.value(name)?, self.value(name)?);
            if old.is_some() && new.is_some() && old != new && old != Some(b"null") {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn value(&self, name: &[u8]) -> Fast<Option<&'a [u8]>> {
        for member in &self.members {
            if member.key.with(|key| key == name)? {
                return Ok(Some(member.value));
            }
        }
        Ok(None)
    }
}

impl KnownKeys {
    /// Refuses keys of which one is repeated; rows of one table mostly have the same keys in the same order.
    fn check(&mut self, members: &[Member]) -> Fast<()> {
        let is_same = |(member, key): (&Member, &Vec<u8>)| !member.key.escaped && member.key.raw == key.as_slice();
        let is_known = |keys: &Vec<Vec<u8>>| members.len() <= keys.len() && members.iter().zip(keys).all(is_same);
        if self.0.iter().any(is_known) {
            return Ok(());
        }
        let mut keys = Keys::default();
        for member in members {
            if !keys.add(member.key)? {
                return Err(NeedsExact);
            }
        }
        if members.iter().all(|member| !member.key.escaped) {
            self.0.truncate(MOST_TABLES - 1);
            self.0.insert(0, members.iter().map(|member| member.key.raw.to_vec()).collect());
        }
        Ok(())
    }
}
