//! The function that hashes texts with a key.

use super::{give, guarded, ArrowArray, Input};
use crate::hmac::{texts, Digest, Hmac};
use std::slice;

const TOO_LARGE: i32 = -2;

/// Gives the HMAC of each text as hexadecimal digits or in Base64; null where there is no text, or none of UTF-8.
///
/// # Safety
/// `key` has `length` bytes; `events` is an array of binary or string to release here; `out` has room for an array.
#[no_mangle]
pub unsafe extern "C" fn calve_hmac(
    key: *const u8,
    length: usize,
    is_hex: bool,
    events: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let events = Input::take(events, is_wide);
        let hmac = Hmac::new(slice::from_raw_parts(key, length));
        let Ok(texts) = texts(&digests(&hmac, &events), is_hex) else { return TOO_LARGE };
        give([texts.array()], out);
        0
    })
}

#[cfg(target_arch = "x86_64")]
fn digests(hmac: &Hmac, events: &Input) -> Vec<Option<Digest>> {
    /// The same code, with the wide vectors of most processors.
    #[target_feature(enable = "avx2")]
    unsafe fn wide(hmac: &Hmac, events: &Input) -> Vec<Option<Digest>> {
        hmac.digests(events)
    }

    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { wide(hmac, events) };
    }
    hmac.digests(events)
}

#[cfg(not(target_arch = "x86_64"))]
fn digests(hmac: &Hmac, events: &Input) -> Vec<Option<Digest>> {
    hmac.digests(events)
}
