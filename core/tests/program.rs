//! Any bytes as events of a program: never a panic, and what it writes is JSON in which no key is repeated.

use calve_core::check::is_plain;
use calve_core::convert::Events;
use calve_core::program::{End, Program, Ran};
use calve_core::spec::Spec;

/// Names; the fields of conditions; steps, as `calve.processors.program` writes them.
const SPECS: [&str; 5] = [
    "2 a b|0|3  put 0 0 {\"x\":1}  rename 0 1 1  delete 1 0",
    "4 a b c d|1 2 0 1|4 0 drop  copy 0 1 1 0 point 2 3 0  select 3 3 0 1",
    "3 a b c|0|4  lower 2 0 1  upper 1 2  trim 2 0 2  truncate 2 0 1 1 2 1",
    "3 a b c|0|5  convert 0 integer  convert 0 long  convert 1 double  convert 2 string  convert 2 boolean",
    "3 a b c|2 1 0 1 2|3 1 format 2 1 3 1 0 0 - 1 1 0 convert 1 double 0 drop",
];

const SEEDS: [&str; 10] = [
    r#"{"a":1,"b":"x","c":null}"#,
    r#"{"a" : "007" , "b" : 12.70, "c":"\u0041\n\ud83d\ude00"}"#,
    r#"{"b":"-1.5","a":[1,{"a":2}],"d":{"a":{}}}"#,
    r#"{"a":"é","b":"0.30000000000000004","c":"  \t x \u0000"}"#,
    r#"{"a":-9223372036854775808,"b":1e-400,"c":true}"#,
    r#"{"a":123456789012345678,"b":1e300,"c":"TRUE","d":0.00001}"#,
    r#"{"\u0061":1,"a":2}"#,
    r#"{"a":1,"a":2,"c":"\ud800"}"#,
    r#"{"x":1,"y":2,"a":3,"z":4,"b":5}"#,
    "{}",
];

struct Texts(Vec<Vec<u8>>);

impl Events for Texts {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn value(&self, at: usize) -> Option<&[u8]> {
        Some(&self.0[at])
    }

    fn text(&self, at: usize) -> Option<&[u8]> {
        std::str::from_utf8(&self.0[at]).ok().map(str::as_bytes)
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
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

    fn event(&mut self) -> Vec<u8> {
        let mut event = SEEDS[self.below(SEEDS.len())].as_bytes().to_vec();
        for _ in 0..self.below(4) {
            let at = self.below(event.len() + 1);
            match self.below(3) {
                0 => drop(event.drain(at..(at + self.below(5)).min(event.len()))),
                1 => event.insert(at, b"\"\\{}[],:0123456789eE.+-ntf \x00\xc3\xa9"[self.below(29)]),
                _ => drop(event.splice(at..at, SEEDS[self.below(SEEDS.len())].bytes())),
            }
        }
        event
    }
}

fn program(text: &str) -> Program {
    Program::new(&mut Spec::new(&text.replace([' ', '|'], "\0"))).expect("a program")
}

fn texts(ran: &Ran) -> Vec<&[u8]> {
    let ends = ran.texts.ends();
    ends.windows(2).map(|pair| &ran.texts.bytes()[pair[0] as usize..pair[1] as usize]).collect()
}

#[test]
fn any_bytes_leave_a_text_for_each_event() {
    let mut random = Random(88_172_645_463_325_252);
    let mut programs = SPECS.map(program);
    let mut changed = 0;
    for round in 0..2000 {
        let program = &mut programs[round % SPECS.len()];
        let events = Texts((0..50).map(|_| random.event()).collect());
        for _ in 0..3 {
            let ran = program.run(&events);
            assert_eq!((ran.ends.len(), texts(&ran).len()), (50, 50));
            for ((end, text), event) in ran.ends.iter().zip(texts(&ran)).zip(&events.0) {
                match *end {
                    end if end == End::Same as i32 => assert_eq!(text, event),
                    end if end == End::Changed as i32 => assert!(is_plain(text), "{}", String::from_utf8_lossy(text)),
                    _ => assert!(text.is_empty()),
                }
                changed += usize::from(*end == End::Changed as i32);
            }
            for (condition, choice) in ran.conditions.iter().zip(ran.asked) {
                assert!(is_plain(&choice));
                let value = [u8::from(random.below(3) > 0)];
                program.learn(*condition as usize, &Texts(vec![choice]), &value);
            }
        }
    }
    assert!(changed > 10_000, "{changed}");
}

#[test]
fn keys_in_another_order_or_number_are_found_again() {
    let mut program = program(SPECS[0]);
    let events =
        [r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, r#"{"c":3}"#, r#"{"a":1,"b":2,"b":3}"#, r#"{"b":2 , "a": 1}"#];
    let ran = program.run(&Texts(events.map(|text| text.as_bytes().to_vec()).to_vec()));
    assert_eq!(ran.ends, [1, 1, 1, 3, 1]);
    assert_eq!(texts(&ran)[..3], [&br#"{"b":1}"#[..], br#"{"b":1}"#, br#"{"c":3,"b":{"x":1}}"#]);
}

#[test]
fn what_is_not_known_is_refused() {
    for text in ["", "1 a|0|1", "1 a|0|1  put 1 0 1", "1 a|0|1 0 drop", "1 a|0|1  shout 1 0", "1 a|1 1 5|0"] {
        assert!(Program::new(&mut Spec::new(&text.replace([' ', '|'], "\0"))).is_none(), "{text:?}");
    }
}
