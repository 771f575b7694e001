//! The function for bodies of HTTP requests.

use super::{give, guarded, ArrowArray, Input};
use crate::bodies::{split, Refusal};
use crate::convert::Events;
use crate::export::{self, Texts};

/// Splits a body into at most `most` events; gives 0, or the kind of the refusal, whose numbers are in the second array.
///
/// # Safety
/// `body` is an array of one binary to release here; `out` has room for two arrays.
#[no_mangle]
pub unsafe extern "C" fn calve_split(most: usize, body: *mut ArrowArray, is_wide: bool, out: *mut ArrowArray) -> i32 {
    guarded(|| {
        let body = Input::take(body, is_wide);
        let found = split(body.value(0).unwrap_or_default(), most);
        let (code, numbers) = match &found {
            Ok(_) => (0, [0, 0]),
            Err(Refusal::Encoding(at)) => (1, [*at, 0]),
            Err(Refusal::Array(at)) => (2, [*at, 0]),
            Err(Refusal::Line(number, at)) => (3, [*number, *at]),
            Err(Refusal::NoObject(number)) => (4, [*number, 0]),
            Err(Refusal::TooMany) => (5, [0, 0]),
        };
        let events = found.unwrap_or_else(|_| Texts::default());
        give([events.array(), export::longs(numbers.iter().map(|number| *number as i64).collect())], out);
        code
    })
}
