//! Columns of one table, and one row of them: each call fills the next column.

use crate::column::{Column, Store};
use crate::object_columns::{Names, ObjectColumns};
use crate::otlp::value::{check, column, push_attributes, push_text, push_value, texts, Attributes};
use crate::parse::{Fast, NeedsExact};
use crate::protobuf::wire::Reader;
use std::slice::IterMut;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Columns by letters: `t` texts, `m` maps of texts, `l` and `i` numbers of 64 and 32 bits, `d` doubles, `b` booleans, `n`
/// times (microseconds and the nanoseconds beyond them, two columns), `L` and `D` lists of numbers, `(…)` lists of rows.
pub fn columns(letters: &mut std::str::Chars) -> Vec<Column> {
    let list = |element| column(Store::List(vec![0], Box::new(element)));
    let mut columns = vec![];
    while let Some(letter) = letters.next() {
        let next = match letter {
            't' => texts(),
            'm' => column(Store::Map(vec![0], Box::new((texts(), texts())))),
            'l' => column(Store::Longs(vec![])),
            'i' => column(Store::Ints(vec![])),
            'd' => column(Store::Doubles(vec![])),
            'b' => column(Store::Bits(vec![])),
            'L' => list(column(Store::Longs(vec![]))),
            'D' => list(column(Store::Doubles(vec![]))),
            'n' => {
                columns.push(column(Store::Longs(vec![])));
                column(Store::Ints(vec![]))
            }
            '(' => {
                let fields = self::columns(letters).into_iter().map(|field| (String::new(), field)).collect();
                list(column(Store::Struct(Box::new(ObjectColumns::new(fields, Names::default())))))
            }
            _ => break, // ')'
        };
        columns.push(next);
    }
    columns
}

/// None: what comes is checked, and not kept.
pub struct Row<'a>(Option<IterMut<'a, Column>>);

impl<'a> Row<'a> {
    pub fn new(columns: Option<&'a mut [Column]>) -> Row<'a> {
        Row(columns.map(<[Column]>::iter_mut))
    }

    /// The next column, if rows are kept.
    #[inline(always)]
    fn next(&mut self) -> Fast<Option<&'a mut Column>> {
        match &mut self.0 {
            Some(columns) => columns.next().map(Some).ok_or(NeedsExact),
            None => Ok(None),
        }
    }

    /// A text; an empty one is none.
    pub fn text(&mut self, text: &[u8]) -> Fast<()> {
        self.optional_text((!text.is_empty()).then_some(text))
    }

    pub fn optional_text(&mut self, text: Option<&[u8]>) -> Fast<()> {
        if let Some(column) = self.next()? {
            push_text(column, text);
        }
        Ok(())
    }

    /// An id, of any length.
    pub fn id(&mut self, bytes: &[u8]) -> Fast<()> {
        let Some(column) = self.next()? else { return Ok(()) };
        match &mut column.store {
            Store::Bytes(ends, digits) if !bytes.is_empty() => {
                bytes.iter().for_each(|byte| {
                    digits.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
                });
                ends.push(digits.len() as i64);
                column.valid.push(1);
            }
            _ => column.push_null(),
        }
        Ok(())
    }

    /// A value of any kind, as a text.
    pub fn value(&mut self, value: Reader) -> Fast<()> {
        match self.next()? {
            Some(column) => push_value(column, value),
            None => check(value),
        }
    }

    /// What others have read for many rows.
    pub fn map(&mut self, attributes: &Attributes) -> Fast<()> {
        self.next()?.map_or(Ok(()), |column| attributes.push_to(column))
    }

    pub fn attributes<'b>(&mut self, pairs: impl Iterator<Item = Reader<'b>>) -> Fast<()> {
        push_attributes(self.next()?, pairs)
    }

    pub fn long(&mut self, number: Option<i64>) -> Fast<()> {
        self.push(number, |store| match store {
            Store::Longs(values) => Some(values),
            _ => None,
        })
    }

    pub fn int(&mut self, number: Option<i32>) -> Fast<()> {
        self.push(number, |store| match store {
            Store::Ints(values) => Some(values),
            _ => None,
        })
    }

    pub fn double(&mut self, number: Option<f64>) -> Fast<()> {
        self.push(number, |store| match store {
            Store::Doubles(values) => Some(values),
            _ => None,
        })
    }

    pub fn flag(&mut self, flag: Option<bool>) -> Fast<()> {
        self.push(flag.map(u8::from), |store| match store {
            Store::Bits(values) => Some(values),
            _ => None,
        })
    }

    #[inline(always)]
    fn push<T>(&mut self, value: Option<T>, values: impl Fn(&mut Store) -> Option<&mut Vec<T>>) -> Fast<()> {
        let Some(column) = self.next()? else { return Ok(()) };
        match (value, values(&mut column.store)) {
            (Some(value), Some(values)) => {
                values.push(value);
                column.valid.push(1);
            }
            _ => column.push_null(),
        }
        Ok(())
    }

    /// A time in nanoseconds; 0 is none.
    pub fn time(&mut self, nanos: u64) -> Fast<()> {
        self.long((nanos != 0).then_some((nanos / 1000) as i64))?;
        self.int((nanos != 0).then_some((nanos % 1000) as i32))
    }

    /// A list of so many numbers.
    pub fn longs(&mut self, numbers: Option<Vec<i64>>) -> Fast<()> {
        self.numbers(numbers, |element, number| element.long(Some(number)))
    }

    pub fn doubles(&mut self, numbers: Option<Vec<f64>>) -> Fast<()> {
        self.numbers(numbers, |element, number| element.double(Some(number)))
    }

    fn numbers<T>(&mut self, numbers: Option<Vec<T>>, fill: impl Fn(&mut Row, T) -> Fast<()>) -> Fast<()> {
        let Some(column) = self.next()? else { return Ok(()) };
        let Some(numbers) = numbers else {
            column.push_null();
            return Ok(());
        };
        let Store::List(ends, element) = &mut column.store else { return Err(NeedsExact) };
        for number in numbers {
            fill(&mut Row::new(Some(std::slice::from_mut(&mut **element))), number)?;
        }
        ends.push(element.valid.len() as i64);
        column.valid.push(1);
        Ok(())
    }

    /// A list of rows.
    pub fn rows<T>(&mut self, mut items: impl Iterator<Item = T>, fill: impl Fn(&mut Row, T) -> Fast<()>) -> Fast<()> {
        let Some(column) = self.next()? else { return items.try_for_each(|item| fill(&mut Row::new(None), item)) };
        let Store::List(ends, element) = &mut column.store else { return Err(NeedsExact) };
        for item in items {
            let Store::Struct(level) = &mut element.store else { return Err(NeedsExact) };
            fill(&mut Row::new(Some(&mut level.columns)), item)?;
            element.valid.push(1);
        }
        ends.push(element.valid.len() as i64);
        column.valid.push(1);
        Ok(())
    }
}
