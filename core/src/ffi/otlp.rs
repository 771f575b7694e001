//! The functions for requests of OpenTelemetry's protocol.

use super::{give, guarded, ArrowArray, Input};
use crate::convert::Events;
use crate::export::{self, Array};
use crate::otlp::json;
use crate::otlp::{Decoder, Part, Signal};

const MALFORMED: i32 = 1;
const SIGNALS: [Signal; 3] = [Signal::Traces, Signal::Logs, Signal::Metrics];

/// Reads a part of a request; gives 1 if the request is not valid, and then no rows.
///
/// The second array has the number of rows, of records that were met, of those that no row can hold, and 1 if there are more.
///
/// # Safety
/// `request` is an array of one binary to release here; `out` has room for two arrays.
#[no_mangle]
pub unsafe extern "C" fn calve_otlp_decode(
    signal: usize,
    start: usize,
    rows: usize,
    bytes: usize,
    request: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let request = Input::take(request, is_wide);
        let new = || Decoder::new(SIGNALS[signal], Part { start, rows, bytes });
        let mut decoder = new();
        let is_valid = decoder.read(request.value(0).unwrap_or_default()).is_ok();
        if !is_valid {
            decoder = new();
        }
        let columns = export::columns(decoder.columns.as_deref_mut().unwrap_or_default(), decoder.rows);
        give([columns, numbers(&decoder)], out);
        i32::from(!is_valid) * MALFORMED
    })
}

/// Checks a request as `calve_otlp_decode` reads it; gives the same numbers, of no more than so many rows and bytes.
///
/// # Safety
/// `request` is an array of one binary to release here; `out` has room for an array.
#[no_mangle]
pub unsafe extern "C" fn calve_otlp_check(
    signal: usize,
    rows: usize,
    bytes: usize,
    request: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let request = Input::take(request, is_wide);
        let mut decoder = Decoder::checking(SIGNALS[signal], Part { start: 0, rows, bytes });
        let is_valid = decoder.read(request.value(0).unwrap_or_default()).is_ok();
        give([numbers(&decoder)], out);
        i32::from(!is_valid) * MALFORMED
    })
}

fn numbers(decoder: &Decoder) -> Array {
    let numbers = [decoder.rows, decoder.records, decoder.refused, usize::from(decoder.is_cut)];
    export::longs(numbers.iter().map(|number| *number as i64).collect())
}

/// Translates a request from JSON to Protobuf; gives 1 if it is not such a request, and the reason instead.
///
/// # Safety
/// `request` is an array of one binary to release here; `out` has room for an array.
#[no_mangle]
pub unsafe extern "C" fn calve_otlp_encode(
    signal: usize,
    request: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let request = Input::take(request, is_wide);
        let (code, text) = match json::encode(SIGNALS[signal], request.value(0).unwrap_or_default()) {
            Ok(message) => (0, message),
            Err(reason) => (MALFORMED, reason.into_bytes()),
        };
        give([export::texts(&[text])], out);
        code
    })
}
