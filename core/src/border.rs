//! The border to Python, and the only unsafe code: the C functions, and Arrow's C data interface.
#![allow(unsafe_code)]

/// The version of these functions' signatures; Python refuses a library with another one.
#[no_mangle]
pub extern "C" fn calve_core_version() -> u32 {
    1
}
