//! The functions for what PostgreSQL sends.

use super::{give, guarded, ArrowArray, Input};
use crate::convert::Events;
use crate::copy::{self, Copied};
use crate::export::{self, Texts};
use crate::pgoutput::{self, Rows};
use std::slice;

const LEFT: i32 = 1;

/// Reads the rows of COPY at the beginning of what was received; gives how many bytes they took, 0 if the exact reader must.
///
/// # Safety
/// `received` is an array of one binary to release here; `out` has room for one array.
#[no_mangle]
pub unsafe extern "C" fn calve_postgres_copied(
    count: usize,
    received: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let received = Input::take(received, is_wide);
        let found = copy::copied(received.value(0).unwrap_or_default(), count).unwrap_or_else(|| Copied::new(count));
        give([export::table(found.rows, found.columns.into_iter().map(Texts::array).collect())], out);
        found.size as i32
    })
}

/// Takes the messages of replication at the beginning of what was received; gives how many bytes they took.
///
/// # Safety
/// `received` is an array of one binary to release here; `out` has room for three arrays.
#[no_mangle]
pub unsafe extern "C" fn calve_postgres_messages(
    received: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let received = Input::take(received, is_wide);
        let found = pgoutput::messages(received.value(0).unwrap_or_default());
        give([export::texts(&found.pieces), export::ints(found.counts), export::ints(found.lengths)], out);
        found.size as i32
    })
}

/// Decodes changes of one table; gives 1 if the exact reader must.
///
/// # Safety
/// `keys` has a byte for each of `count` columns; `changes` is an array of binary to release here; `out` has room for three
/// arrays.
#[no_mangle]
pub unsafe extern "C" fn calve_postgres_rows(
    keys: *const u8,
    count: usize,
    changes: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let found = pgoutput::rows(&Input::take(changes, is_wide), slice::from_raw_parts(keys, count));
        let code = if found.is_some() { 0 } else { LEFT };
        let Rows { columns, changes, kinds } = found.unwrap_or_else(|| Rows::new(count));
        let columns = columns.into_iter().map(|column| column.array()).collect();
        give([export::table(changes.len(), columns), export::ints(changes), export::ints(kinds)], out);
        code
    })
}
