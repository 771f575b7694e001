//! The functions for what MySQL and MariaDB send.

use super::{give, guarded, ArrowArray, Input};
use crate::convert::Events;
use crate::export;
use crate::mysql::column::Declared;
use crate::mysql::results;
use crate::mysql::rows::{self, Rows};
use crate::spec::Spec;
use std::{slice, str};

const LEFT: i32 = 1;

/// Decodes messages of one table; gives 1 if the exact reader must.
///
/// # Safety
/// `spec` has `length` bytes, and tells of `columns` columns; `messages` is an array of binary to release here; `out` has room
/// for three arrays.
#[no_mangle]
pub unsafe extern "C" fn calve_mysql_rows(
    spec: *const u8,
    length: usize,
    messages: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let messages = Input::take(messages, is_wide);
        let columns = declared(spec, length);
        let found = rows::rows(&messages, &columns);
        let code = if found.is_ok() { 0 } else { LEFT };
        let Rows { columns, messages, kinds } = found.unwrap_or_else(|_| Rows::new(&columns));
        let columns = columns.into_iter().map(|column| column.array()).collect();
        give([export::table(kinds.len(), columns), export::ints(messages), export::ints(kinds)], out);
        code
    })
}

/// Joins the packets at the beginning of what was received; gives how many bytes they took.
///
/// # Safety
/// `received` is an array of one binary to release here; `out` has room for two arrays.
#[no_mangle]
pub unsafe extern "C" fn calve_mysql_packets(received: *mut ArrowArray, is_wide: bool, out: *mut ArrowArray) -> i32 {
    guarded(|| {
        let received = Input::take(received, is_wide);
        let (size, joined, lengths) = results::packets(received.value(0).unwrap_or_default());
        give([export::texts(&[joined]), export::ints(lengths)], out);
        size as i32
    })
}

/// Decodes rows of a prepared statement; gives 1 if the exact reader must.
///
/// # Safety
/// `spec` has `length` bytes, and tells of as many columns as `described`, which has `described_length` bytes; `rows` is an array
/// of binary to release here; `out` has room for one array.
#[no_mangle]
pub unsafe extern "C" fn calve_mysql_results(
    spec: *const u8,
    length: usize,
    described: *const u8,
    described_length: usize,
    rows: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let (rows, columns) = (Input::take(rows, is_wide), declared(spec, length));
        let described = slice::from_raw_parts(described, described_length);
        let found = results::rows(&rows, described, &columns);
        let (code, count) = if found.is_ok() { (0, rows.count()) } else { (LEFT, 0) };
        let values = found.unwrap_or_else(|_| Rows::new(&columns).columns);
        give([export::table(count, values.into_iter().map(|column| column.array()).collect())], out);
        code
    })
}

/// Reads what Python says of columns; it only says what is known here.
unsafe fn declared(spec: *const u8, length: usize) -> Vec<Declared> {
    let text = str::from_utf8(slice::from_raw_parts(spec, length)).unwrap_or_default();
    Declared::all(&mut Spec::new(text)).expect("columns that are known here")
}
