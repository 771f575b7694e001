//! Columns of one table, and one row of them: each call fills the next column.

use crate::column::{Column, Kind, Store};
use crate::object_columns::{Names, ObjectColumns};
use crate::otlp::value::{push_text, Attributes};
use crate::parse::{Fast, NeedsExact};
use std::slice::IterMut;

const HEX: &[u8; 16] = b"0123456789abcdef";

fn column(store: Store) -> Column {
    Column { kind: Kind::Nested, store, valid: vec![], required: false, may_lack: false, defers: false }
}

/// Columns by letters: `t` texts, `m` maps of texts, `l` and `i` numbers of 64 and 32 bits, `d` doubles, `b` booleans, `n`
/// times (microseconds and the nanoseconds beyond them, two columns), `L` and `D` lists of numbers, `(…)` lists of rows.
pub fn columns(letters: &mut std::str::Chars) -> Vec<Column> {
    let texts = || column(Store::Bytes(vec![0], vec![]));
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

pub struct Row<'a>(IterMut<'a, Column>);

impl<'a> Row<'a> {
    pub fn new(columns: &'a mut [Column]) -> Row<'a> {
        Row(columns.iter_mut())
    }

    fn next(&mut self) -> Fast<&'a mut Column> {
        self.0.next().ok_or(NeedsExact)
    }

    /// A text; an empty one is none.
    pub fn text(&mut self, text: &[u8]) -> Fast<()> {
        self.optional_text((!text.is_empty()).then_some(text))
    }

    pub fn optional_text(&mut self, text: Option<&[u8]>) -> Fast<()> {
        push_text(self.next()?, text);
        Ok(())
    }

    /// An id, of any length.
    pub fn id(&mut self, bytes: &[u8]) -> Fast<()> {
        let digits = bytes.iter().flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        let mut short = [0; 32];
        if bytes.len() * 2 > short.len() {
            return self.text(&digits.collect::<Vec<u8>>());
        }
        short.iter_mut().zip(digits).for_each(|(place, digit)| *place = digit);
        self.text(&short[..bytes.len() * 2])
    }

    pub fn map(&mut self, attributes: &Attributes) -> Fast<()> {
        attributes.push_to(self.next()?)
    }

    pub fn long(&mut self, number: Option<i64>) -> Fast<()> {
        let column = self.next()?;
        push(column, number, |store| match store {
            Store::Longs(values) => Some(values),
            _ => None,
        });
        Ok(())
    }

    pub fn int(&mut self, number: Option<i32>) -> Fast<()> {
        let column = self.next()?;
        push(column, number, |store| match store {
            Store::Ints(values) => Some(values),
            _ => None,
        });
        Ok(())
    }

    pub fn double(&mut self, number: Option<f64>) -> Fast<()> {
        let column = self.next()?;
        push(column, number, |store| match store {
            Store::Doubles(values) => Some(values),
            _ => None,
        });
        Ok(())
    }

    pub fn flag(&mut self, flag: Option<bool>) -> Fast<()> {
        let column = self.next()?;
        push(column, flag.map(u8::from), |store| match store {
            Store::Bits(values) => Some(values),
            _ => None,
        });
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
        let column = self.next()?;
        let Some(numbers) = numbers else {
            column.push_null();
            return Ok(());
        };
        let Store::List(ends, element) = &mut column.store else { return Err(NeedsExact) };
        for number in numbers {
            fill(&mut Row::new(std::slice::from_mut(&mut **element)), number)?;
        }
        ends.push(element.valid.len() as i64);
        column.valid.push(1);
        Ok(())
    }

    /// A list of rows.
    pub fn rows<T>(&mut self, items: impl Iterator<Item = T>, fill: impl Fn(&mut Row, T) -> Fast<()>) -> Fast<()> {
        let column = self.next()?;
        let Store::List(ends, element) = &mut column.store else { return Err(NeedsExact) };
        for item in items {
            let Store::Struct(level) = &mut element.store else { return Err(NeedsExact) };
            fill(&mut Row::new(&mut level.columns), item)?;
            element.valid.push(1);
        }
        ends.push(element.valid.len() as i64);
        column.valid.push(1);
        Ok(())
    }
}

fn push<T>(column: &mut Column, value: Option<T>, values: impl Fn(&mut Store) -> Option<&mut Vec<T>>) {
    match (value, values(&mut column.store)) {
        (Some(value), Some(values)) => {
            values.push(value);
            column.valid.push(1);
        }
        _ => column.push_null(),
    }
}
