//! The border to Python, and the only unsafe code: the C functions, and Arrow's C data interface.
#![allow(unsafe_code)]

/// The version of these functions' signatures; Python refuses a library with another one.
#[no_mangle]
pub extern "C" fn calve_core_version() -> u32 {
    1
}

/// The digest of the sources that this library was built of (`compiled/build.py`), which looks for it in the file.
#[no_mangle]
pub extern "C" fn calve_core_sources() -> *const u8 {
    option_env!("CALVE_CORE_SOURCES").unwrap_or("").as_ptr()
}
