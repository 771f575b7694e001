//! Any bytes: never a panic, and columns that are whole. Run with debug assertions, as `cargo test` does.

use calve_core::convert::Events;
use calve_core::export::Array;
use calve_core::protobuf::{plan, Decoder};
use calve_core::spec::Spec;

/// number, oneof, what a missing field has, kind …
const FIELDS: [&str; 16] = [
    "1 -1 number 0 int64",
    "2 -1 null string",
    "3 0 null sint32",
    "4 0 null bytes",
    "5 0 null struct 2 1 -1 number 7 uint64 2 -1 null list 0 -1 null string",
    "6 -1 null list 0 -1 null double",
    "7 -1 null list 0 -1 null struct 1 1 -1 text 7a string",
    "8 -1 null map 1 -1 text  string 2 -1 number 0 sfixed32",
    "9 -1 null map 1 -1 number 0 bool 2 -1 empty struct 1 1 -1 null float",
    "10 -1 null timestamp",
    "11 -1 null timestamp-text",
    "12 -1 null duration",
    "13 -1 null json-value",
    "14 -1 null json-struct",
    "15 -1 null wrapper 1 -1 number 0 bool",
    "1000 -1 text 41 enum 1 2 0 A -3 B",
];

struct Values(Vec<Vec<u8>>);

impl Events for Values {
    fn count(&self) -> usize {
        self.0.len()
    }
    fn value(&self, at: usize) -> Option<&[u8]> {
        Some(&self.0[at])
    }
    fn text(&self, _: usize) -> Option<&[u8]> {
        None
    }
    fn bytes(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

fn decoder() -> Decoder {
    let text = format!("{} {}", FIELDS.len(), FIELDS.join(" ")).replace(' ', "\0");
    let (message, columns) = plan::message(&mut Spec::new(&text)).expect("a message");
    Decoder::new(message, columns)
}

fn is_whole(array: &Array) -> bool {
    array.children.iter().all(|child| child.length == array.length && (child.buffers.len() != 1 || is_whole(child)))
}

/// xorshift64*, so that a failure comes again.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % most
    }

    /// Fields of any kind, with contents that may be fields again.
    fn message(&mut self, depth: usize) -> Vec<u8> {
        let mut found = vec![];
        for _ in 0..self.below(6) {
            let (number, wire) = (1 + self.below(16), [2, 2, 2, 2, 0, 0, 0, 1, 5, 3][self.below(10)]);
            found.push((number << 3 | wire) as u8);
            if number > 15 {
                found.push(1);
            }
            let inner = if depth < 4 { self.message(depth + 1) } else { vec![b'a'; self.below(4)] };
            match wire {
                2 => {
                    found.push(inner.len().min(127) as u8);
                    found.extend(inner);
                }
                1 => found.extend([0; 8]),
                5 => found.extend([1; 4]),
                _ => found.push(self.below(128) as u8),
            }
        }
        found
    }
}

#[test]
fn any_bytes_leave_columns_of_one_length() {
    let (mut random, mut decoder, mut decoded) = (Random(88_172_645_463_325_252), decoder(), 0);
    for _ in 0..300 {
        let values = (0..50).map(|at| {
            let mut value = random.message(0);
            for _ in 0..at % 3 {
                let place = random.below(value.len() + 1);
                value.splice(place..place, [random.below(256) as u8]);
            }
            value
        });
        let found = decoder.decode(&Values(values.collect()), 0);
        assert!(is_whole(&found.columns));
        assert_eq!(found.columns.length, found.rows.length);
        decoded += found.rows.length;
    }
    assert!((500..14_000).contains(&decoded), "{decoded}");
}

#[test]
fn messages_are_left_that_begin_behind_their_end() {
    let found = decoder().decode(&Values(vec![vec![1, 2], vec![0; 3], vec![]]), 3);
    assert_eq!((found.columns.length, found.rows.length), (1, 1));
}

#[test]
fn a_specification_of_something_else_is_refused() {
    for text in ["", "x", "1", "1 1 -1 null", "1 1 -1 null nothing", "1 1 -1 text 4 string", "1 -1 -1 null bool"] {
        assert!(plan::message(&mut Spec::new(&text.replace(' ', "\0"))).is_none(), "{text:?}");
    }
}
