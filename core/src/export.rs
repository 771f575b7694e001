//! Columns as Arrow arrays that own their memory.

use crate::column::{Column, Store};
use std::any::Any;
use std::ffi::c_void;
use std::mem::take;

/// Memory and what keeps it.
pub struct Buffer {
    pub at: *const c_void,
    pub owner: Box<dyn Any>,
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
    whole(rows, vec![], columns.iter_mut().map(column).collect())
}

pub fn longs(values: Vec<i64>) -> Array {
    whole(values.len(), vec![own(values)], vec![])
}

pub fn nullable_longs(valid: &[u8], values: Vec<i64>) -> Array {
    array(valid, vec![own(values)], vec![])
}

pub fn nullable_texts(valid: &[u8], ends: Vec<i32>, bytes: Vec<u8>) -> Array {
    array(valid, vec![own(ends), own(bytes)], vec![])
}

pub fn ints(values: Vec<i32>) -> Array {
    whole(values.len(), vec![own(values)], vec![])
}

pub fn booleans(values: &[u8]) -> Array {
    whole(values.len(), vec![own(bits(values))], vec![])
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
