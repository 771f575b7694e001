//! The functions for values of Avro schemas.

use super::{give, guarded, made, ArrowArray, Input};
use crate::avro::Decoder;

/// # Safety
/// `spec` has `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn calve_avro_new(spec: *const u8, length: usize) -> *mut Decoder {
    made(spec, length, |mut spec| Decoder::new(&mut spec))
}

/// # Safety
/// `decoder` is one of `calve_avro_new`, and not used again.
#[no_mangle]
pub unsafe extern "C" fn calve_avro_free(decoder: *mut Decoder) {
    drop(Box::from_raw(decoder));
}

/// # Safety
/// `decoder` is one of `calve_avro_new`; `values` is an array of binary to release here; `out` has room for two arrays.
#[no_mangle]
pub unsafe extern "C" fn calve_avro_decode(
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

/// # Safety
/// As for `calve_avro_decode`; `values` has one value.
#[no_mangle]
pub unsafe extern "C" fn calve_avro_block(
    decoder: *mut Decoder,
    count: usize,
    values: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let found = (*decoder).decode_block(&Input::take(values, is_wide), count);
        give([found.columns, found.rows], out);
        0
    })
}
