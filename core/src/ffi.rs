//! The functions that Python calls, and the only unsafe code: the C interface, and that of Arrow's data.
//!
//! Each function returns 0 or more on success, less than 0 on failure; panics are caught here.
#![allow(unsafe_code)]

mod avro;
mod bodies;
mod envelope;
mod hmac;
mod kafka;
mod keys;
mod mapped;
mod masks;
mod mysql;
mod otlp;
mod postgres;
mod program;
mod protobuf;

use crate::convert::{Converter, Events};
use crate::export::{self, Array, Buffer};
use crate::observe::Observer;
use crate::scan_fields;
use crate::spec::Spec;
use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::{ptr, slice, str};

/// The version of these functions' signatures; Python refuses a library with another one.
const VERSION: i32 = 23;
const PANICKED: i32 = -1;
/// Of the processor's cache; and how many of an event are fetched.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;
#[cfg(target_arch = "x86_64")]
const FETCHED_LINES: usize = 8;

/// https://arrow.apache.org/docs/format/CDataInterface.html
#[repr(C)]
pub struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

/// What an exported array keeps until it is released.
struct ExportOwner {
    _owners: Vec<Buffer>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

unsafe extern "C" fn release(array: *mut ArrowArray) {
    let held = Box::from_raw((*array).private_data.cast::<ExportOwner>());
    for &child in &held.children {
        if let Some(release) = (*child).release {
            release(child);
        }
        drop(Box::from_raw(child));
    }
    (*array).release = None;
}

fn exported(array: Array) -> ArrowArray {
    let (length, null_count) = (array.length as i64, array.nulls as i64);
    let children = array.children.into_iter().map(|one| Box::into_raw(Box::new(exported(one)))).collect();
    let buffers = array.buffers.iter().map(|one| one.as_ref().map_or(ptr::null(), |buffer| buffer.at)).collect();
    let mut held = Box::new(ExportOwner { _owners: array.buffers.into_iter().flatten().collect(), buffers, children });
    ArrowArray {
        length,
        null_count,
        offset: 0,
        n_buffers: held.buffers.len() as i64,
        n_children: held.children.len() as i64,
        buffers: held.buffers.as_mut_ptr(),
        children: held.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release),
        private_data: Box::into_raw(held).cast(),
    }
}

/// Writes arrays where Python has room for them.
unsafe fn give(arrays: impl IntoIterator<Item = Array>, out: *mut ArrowArray) {
    for (number, array) in arrays.into_iter().enumerate() {
        ptr::write(out.add(number), exported(array));
    }
}

/// Ends of texts in the memory of an array of binary or string, 32 or 64 bits wide.
#[derive(Clone, Copy)]
enum Ends<'a> {
    Narrow(&'a [i32]),
    Wide(&'a [i64]),
}

/// Events as Python exported them, released at the end.
struct Input<'a> {
    array: *mut ArrowArray,
    length: usize,
    offset: usize,
    valid: Option<&'a [u8]>,
    ends: Ends<'a>,
    data: &'a [u8],
    /// Whether all texts together are UTF-8; then each is, that begins and ends with ASCII.
    is_utf8: bool,
}

impl Input<'_> {
    /// # Safety
    /// The array is one of binary or string with offsets of this width, and stays where it is until this is dropped.
    unsafe fn take(array: *mut ArrowArray, is_wide: bool) -> Self {
        let given = &*array;
        let (length, offset) = (given.length as usize, given.offset as usize);
        let buffers = slice::from_raw_parts(given.buffers, 3);
        let ends = if length == 0 {
            Ends::Narrow(&[0])
        } else if is_wide {
            Ends::Wide(slice::from_raw_parts(buffers[1].cast::<i64>().add(offset), length + 1))
        } else {
            Ends::Narrow(slice::from_raw_parts(buffers[1].cast::<i32>().add(offset), length + 1))
        };
        let mut input = Input { array, length, offset, valid: None, ends, data: &[], is_utf8: false };
        let (first, last) = (input.end(0), input.end(length));
        if !buffers[0].is_null() {
            input.valid = Some(slice::from_raw_parts(buffers[0].cast(), (offset + length + 7) / 8));
        }
        if !buffers[2].is_null() {
            input.data = slice::from_raw_parts(buffers[2].cast(), last);
        }
        input.is_utf8 = input.data.get(first..).is_some_and(|data| str::from_utf8(data).is_ok());
        input
    }

    #[inline(always)]
    fn end(&self, at: usize) -> usize {
        match self.ends {
            Ends::Narrow(ends) => ends[at] as usize,
            Ends::Wide(ends) => ends[at] as usize,
        }
    }
}

