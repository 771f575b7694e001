//! The functions for envelopes of change streams.

use super::{give, guarded, made, ArrowArray, Input};
use crate::envelope::Envelopes;
use crate::spec::Spec;
use std::{slice, str};

const UNKNOWN: i32 = -2;

/// # Safety
/// `spec` has `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn calve_envelopes_new(spec: *const u8, length: usize) -> *mut Envelopes {
    made(spec, length, |mut spec| spec.format().map(Envelopes::new))
}

/// # Safety
/// `envelopes` is one of `calve_envelopes_new`, and not used again.
#[no_mangle]
pub unsafe extern "C" fn calve_envelopes_free(envelopes: *mut Envelopes) {
    drop(Box::from_raw(envelopes));
}

/// Remembers what a schema says of rows; gives its number, less than 0 if it was not understood.
///
/// # Safety
/// `envelopes` is one of `calve_envelopes_new`; `schema` and `logical_type` have so many bytes.
#[no_mangle]
pub unsafe extern "C" fn calve_envelopes_learn(
    envelopes: *mut Envelopes,
    schema: *const u8,
    schema_length: usize,
    logical_type: *const u8,
    meaning_length: usize,
) -> i32 {
    guarded(|| {
        let text = str::from_utf8(slice::from_raw_parts(logical_type, meaning_length)).unwrap_or("");
        let schema = slice::from_raw_parts(schema, schema_length);
        Spec::new(text).logical_type().map_or(UNKNOWN, |logical_type| (*envelopes).learn(schema, logical_type) as i32)
    })
}

/// # Safety
/// `events` is an array of binary or string to release here; `out` has room for seven arrays.
#[no_mangle]
pub unsafe extern "C" fn calve_envelopes_decode(
    envelopes: *mut Envelopes,
    events: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let found = (*envelopes).decode(&Input::take(events, is_wide));
        let columns = [found.rows, found.texts, found.operations, found.schemas, found.metadata];
        give(columns, out);
        give([found.silent, found.unknown], out.add(5));
        0
    })
}
