//! Any bytes as events with masks: never a panic, and what it writes is JSON in which no key is repeated.

use calve_core::check::is_plain;
use calve_core::convert::Events;
use calve_core::masks::MaskedFields;
use calve_core::spec::Spec;

const SEEDS: [&str; 6] = [
    r#"{"a":1,"b":"x","c":null}"#,
    r#"{"a" : "\u00e9\n" , "b":[1, {"a":2}],"d":true}"#,
    r#"{"b":{"c":1},"c":-1.5e3,"é":"x"}"#,
    r#"{"a":1,"a":2}"#,
    r#"{"d":"\ud800"}"#,
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
        for _ in 0..self.below(3) {
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

#[test]
fn any_bytes_leave_a_text_or_nothing_for_each_event() {
    let mut random = Random(88_172_645_463_325_252);
    let spec = ["4", "drop", "put", "{\"x\":1}", "change", "1", "change", ""].join("\0");
    let mut fields = MaskedFields::new(&mut Spec::new(&spec)).expect("masks");
    let mut written = 0;
    for _ in 0..2000 {
        let events = Texts((0..50).map(|_| random.event()).collect());
        let (keys, _) = fields.read(&events);
        let numbers: Vec<i32> = keys.iter().map(|_| [-3, -2, 0, 1, 2, 3][random.below(6)]).collect();
        fields.learn(&Texts(keys), &numbers);
        let (_, values) = fields.read(&events);
        let values = values.iter().flat_map(|texts| vec![b"7".to_vec(); texts.ends().len() - 1]).collect();
        let texts = fields.write(&Texts(values));
        assert_eq!(texts.ends().len(), 51);
        for pair in texts.ends().windows(2) {
            let text = &texts.bytes()[pair[0] as usize..pair[1] as usize];
            assert!(text.is_empty() || is_plain(text), "{}", String::from_utf8_lossy(text));
            written += usize::from(!text.is_empty());
        }
    }
    assert!(written > 10_000, "{written}");
}
