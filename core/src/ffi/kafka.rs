//! The interface to librdkafka, the one that `confluent_kafka` has loaded: Python looks its functions up.
//!
//! Python creates the consumer, assigns partitions to it and closes it. What is here takes messages out of its queue; that
//! serves its callbacks, too, of which there is one: `error_cb`.

use super::{give, guarded, ArrowArray};
use crate::export::TooLarge;
use crate::kafka::{Header, Message, Records};
use std::cell::RefCell;
use std::ffi::{c_void, CStr};
use std::os::raw::{c_char, c_int};
use std::panic::catch_unwind;
use std::ptr::null_mut;
use std::slice::from_raw_parts;
use std::sync::atomic::{AtomicPtr, Ordering};

const PARTITION_EOF: c_int = -191;
const TOO_LARGE: c_int = -2;

/// `rd_kafka_message_t`.
#[repr(C)]
pub struct RawMessage {
    err: c_int,
    topic: *mut c_void,
    partition: i32,
    payload: *const u8,
    len: usize,
    key: *const u8,
    key_len: usize,
    offset: i64,
    private: *mut c_void,
}

/// The functions of librdkafka, in the order of `FUNCTIONS` in `calve/sources/kafka/librdkafka.py`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Functions {
    consume_batch_queue: unsafe extern "C" fn(*mut c_void, c_int, *mut *mut RawMessage, usize) -> isize,
    message_destroy: unsafe extern "C" fn(*mut RawMessage),
    message_errstr: unsafe extern "C" fn(*const RawMessage) -> *const c_char,
    message_timestamp: unsafe extern "C" fn(*const RawMessage, *mut c_int) -> i64,
    message_headers: unsafe extern "C" fn(*const RawMessage, *mut *mut c_void) -> c_int,
    header_get_all: unsafe extern "C" fn(*const c_void, usize, *mut *const c_char, *mut *const u8, *mut usize) -> c_int,
}

static FUNCTIONS: AtomicPtr<Functions> = AtomicPtr::new(null_mut());

thread_local! {
    static COMPLAINTS: RefCell<Vec<Complaint>> = const { RefCell::new(Vec::new()) };
}

/// Takes over the functions of librdkafka; once, before anything else here is called.
///
/// # Safety
/// `functions` are those of the one librdkafka in this process, which stays loaded.
#[no_mangle]
pub unsafe extern "C" fn calve_kafka_functions(functions: *const Functions) {
    FUNCTIONS.store(Box::into_raw(Box::new(*functions)), Ordering::Release);
}

/// What librdkafka tells besides messages.
#[repr(C)]
pub struct Complaint {
    code: c_int,
    /// 1: a partition cannot be read.
    is_of_partition: c_int,
    reason: [c_char; 512],
}

/// The `error_cb` of a consumer.
///
/// # Safety
/// librdkafka calls it.
#[no_mangle]
pub unsafe extern "C" fn calve_kafka_error(_: *mut c_void, code: c_int, reason: *const c_char, _: *mut c_void) {
    // A panic cannot cross librdkafka; what is lost by it is a text.
    let _ = catch_unwind(|| complain(code, reason, false));
}

/// Notes what librdkafka tells; `calve_kafka_complaint` gives it to Python.
unsafe fn complain(code: c_int, reason: *const c_char, is_of_partition: bool) {
    let mut found = Complaint { code, is_of_partition: is_of_partition.into(), reason: [0; 512] };
    let room = found.reason.len() - 1;
    let text = if reason.is_null() { &[] } else { CStr::from_ptr(reason).to_bytes() };
    for (at, byte) in found.reason[..room].iter_mut().zip(text) {
        *at = *byte as c_char;
    }
    COMPLAINTS.with(|all| all.borrow_mut().push(found));
}

/// Moves the first complaint of the last `calve_kafka_take` of this thread to `found`; gives whether there was one.
///
/// # Safety
/// `found` is valid.
#[no_mangle]
pub unsafe extern "C" fn calve_kafka_complaint(found: *mut Complaint) -> bool {
    COMPLAINTS.with(|all| {
        let mut all = all.borrow_mut();
        if all.is_empty() {
            return false;
        }
        *found = all.remove(0);
        true
    })
}

/// What one call of `calve_kafka_take` got.
#[repr(C)]
pub struct Taken {
    /// Messages, those behind the end of the range included, and the bytes of their values.
    rows: i64,
    size_bytes: i64,
    /// Messages that became records.
    kept: i64,
    /// The next offset, if something tells it: messages, or the end of the partition.
    reached: i64,
}

/// Takes up to `rows` messages out of a queue; those before the offset `end` become records.
///
/// # Safety
/// The pointers are valid; the queue is that of a consumer with `calve_kafka_error`; no other thread uses `records`.
#[no_mangle]
pub unsafe extern "C" fn calve_kafka_take(
    records: *mut Records,
    queue: *mut c_void,
    timeout_ms: c_int,
    rows: usize,
    end: i64,
    taken: *mut Taken,
) -> c_int {
    guarded(|| {
        let (records, taken) = (&mut *records, &mut *taken);
        COMPLAINTS.with(|all| all.borrow_mut().clear());
        let mut messages = consume(queue, timeout_ms, rows).into_iter();
        match messages.try_for_each(|message| taken.add(&message, records, end)) {
            Ok(()) => 0,
            Err(TooLarge) => TOO_LARGE,
        }
    })
}

