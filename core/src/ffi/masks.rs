//! The functions that mask fields of events.

use super::{give, guarded, made, ArrowArray, Input};
use crate::export;
use crate::masks::MaskedFields;
use std::slice;

/// # Safety
/// `spec` has `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn calve_masks_new(spec: *const u8, length: usize) -> *mut MaskedFields {
    made(spec, length, |mut spec| MaskedFields::new(&mut spec))
}

/// # Safety
/// `fields` is one of `calve_masks_new`, and not used again.
#[no_mangle]
pub unsafe extern "C" fn calve_masks_free(fields: *mut MaskedFields) {
    drop(Box::from_raw(fields));
}

/// Gives the keys to learn, and the values of each mask.
///
/// # Safety
/// `fields` is one of `calve_masks_new`; `events` is an array of binary or string to release here; `out` has room for an
/// array and one for each mask.
#[no_mangle]
pub unsafe extern "C" fn calve_masks_read(
    fields: *mut MaskedFields,
    events: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let (keys, values) = (*fields).read(&Input::take(events, is_wide));
        give([export::texts(&keys)].into_iter().chain(values.into_iter().map(|texts| texts.array())), out);
        0
    })
}

/// Gives the texts of the events that were read last, with other values: those of each mask after those of the one before.
///
/// # Safety
/// `fields` is one of `calve_masks_new`; `values` is an array of binary or string to release here; `out` has room for an
/// array.
#[no_mangle]
pub unsafe extern "C" fn calve_masks_write(
    fields: *mut MaskedFields,
    values: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        give([(*fields).write(&Input::take(values, is_wide)).array()], out);
        0
    })
}

/// Remembers the masks of keys.
///
/// # Safety
/// `fields` is one of `calve_masks_new`; `keys` is an array of binary or string to release here, and `numbers` has a number
/// for each.
#[no_mangle]
pub unsafe extern "C" fn calve_masks_learn(
    fields: *mut MaskedFields,
    numbers: *const i32,
    keys: *mut ArrowArray,
    is_wide: bool,
    _out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let keys = Input::take(keys, is_wide);
        (*fields).learn(&keys, slice::from_raw_parts(numbers, keys.length));
        0
    })
}
