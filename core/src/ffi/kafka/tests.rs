use super::*;
use std::panic::AssertUnwindSafe;

const FAILED: c_int = -185;

thread_local! {
    static QUEUE: RefCell<Vec<RawMessage>> = const { RefCell::new(Vec::new()) };
    static LIVING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

unsafe extern "C" fn consume_batch_queue(_: *mut c_void, _: c_int, out: *mut *mut RawMessage, size: usize) -> isize {
    let given: Vec<RawMessage> = QUEUE.with(|queue| queue.borrow_mut().drain(..).collect());
    assert!(given.len() <= size);
    let count = given.len();
    for (number, message) in given.into_iter().enumerate() {
        let message = Box::into_raw(Box::new(message));
        LIVING.with(|living| living.borrow_mut().push(message as usize));
        *out.add(number) = message;
    }
    count as isize
}

unsafe extern "C" fn destroy(message: *mut RawMessage) {
    LIVING.with(|living| {
        let mut living = living.borrow_mut();
        let at = living.iter().position(|one| *one == message as usize).expect("a message is freed once");
        living.remove(at);
    });
    drop(Box::from_raw(message));
}

unsafe extern "C" fn errstr(_: *const RawMessage) -> *const c_char {
    b"it is down\0".as_ptr().cast()
}

unsafe extern "C" fn timestamp(_: *const RawMessage, _: *mut c_int) -> i64 {
    -1
}

unsafe extern "C" fn no_headers(_: *const RawMessage, _: *mut *mut c_void) -> c_int {
    -156
}

unsafe extern "C" fn no_header(
    _: *const c_void,
    _: usize,
    _: *mut *const c_char,
    _: *mut *const u8,
    _: *mut usize,
) -> c_int {
    -156
}

fn given(messages: &[(c_int, i64)]) {
    let functions = Functions {
        consume_batch_queue,
        message_destroy: destroy,
        message_errstr: errstr,
        message_timestamp: timestamp,
        message_headers: no_headers,
        header_get_all: no_header,
    };
    // SAFETY: they are functions of this test.
    unsafe { calve_kafka_functions(&functions) };
    QUEUE.with(|queue| queue.borrow_mut().extend(messages.iter().map(|&(err, offset)| message(err, offset))));
}

fn message(err: c_int, offset: i64) -> RawMessage {
    RawMessage {
        err,
        topic: if offset < 0 { null_mut() } else { 8 as *mut c_void },
        partition: 0,
        payload: b"{}".as_ptr(),
        len: 2,
        key: std::ptr::null(),
        key_len: 0,
        offset,
        private: null_mut(),
    }
}

fn living() -> usize {
    LIVING.with(|living| living.borrow().len())
}

#[test]
fn messages_become_records_up_to_the_end_and_each_is_freed_once() {
    given(&[(0, 5), (0, 7), (0, 9), (PARTITION_EOF, 12)]);
    let mut taken = Taken { rows: 0, size_bytes: 0, kept: 0, reached: 3 };
    // SAFETY: all pointers are valid; the records are freed once.
    unsafe {
        let records = calve_kafka_records(u32::MAX);
        assert_eq!(calve_kafka_take(records, null_mut(), 0, 10, 9, &mut taken), 0);
        assert_eq!((*records).take().map(|column| column.length), [2; 7]);
        calve_kafka_free(records);
    }
    assert_eq!((taken.rows, taken.size_bytes, taken.kept, taken.reached, living()), (3, 6, 2, 12, 0));
}

#[test]
fn an_error_is_told_once_with_what_it_is_about_and_freed() {
    given(&[(FAILED, 4), (0, 5), (FAILED, -1)]);
    let mut taken = Taken { rows: 0, size_bytes: 0, kept: 0, reached: 3 };
    let mut found = Complaint { code: 0, is_of_partition: 0, reason: [0; 512] };
    // SAFETY: all pointers are valid; the records are freed once.
    unsafe {
        let records = calve_kafka_records(0);
        assert_eq!(calve_kafka_take(records, null_mut(), 0, 10, 9, &mut taken), 0);
        for is_of_partition in [1, 0] {
            assert!(calve_kafka_complaint(&mut found));
            assert_eq!((found.code, found.is_of_partition), (FAILED, is_of_partition));
            assert_eq!(CStr::from_ptr(found.reason.as_ptr()).to_bytes(), b"it is down");
        }
        assert!(!calve_kafka_complaint(&mut found));
        calve_kafka_free(records);
    }
    assert_eq!((taken.kept, living()), (1, 0));
}

#[test]
fn a_panic_between_messages_frees_each_of_them_once() {
    given(&[(0, 1), (0, 2), (0, 3)]);
    // SAFETY: the queue is this test's.
    let panicking = || unsafe { consume(null_mut(), 0, 10) }.into_iter().for_each(|one| assert!(one.offset() < 2));
    assert!(catch_unwind(AssertUnwindSafe(panicking)).is_err());
    assert_eq!(living(), 0);
}