/// Gives records to be filled; `calve_kafka_free` ends them. The bits of `wanted` ask for metadata.
#[no_mangle]
pub extern "C" fn calve_kafka_records(wanted: u32) -> *mut Records {
    catch_unwind(|| Box::into_raw(Box::new(Records::new(wanted)))).unwrap_or(null_mut())
}

/// Frees records.
///
/// # Safety
/// They come from `calve_kafka_records` and are not used any more.
#[no_mangle]
pub unsafe extern "C" fn calve_kafka_free(records: *mut Records) {
    drop(Box::from_raw(records));
}

/// Moves the records to `out`: events, offsets, keys, times, types of times, headers, key and headers in
/// Base64; empty where not asked for.
///
/// # Safety
/// No other thread uses `records`; `out` has room for seven arrays.
#[no_mangle]
pub unsafe extern "C" fn calve_kafka_batch(records: *mut Records, out: *mut ArrowArray) -> c_int {
    guarded(|| {
        give((*records).take(), out);
        0
    })
}

impl Taken {
    fn add(&mut self, message: &Owned, records: &mut Records, end: i64) -> Result<(), TooLarge> {
        match message.raw().err {
            0 => return self.keep(message, records, end),
            PARTITION_EOF => self.reached = self.reached.max(message.offset()),
            _ => message.complain(),
        }
        Ok(())
    }

    fn keep(&mut self, message: &Owned, records: &mut Records, end: i64) -> Result<(), TooLarge> {
        self.rows += 1;
        self.size_bytes += message.value().map_or(0, |value| value.len() as i64);
        self.reached = self.reached.max(message.offset() + 1);
        if message.offset() < end {
            self.kept += 1;
            records.push(message)?;
        }
        Ok(())
    }
}

fn functions() -> &'static Functions {
    // SAFETY: it is null, or what `calve_kafka_functions` leaked.
    unsafe { FUNCTIONS.load(Ordering::Acquire).as_ref() }.expect("calve_kafka_functions was called")
}

unsafe fn consume(queue: *mut c_void, timeout_ms: c_int, rows: usize) -> Vec<Owned> {
    let functions = functions();
    let mut found: Vec<*mut RawMessage> = vec![null_mut(); rows];
    let count = (functions.consume_batch_queue)(queue, timeout_ms, found.as_mut_ptr(), rows);
    found.truncate(usize::try_from(count).unwrap_or(0));
    found.into_iter().map(|message| Owned(message, functions)).collect()
}

/// A message that is freed when it goes.
struct Owned(*mut RawMessage, &'static Functions);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: `consume` made it of a message that librdkafka handed over, and nobody else frees it.
        unsafe { (self.1.message_destroy)(self.0) }
    }
}

impl Owned {
    fn raw(&self) -> &RawMessage {
        // SAFETY: the message lives until `drop`.
        unsafe { &*self.0 }
    }

    fn complain(&self) {
        let raw = self.raw();
        // SAFETY: the text belongs to the message. One without a topic is about the group, which nothing here needs.
        unsafe { complain(raw.err, (self.1.message_errstr)(self.0), !raw.topic.is_null()) }
    }
}

impl Message for Owned {
    fn value(&self) -> Option<&[u8]> {
        // SAFETY: librdkafka's own, and valid as long as the message.
        unsafe { slice(self.raw().payload, self.raw().len) }
    }

    fn key(&self) -> Option<&[u8]> {
        // SAFETY: as above.
        unsafe { slice(self.raw().key, self.raw().key_len) }
    }

    fn offset(&self) -> i64 {
        self.raw().offset
    }

    fn timestamp(&self) -> (i64, i32) {
        let mut kind = 0;
        // SAFETY: both pointers are valid.
        let at = unsafe { (self.1.message_timestamp)(self.0, &mut kind) };
        (at, kind)
    }

    fn headers(&self) -> Vec<Header<'_>> {
        let mut found = Vec::new();
        let mut headers = null_mut();
        // SAFETY: all pointers are valid; the headers belong to the message, and live as long.
        unsafe {
            if (self.1.message_headers)(self.0, &mut headers) != 0 {
                return found;
            }
            let (mut name, mut value, mut len) = (std::ptr::null(), std::ptr::null(), 0);
            while (self.1.header_get_all)(headers, found.len(), &mut name, &mut value, &mut len) == 0 {
                found.push(Header { name: CStr::from_ptr(name).to_bytes(), value: slice(value, len) });
            }
        }
        found
    }
}

unsafe fn slice<'a>(at: *const u8, len: usize) -> Option<&'a [u8]> {
    (!at.is_null()).then(|| from_raw_parts(at, len))
}

#[cfg(test)]
mod tests;
