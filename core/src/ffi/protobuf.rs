//! The functions for messages of Protobuf.

use super::{give, guarded, made, ArrowArray, Input};
use crate::protobuf::{plan, Decoder};

/// # Safety
/// `spec` has `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn calve_protobuf_new(spec: *const u8, length: usize) -> *mut Decoder {
    made(spec, length, |mut spec| plan::message(&mut spec).map(|(message, columns)| Decoder::new(message, columns)))
}

/// # Safety
/// `decoder` is one of `calve_protobuf_new`, and not used again.
#[no_mangle]
pub unsafe extern "C" fn calve_protobuf_free(decoder: *mut Decoder) {
    drop(Box::from_raw(decoder));
}

/// Decodes messages, each of which begins at the byte `start` of its value.
///
/// # Safety
/// `decoder` is one of `calve_protobuf_new`; `values` is an array of binary to release here; `out` has room for two arrays.
#[no_mangle]
pub unsafe extern "C" fn calve_protobuf_decode(
    decoder: *mut Decoder,
    start: usize,
    values: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let found = (*decoder).decode(&Input::take(values, is_wide), start);
        give([found.columns, found.rows], out);
        0
    })
}
