//! A file that is mapped into memory, by the C library that Rust's own needs anyway.

use crate::keys::run::Memory;
use std::ffi::c_void;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::AsRawFd;
use std::os::raw::c_int;
use std::{ptr, slice};

/// The same numbers on Linux and macOS.
const READ: c_int = 1;
const SHARED: c_int = 1;
const RANDOM: c_int = 1;
const SEQUENTIAL: c_int = 2;

extern "C" {
    fn mmap(at: *mut c_void, length: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void;
    fn munmap(at: *mut c_void, length: usize) -> c_int;
    fn madvise(at: *mut c_void, length: usize, advice: c_int) -> c_int;
}

/// A whole file. Nobody changes it while it is mapped: runs are never written again, only removed.
pub struct Mapped {
    at: *mut c_void,
    length: usize,
}

impl Mapped {
    pub fn open(path: &str) -> Result<Mapped> {
        let file = File::open(path)?;
        let length = file.metadata()?.len() as usize;
        if length == 0 {
            return Ok(Mapped { at: ptr::null_mut(), length });
        }
        // SAFETY: the file is open, and has so many bytes.
        let at = unsafe { mmap(ptr::null_mut(), length, READ, SHARED, file.as_raw_fd(), 0) };
        if at as isize == -1 {
            return Err(Error::last_os_error());
        }
        Ok(Mapped { at, length })
    }
}

impl Memory for Mapped {
    fn bytes(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: mapped until `drop`.
        unsafe { slice::from_raw_parts(self.at.cast(), self.length) }
    }

    fn advise(&self, is_sequential: bool) {
        let advice = if is_sequential { SEQUENTIAL } else { RANDOM };
        // SAFETY: advice changes no content.
        unsafe { madvise(self.at, self.length, advice) };
    }

    fn fetch(&self, at: usize) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: it reads nothing.
        unsafe {
            use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
            _mm_prefetch::<_MM_HINT_T0>(self.at.cast::<i8>().wrapping_add(at));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: mapped once, by `open`, and not used any more.
            unsafe { munmap(self.at, self.length) };
        }
    }
}
