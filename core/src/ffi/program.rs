//! The functions for the first processors of a pipeline.

use super::{give, guarded, made, ArrowArray, Input};
use crate::export;
use crate::program::Program;
use std::slice;

/// # Safety
/// `spec` has `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn calve_program_new(spec: *const u8, length: usize) -> *mut Program {
    made(spec, length, |mut spec| Program::new(&mut spec))
}

/// # Safety
/// `program` is one of `calve_program_new`, and not used again.
#[no_mangle]
pub unsafe extern "C" fn calve_program_free(program: *mut Program) {
    drop(Box::from_raw(program));
}

/// # Safety
/// `program` is one of `calve_program_new`; `events` is an array of binary or string to release here; `out` has room for
/// four arrays.
#[no_mangle]
pub unsafe extern "C" fn calve_program_run(
    program: *mut Program,
    events: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let ran = (*program).run(&Input::take(events, is_wide));
        let asked = [export::longs(ran.conditions), export::texts(&ran.asked)];
        let [conditions, asked] = asked;
        give([export::ints(ran.ends), ran.texts.array(), conditions, asked], out);
        0
    })
}

/// Remembers values of a condition, a byte for each choice of its fields.
///
/// # Safety
/// `program` is one of `calve_program_new`; `choices` is an array of binary or string to release here, and `values` has a
/// byte for each.
#[no_mangle]
pub unsafe extern "C" fn calve_program_learn(
    program: *mut Program,
    condition: usize,
    values: *const u8,
    choices: *mut ArrowArray,
    is_wide: bool,
    _out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let choices = Input::take(choices, is_wide);
        (*program).learn(condition, &choices, slice::from_raw_parts(values, choices.length));
        0
    })
}
