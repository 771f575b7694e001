//! Reads what Python says of a table: texts that end in NUL, depth first.

use crate::column::{Column, Kind, Store};
use crate::envelope::{Format, Slot, Slots};
use crate::infer::Folded;
use crate::logical_type::{Fields, LogicalType};
use crate::object_columns::{Names, ObjectColumns};
use crate::placeholder::Placeholder;
use crate::scalar::{Counts, Numbers};
use std::rc::Rc;

/// The texts, in their order.
pub struct Spec<'a>(std::str::Split<'a, char>);

impl<'a> Spec<'a> {
    pub fn new(text: &'a str) -> Spec<'a> {
        Spec(text.split('\0'))
    }

    pub fn text(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    pub fn number<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.text()?.parse().ok()
    }

    pub fn flag(&mut self) -> Option<bool> {
        Some(self.text()? == "1")
    }

    /// Some numbers below a bound, after their count.
    pub fn numbers(&mut self, below: usize) -> Option<Vec<usize>> {
        (0..self.number()?).map(|_| self.number_below(below)).collect()
    }

    pub fn number_below(&mut self, below: usize) -> Option<usize> {
        self.number().filter(|&number| number < below)
    }

    fn texts<C: FromIterator<Vec<u8>>>(&mut self) -> Option<C> {
        let count = self.number()?;
        (0..count).map(|_| Some(self.text()?.as_bytes().to_vec())).collect()
    }

    fn placeholder(&mut self) -> Option<Placeholder> {
        let (texts, firsts, digits) = (self.texts()?, self.texts()?, self.number()?);
        Some(Placeholder { texts, firsts, digits, geometries: self.texts()? })
    }

    /// The table: which fields are read, then its columns.
    pub fn object_columns(&mut self) -> Option<ObjectColumns> {
        let (include, exclude) = (self.texts()?, self.texts()?);
        let (ignores_case, observes) = (self.flag()?, self.flag()?);
        let (fields, folded) = self.fields(ignores_case, "")?;
        Some(ObjectColumns::new(fields, Names { folded, include, exclude, path: String::new(), observes }))
    }

    #[allow(clippy::type_complexity)]
    fn fields(&mut self, ignores_case: bool, path: &str) -> Option<(Vec<(String, Column)>, Option<Folded>)> {
        let count: usize = self.number()?;
        let (mut fields, mut folded) = (Vec::with_capacity(count), Folded::new());
        for number in 0..count {
            let (name, without_case) = (self.text()?, self.text()?);
            fold(&mut folded, without_case, number);
            fields.push((name.to_string(), self.column(ignores_case, &format!("{path}{name}."))?));
        }
        Some((fields, ignores_case.then_some(folded)))
    }

    fn column(&mut self, ignores_case: bool, path: &str) -> Option<Column> {
        let (required, may_lack, defers) = (self.flag()?, self.flag()?, self.flag()?);
        let (kind, store) = self.kind(ignores_case, path)?;
        Some(Column { kind, store, valid: vec![], required, may_lack, defers })
    }

    fn kind(&mut self, ignores_case: bool, path: &str) -> Option<(Kind, Store)> {
        Some(match self.text()? {
            "boolean" => (Kind::Boolean, Store::Bits(vec![])),
            "int" => (Kind::Int, Store::Ints(vec![])),
            "long" => (Kind::Long, Store::Longs(vec![])),
            "float" => (Kind::Float, Store::Floats(vec![])),
            "double" => (Kind::Double, Store::Doubles(vec![])),
            "decimal" => {
                let (precision, scale) = (self.number()?, self.number()?);
                (Kind::Decimal { precision, scale }, Store::Decimals(vec![]))
            }
            "date" => (Kind::Date, Store::Ints(vec![])),
            "time" => (Kind::Time, Store::Longs(vec![])),
            "timestamp" => {
                let digits = self.number()?;
                let counts = match self.text()? {
                    "auto" => Counts::Auto,
                    scale => Counts::Scale(scale.parse().ok()?),
                };
                let (in_texts, takes_zones) = (self.flag()?, self.flag()?);
                (Kind::Timestamp { digits, counts: Numbers { counts, in_texts }, takes_zones }, Store::Longs(vec![]))
            }
            "string" => (Kind::String, Store::Bytes(vec![0], vec![])),
            "binary" => (Kind::Binary, Store::Bytes(vec![0], vec![])),
            "fixed" => (Kind::Fixed, Store::Fixed(self.number()?, vec![])),
            "uuid" => (Kind::Uuid, Store::Fixed(16, vec![])),
            "struct" => {
                let (fields, folded) = self.fields(ignores_case, path)?;
                let names = Names { folded, path: path.to_string(), ..Names::default() };
                (Kind::Nested, Store::Struct(Box::new(ObjectColumns::new(fields, names))))
            }
            "list" => {
                let element = self.column(ignores_case, &format!("{path}element."))?;
                (Kind::Nested, Store::List(vec![0], Box::new(element)))
            }
            "map" => {
                let key = self.column(ignores_case, path)?;
                let value = self.column(ignores_case, &format!("{path}value."))?;
                (Kind::Nested, Store::Map(vec![0], Box::new((key, value))))
            }
            "unknown" => (Kind::Unknown, Store::Nothing),
            _ => return None,
        })
    }

    /// A format of envelopes: its paths, the words of its operations, what is asked for.
    pub fn format(&mut self) -> Option<Format> {
        let (may_be_wrapped, has_whole_before) = (self.flag()?, self.flag()?);
        let placeholder = Rc::new(self.placeholder()?);
        let (mut slots, mut values) = (vec![], 0);
        let (before, after, operation) = (self.text()?, self.text()?, self.text()?);
        let is_plain = operation.is_empty();
        let operation = if is_plain {
            0
        } else {
            slot(&mut slots, &mut values, before, Some(Slot::Before))?;
            slot(&mut slots, &mut values, after, Some(Slot::After))?;
            slot(&mut slots, &mut values, operation, None)?
        };
        let words: usize = self.number()?;
        let words =
            (0..words).map(|_| Some((self.text()?.into(), self.text()?.parse().ok()))).collect::<Option<_>>()?;
        let mut metadata = Vec::new();
        for _ in 0..self.number::<usize>()? {
            metadata.push((slot(&mut slots, &mut values, self.text()?, None)?, self.flag()?));
        }
        let keys = self.texts()?;
        Some(Format {
            slots,
            values,
            operation,
            words,
            has_whole_before,
            may_be_wrapped,
            is_plain,
            metadata,
            keys,
            placeholder,
        })
    }

    /// What a schema says of a value.
    pub fn logical_type(&mut self) -> Option<LogicalType> {
        Some(match self.text()? {
            "as-is" => LogicalType::AsIs,
            "decimal" => LogicalType::Decimal(self.number()?),
            "free-decimal" => LogicalType::FreeDecimal,
            "date" => LogicalType::Date,
            "time" => LogicalType::Time(self.number()?),
            "timestamp" => LogicalType::Timestamp(self.number()?),
            "utc" => LogicalType::Utc,
            "struct" => {
                let (has_defaults, count) = (self.flag()?, self.number::<usize>()?);
                let fields =
                    (0..count).map(|_| Some((self.text()?.into(), self.logical_type()?))).collect::<Option<_>>()?;
                LogicalType::Struct(Fields::new(fields, has_defaults))
            }
            "array" => LogicalType::Array(Box::new(self.logical_type()?)),
            "map" => LogicalType::Map(Box::new(self.logical_type()?)),
            "left" => LogicalType::NeedsExact,
            _ => return None,
        })
    }
}

/// Puts what is at a path to the others; without a slot it is a value, perhaps one that is there. Gives its number.
fn slot(slots: &mut Slots, values: &mut usize, path: &str, given: Option<Slot>) -> Option<usize> {
    let (name, rest) = path
        .strip_prefix('/')?
        .split_once('/')
        .map_or((&path[1..], None), |(name, _)| (name, Some(&path[1 + name.len()..])));
    let at = slots.iter().position(|(known, _)| known == name.as_bytes());
    let at = at.unwrap_or_else(|| {
        let number = *values;
        *values += 1;
        let new = if rest.is_some() { Slot::Within(number, vec![]) } else { Slot::Value(number) };
        slots.push((name.into(), new));
        slots.len() - 1
    });
    match (&mut slots[at].1, rest, given) {
        (Slot::Within(_, inner), Some(rest), given) => slot(inner, values, rest, given),
        (Slot::Value(number), None, None) => Some(*number),
        (found @ Slot::Value(_), None, Some(given)) => {
            *found = given;
            Some(0)
        }
        _ => None,
    }
}

/// A name without its case stands for a column, or for several.
fn fold(folded: &mut Folded, name: &str, number: usize) {
    folded.entry(name.as_bytes().to_vec()).and_modify(|one| *one = None).or_insert(Some(number));
}
