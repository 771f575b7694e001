//! The functions for requests of OpenTelemetry's protocol.

use super::{give, guarded, ArrowArray, Input};
use crate::convert::Events;
use crate::export;
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
    keeps: usize,
    request: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let request = Input::take(request, is_wide);
        let signal = SIGNALS[signal];
        let part = Part { start, rows, bytes, keeps: keeps != 0 };
        let mut decoder = Decoder::new(signal, part);
        let is_valid = decoder.read(request.value(0).unwrap_or_default()).is_ok();
        let numbers = [decoder.rows, decoder.records, decoder.refused, usize::from(decoder.is_cut)];
        if !is_valid {
            decoder = Decoder::new(signal, part);
        }
        let columns = export::columns(&mut decoder.columns, decoder.kept);
        give([columns, export::longs(numbers.iter().map(|number| *number as i64).collect())], out);
        i32::from(!is_valid) * MALFORMED
    })
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