impl Events for Input<'_> {
    fn count(&self) -> usize {
        self.length
    }

    #[inline(always)]
    fn value(&self, at: usize) -> Option<&[u8]> {
        let bit = self.offset + at;
        if self.valid.is_some_and(|valid| valid[bit / 8] >> (bit % 8) & 1 == 0) {
            return None;
        }
        self.data.get(self.end(at)..self.end(at + 1))
    }

    #[inline(always)]
    fn text(&self, at: usize) -> Option<&[u8]> {
        let text = self.value(at)?;
        (self.is_utf8 || str::from_utf8(text).is_ok()).then_some(text)
    }

    fn bytes(&self) -> usize {
        self.end(self.length) - self.end(0)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn fetch(&self, at: usize) {
        use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
        let event = self.data.get(self.end(at)..self.end(at + 1)).unwrap_or_default();
        for line in event.chunks(LINE_BYTES).take(FETCHED_LINES) {
            // SAFETY: it reads nothing, and the address is one of the data.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
        }
    }
}

impl Drop for Input<'_> {
    fn drop(&mut self) {
        // SAFETY: the array was given to this library to release, once.
        unsafe {
            if let Some(release) = (*self.array).release {
                release(self.array);
            }
        }
    }
}

fn guarded(work: impl FnOnce() -> i32) -> i32 {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(PANICKED)
}

/// Makes something of a specification; null when it says what is not known here.
unsafe fn made<T>(spec: *const u8, length: usize, make: impl FnOnce(Spec) -> Option<T>) -> *mut T {
    let make = AssertUnwindSafe(|| {
        let text = str::from_utf8(slice::from_raw_parts(spec, length)).ok()?;
        make(Spec::new(text)).map(Box::new)
    });
    catch_unwind(make).ok().flatten().map_or(ptr::null_mut(), Box::into_raw)
}

#[no_mangle]
pub extern "C" fn calve_core_version() -> i32 {
    std::panic::set_hook(Box::new(|_| {})); // Python tells
    VERSION
}

/// Whether a failure is to be seen at once: the library for the tests.
#[no_mangle]
pub extern "C" fn calve_core_is_checked() -> bool {
    cfg!(debug_assertions)
}

/// The digest of the sources that this library was built of; `compiled/build.py` gives it, and looks for it in the file.
#[no_mangle]
pub extern "C" fn calve_core_sources() -> *const u8 {
    option_env!("CALVE_CORE_SOURCES").unwrap_or("").as_ptr()
}

/// # Safety
/// `spec` has `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn calve_converter_new(spec: *const u8, length: usize) -> *mut Converter {
    made(spec, length, |mut spec| spec.object_columns().map(Converter::new))
}

/// # Safety
/// `converter` is one of `calve_converter_new`, and not used again.
#[no_mangle]
pub unsafe extern "C" fn calve_converter_free(converter: *mut Converter) {
    drop(Box::from_raw(converter));
}

/// # Safety
/// `order` is null or has `count` numbers; `events` is an array of binary or string to release here; `out` has room for
/// nine arrays.
#[no_mangle]
pub unsafe extern "C" fn calve_convert(
    converter: *mut Converter,
    order: *const i64,
    count: usize,
    events: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let events = Input::take(events, is_wide);
        let order = (!order.is_null()).then(|| slice::from_raw_parts(order, count));
        let found = (*converter).convert(&events, order);
        let [positions, columns, texts] = found.deferred;
        give(
            [
                found.columns,
                found.rows,
                found.unknown_rows,
                found.sets,
                found.fields,
                positions,
                columns,
                texts,
                found.new,
            ],
            out,
        );
        0
    })
}

/// # Safety
/// `spec` has `length` bytes.
#[no_mangle]
pub unsafe extern "C" fn calve_observer_new(spec: *const u8, length: usize) -> *mut Observer {
    made(spec, length, |mut spec| spec.object_columns().map(Observer::new))
}

/// # Safety
/// `observer` is one of `calve_observer_new`, and not used again.
#[no_mangle]
pub unsafe extern "C" fn calve_observer_free(observer: *mut Observer) {
    drop(Box::from_raw(observer));
}

/// Gives 1 if what was seen is not all there is to know.
///
/// # Safety
/// `events` is an array of binary or string to release here; `out` has room for two arrays.
#[no_mangle]
pub unsafe extern "C" fn calve_observe(
    observer: *mut Observer,
    events: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let found = (*observer).observe(&Input::take(events, is_wide));
        give([found.fields, found.left], out);
        i32::from(found.lost)
    })
}

/// Gives for each event the number of a text that holds only some of its fields, and these texts; -1: it is not an object
/// that every reader takes for the same. `is_whole`: as in `scan_fields::scan_fields`.
///
/// # Safety
/// `names` has `length` bytes, names that end in NUL; `events` is an array of binary or string to release here; `out` has
/// room for two arrays.
#[no_mangle]
pub unsafe extern "C" fn calve_pick(
    names: *const u8,
    length: usize,
    is_whole: bool,
    events: *mut ArrowArray,
    is_wide: bool,
    out: *mut ArrowArray,
) -> i32 {
    guarded(|| {
        let events = Input::take(events, is_wide);
        let names = str::from_utf8(slice::from_raw_parts(names, length)).unwrap_or("");
        let picked = scan_fields::scan_fields(&events, &names.split_terminator('\0').collect::<Vec<_>>(), is_whole);
        give([export::ints(picked.numbers), export::texts(&picked.texts)], out);
        0
    })
}
