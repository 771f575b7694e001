//! Columns as Arrow arrays that own their memory.

use crate::column::{Column, Store};
use crate::parse::{Fast, NeedsExact};
use std::any::Any;
use std::ffi::c_void;
use std::mem::take;

/// Memory and what keeps it.
pub struct Buffer {
    pub at: *const c_void,
    pub owner: Box<dyn Any>,
}

/// A column would pass the 2 GiB that ends of 32 bits can tell.
#[derive(Debug)]
pub struct TooLarge;

/// A column of texts that is being written.
pub struct Texts {
    valid: Vec<u8>,
    ends: Vec<i32>,
    bytes: Vec<u8>,
}

impl Default for Texts {
    fn default() -> Texts {
        Texts { valid: vec![], ends: vec![0], bytes: vec![] }
    }
}

impl Texts {
    /// Makes room for so many texts of so many bytes altogether.
    pub fn with_capacity(texts: usize, bytes: usize) -> Texts {
        let mut ends = Vec::with_capacity(texts + 1);
        ends.push(0);
        Texts { valid: Vec::with_capacity(texts), ends, bytes: Vec::with_capacity(bytes) }
    }

    pub fn push(&mut self, value: Option<&[u8]>) -> Result<(), TooLarge> {
        let bytes = value.unwrap_or_default();
        let end = i32::try_from(self.bytes.len() + bytes.len()).map_err(|_| TooLarge)?;
        self.valid.push(u8::from(value.is_some()));
        self.bytes.extend_from_slice(bytes);
        self.ends.push(end);
        Ok(())
    }

    /// Adds the text that a function appends; after a failure nothing of it is left.
    pub fn write(&mut self, append: impl FnOnce(&mut Vec<u8>) -> Fast<()>) -> Fast<()> {
        let start = self.bytes.len();
        let end = append(&mut self.bytes).and_then(|()| i32::try_from(self.bytes.len()).map_err(|_| NeedsExact));
        match end {
            Ok(end) => {
                self.valid.push(1);
                self.ends.push(end);
                Ok(())
            }
            Err(NeedsExact) => {
                self.bytes.truncate(start);
                Err(NeedsExact)
            }
        }
    }

    pub fn push_null(&mut self) {
        self.valid.push(0);
        self.ends.push(*self.ends.last().unwrap_or(&0));
    }

    pub fn truncate(&mut self, rows: usize) {
        self.valid.truncate(rows);
        self.ends.truncate(rows + 1);
        self.bytes.truncate(self.ends[rows] as usize);
    }

    /// Where each text ends, after a 0.
    pub fn ends(&self) -> &[i32] {
        &self.ends
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn array(self) -> Array {
        array(&self.valid, vec![own(self.ends), own(self.bytes)], vec![])
    }
}

/// An array, its buffers in Arrow's order.
pub struct Array {
    pub length: usize,
    pub nulls: usize,
    pub buffers: Vec<Option<Buffer>>,
    pub children: Vec<Array>,
}

fn own<T: 'static>(values: Vec<T>) -> Option<Buffer> {
    Some(Buffer { at: values.as_ptr().cast(), owner: Box::new(values) })
}

/// A bit for each byte that is 0 or 1.
fn bits(bytes: &[u8]) -> Vec<u64> {
    let mut words = Vec::with_capacity(bytes.len() / 64 + 1);
    for block in bytes.chunks(64) {
        let mut word = 0u64;
        for (number, eight) in block.chunks(8).enumerate() {
            let mut padded = [0; 8];
            padded[..eight.len()].copy_from_slice(eight);
            // gathers the lowest bits of the bytes in the highest byte
            let gathered = u64::from_le_bytes(padded).wrapping_mul(0x0102_0408_1020_4080) >> 56;
            word |= gathered << (8 * number);
        }
        words.push(word);
    }
    words
}

fn array(valid: &[u8], mut buffers: Vec<Option<Buffer>>, children: Vec<Array>) -> Array {
    let nulls = valid.len() - valid.iter().map(|byte| usize::from(*byte)).sum::<usize>();
    buffers.insert(0, if nulls > 0 { own(bits(valid)) } else { None });
    Array { length: valid.len(), nulls, buffers, children }
}

