//! The functions of the key index. A failure is a number below 0, with a sentence for `calve_keys_error`.

use super::mapped::Mapped;
use super::PANICKED;
use crate::keys::bits::{chain, permute_value, sip128, Bits};
use crate::keys::entry::Entry;
use crate::keys::merge::merge;
use crate::keys::run::Run;
use crate::keys::writer::write;
use crate::keys::{find, Hit};
use std::cell::RefCell;
use std::io::{ErrorKind, Result};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::slice::{from_raw_parts, from_raw_parts_mut};
use std::str;

const DAMAGED: i64 = -2;
const REFUSED: i64 = -3;

thread_local!(static ERROR: RefCell<String> = const { RefCell::new(String::new()) });

/// Gives a number, or keeps the error of this thread.
fn kept(work: impl FnOnce() -> Result<i64>) -> i64 {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(number)) => number,
        Ok(Err(error)) => {
            ERROR.with(|kept| *kept.borrow_mut() = error.to_string());
            if error.kind() == ErrorKind::InvalidData {
                DAMAGED
            } else {
                REFUSED
            }
        }
        Err(_) => PANICKED.into(),
    }
}

unsafe fn text<'a>(at: *const u8, length: usize) -> Result<&'a str> {
    str::from_utf8(from_raw_parts(at, length)).map_err(|error| std::io::Error::new(ErrorKind::InvalidInput, error))
}

/// A slice whose pointer may be of an empty array.
unsafe fn items<'a, T>(at: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        &[]
    } else {
        from_raw_parts(at, count)
    }
}

/// Copies the sentence of this thread's last error; gives its length.
///
/// # Safety
/// `to` has room for `most` bytes.
#[no_mangle]
pub unsafe extern "C" fn calve_keys_error(to: *mut u8, most: usize) -> usize {
    ERROR.with(|error| {
        let error = error.borrow();
        let length = error.len().min(most);
        std::ptr::copy_nonoverlapping(error.as_ptr(), to, length);
        length
    })
}

/// Permutes values of `width` bytes, at most 16.
///
/// # Safety
/// `values` has `count` values, `to` has room for as many bits.
#[no_mangle]
pub unsafe extern "C" fn calve_keys_permute(
    values: *const u8,
    width: usize,
    count: usize,
    secret: *const Bits,
    to: *mut Bits,
) -> i64 {
    kept(|| {
        for (value, bits) in items(values, width * count).chunks_exact(width).zip(from_raw_parts_mut(to, count)) {
            *bits = permute_value(value, &*secret);
        }
        Ok(0)
    })
}

/// Hashes values; those of a column after the first one together with the bits that `to` has.
///
/// # Safety
/// `ends` has `count` + 1 numbers, which are positions in `data`; `to` has `count` bits.
#[no_mangle]
pub unsafe extern "C" fn calve_keys_hash(
    ends: *const i64,
    data: *const u8,
    count: usize,
    secret: *const Bits,
    is_first: bool,
    to: *mut Bits,
) -> i64 {
    kept(|| {
        for (ends, bits) in from_raw_parts(ends, count + 1).windows(2).zip(from_raw_parts_mut(to, count)) {
            let value = items(data.wrapping_add(ends[0] as usize), (ends[1] - ends[0]) as usize);
            *bits = if is_first { sip128(&*secret, value) } else { chain(bits, value, &*secret) };
        }
        Ok(0)
    })
}

/// Sorts entries and writes a run; gives how many there are.
///
/// # Safety
/// `path` has `length` bytes; the arrays have `count` items each.
#[no_mangle]
pub unsafe extern "C" fn calve_keys_write(
    path: *const u8,
    length: usize,
    keys: *const Bits,
    files: *const u32,
    positions: *const u32,
    count: usize,
) -> i64 {
    kept(|| {
        let rows = items(files, count).iter().zip(items(positions, count));
        let entries = items(keys, count).iter().zip(rows);
        let entries = entries.map(|(key, (file, position))| Entry { key: *key, file: *file, position: *position });
        write(text(path, length)?, entries.collect()).map(|count| count as i64)
    })
}

/// Opens a run; gives null after an error.
///
/// # Safety
/// `path` has `length` bytes; `code` has room for the number of an error.
#[no_mangle]
pub unsafe extern "C" fn calve_keys_open(path: *const u8, length: usize, code: *mut i64) -> *mut Run<Mapped> {
    let mut run = null_mut();
    *code = kept(|| {
        run = Box::into_raw(Box::new(Run::open(Mapped::open(text(path, length)?)?)?));
        Ok(0)
    });
    run
}

/// Frees a run.
///
/// # Safety
/// It comes from `calve_keys_open` and is not used any more.
#[no_mangle]
pub unsafe extern "C" fn calve_keys_free(run: *mut Run<Mapped>) {
    drop(Box::from_raw(run));
}

/// Finds keys; gives how many hits there are, of which it writes at most `room`.
///
/// # Safety
/// `runs` has `many` open runs, the newest first; `keys` has `count` keys, `dead` has `words` numbers, `to` has room for
/// `room` hits.
#[no_mangle]
pub unsafe extern "C" fn calve_keys_find(
    runs: *const &Run<Mapped>,
    many: usize,
    keys: *const Bits,
    count: usize,
    dead: *const u64,
    words: usize,
    to: *mut Hit,
    room: usize,
) -> i64 {
    kept(|| {
        let hits = find(items(runs, many), items(keys, count), items(dead, words))?;
        std::ptr::copy_nonoverlapping(hits.as_ptr(), to, hits.len().min(room));
        Ok(hits.len() as i64)
    })
}

/// Merges runs; gives the number of entries of the new one.
///
/// # Safety
/// As `calve_keys_find`; `path` has `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn calve_keys_merge(
    runs: *const &Run<Mapped>,
    many: usize,
    dead: *const u64,
    words: usize,
    is_last: bool,
    path: *const u8,
    length: usize,
) -> i64 {
    kept(|| merge(items(runs, many), text(path, length)?, items(dead, words), is_last).map(|count| count as i64))
}