fn whole(length: usize, buffers: Vec<Option<Buffer>>, children: Vec<Array>) -> Array {
    let buffers = std::iter::once(None).chain(buffers).collect();
    Array { length, nulls: 0, buffers, children }
}

/// The columns of a table as one struct.
pub fn columns(columns: &mut [Column], rows: usize) -> Array {
    table(rows, columns.iter_mut().map(column).collect())
}

/// Arrays of so many rows as one struct.
pub fn table(rows: usize, columns: Vec<Array>) -> Array {
    whole(rows, vec![], columns)
}

pub fn longs(values: Vec<i64>) -> Array {
    whole(values.len(), vec![own(values)], vec![])
}

/// Numbers, of which a byte that is 0 in `valid` means null.
pub fn nullable<T: 'static>(valid: &[u8], values: Vec<T>) -> Array {
    array(valid, vec![own(values)], vec![])
}

pub fn ints(values: Vec<i32>) -> Array {
    whole(values.len(), vec![own(values)], vec![])
}

pub fn texts<T: AsRef<[u8]>>(values: &[T]) -> Array {
    let (mut ends, mut bytes) = (vec![0i64], Vec::new());
    for value in values {
        bytes.extend_from_slice(value.as_ref());
        ends.push(bytes.len() as i64);
    }
    whole(values.len(), vec![own(ends), own(bytes)], vec![])
}

pub fn lists(values: Vec<Vec<String>>) -> Array {
    let mut ends = vec![0i64];
    for value in &values {
        ends.push(ends[ends.len() - 1] + value.len() as i64);
    }
    whole(values.len(), vec![own(ends)], vec![texts(&values.concat())])
}

/// Takes the values out of a column.
fn column(column: &mut Column) -> Array {
    let valid = take(&mut column.valid);
    let (buffers, children) = match &mut column.store {
        Store::Bits(values) => (vec![own(bits(&take(values)))], vec![]),
        Store::Ints(values) => (vec![own(take(values))], vec![]),
        Store::Longs(values) => (vec![own(take(values))], vec![]),
        Store::Floats(values) => (vec![own(take(values))], vec![]),
        Store::Doubles(values) => (vec![own(take(values))], vec![]),
        Store::Decimals(values) => (vec![own(take(values))], vec![]),
        Store::Fixed(_, values) => (vec![own(take(values))], vec![]),
        Store::Bytes(ends, values) => (vec![own(take(ends)), own(take(values))], vec![]),
        Store::Struct(level) => (vec![], level.columns.iter_mut().map(self::column).collect()),
        Store::List(ends, element) => (vec![own(take(ends))], vec![self::column(element)]),
        Store::Map(ends, pair) => {
            let entries = pair.0.valid.len();
            let pairs = vec![self::column(&mut pair.0), self::column(&mut pair.1)];
            (vec![own(take(ends))], vec![whole(entries, vec![], pairs)])
        }
        Store::Nothing => {
            return Array { length: valid.len(), nulls: valid.len(), buffers: vec![], children: vec![] };
        }
    };
    array(&valid, buffers, children)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_ends_before_its_ends_would_overflow() {
        let mut texts = Texts { bytes: vec![0; i32::MAX as usize - 1], ..Texts::default() };
        texts.push(Some(b"1")).unwrap();
        texts.push(None).unwrap();
        texts.push(Some(b"2")).unwrap_err();
        assert_eq!((texts.valid, texts.ends), (vec![1, 0], vec![0, i32::MAX, i32::MAX]));
    }

    #[test]
    fn a_text_that_fails_leaves_nothing_behind() {
        let mut texts = Texts::default();
        texts.push(Some(b"a")).unwrap();
        texts
            .write(|bytes| {
                bytes.extend(b"bc");
                Err(NeedsExact)
            })
            .unwrap_err();
        texts
            .write(|bytes| {
                bytes.extend(b"d");
                Ok(())
            })
            .unwrap();
        assert_eq!((&texts.bytes[..], &texts.ends[..]), (&b"ad"[..], &[0, 1, 2][..]));
        texts.truncate(1);
        assert_eq!((texts.valid, texts.ends, texts.bytes), (vec![1], vec![0, 1], b"a".to_vec()));
    }
}
