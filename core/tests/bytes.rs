//! Any bytes: never a panic, and columns that are whole. Run with debug assertions, as `cargo test` does.

use calve_core::check::is_plain;
use calve_core::convert::{Converter, Events};
use calve_core::envelope::Envelopes;
use calve_core::export::Array;
use calve_core::observe::Observer;
use calve_core::spec::Spec;

const KINDS: [&[&str]; 19] = [
    &["boolean"],
    &["int"],
    &["long"],
    &["float"],
    &["double"],
    &["decimal", "9", "2"],
    &["decimal", "38", "10"],
    &["date"],
    &["time"],
    &["timestamp", "6", "3", "1", "0"],
    &["timestamp", "9", "auto", "0", "1"],
    &["string"],
    &["binary"],
    &["fixed", "3"],
    &["uuid"],
    &["unknown"],
    &["list", "0", "0", "0", "long"],
    &["map", "1", "0", "0", "string", "0", "0", "0", "double"],
    &["struct", "2", "a", "a", "0", "0", "0", "long", "é", "é", "1", "0", "0", "string"],
];

const SEEDS: [&str; 12] = [
    r#"{"c0":true,"c1":1,"c2":-9223372036854775808,"c3":1.5e3,"c4":0.1}"#,
    r#"{"c5":"12.50","c6":1234567890123456789.0123456789,"c7":"2024-02-29","c8":"23:59:59.123456"}"#,
    r#"{"c9":"2026-03-01T10:00:00.123456+05:30","c10":1772359200000000000,"c7":-719162}"#,
    r#"{"c11":"é\n\ud83d\ude00","c12":"YWJj","c13":"YWJj","c14":"00000000-0000-0000-0000-0000000000ff"}"#,
    r#"{"c11":{"a" : [1, null, {"b":"\u0000"}]},"c16":[1,"2",3.0,null],"c17":{"k":1,"l":null}}"#,
    r#"{"c18":{"a":1,"é":"x","new":[{}]},"c15":null}"#,
    r#"{"c2":1,"c2":2}"#,
    r#" {"c2" : 1e18 , "x":{"y":[[[[]]]]} } "#,
    r#"{"c2":1,"c11":"\ud800"}"#,
    r#"{"c2":1,"u":[1,1.5,"2026-03-01T10:00:00Z",{"a":{}},9007199254740993,123456789012345678901234567890]}"#,
    r#"{"c9":"9999-12-31T23:59:59.999999Z","c10":"1677-09-21T00:12:43.145224192Z"}"#,
    "{}",
];

const ENVELOPES: [&str; 8] = [
    r#"{"before":{"id":1,"d":0},"after":{"id":1,"d":20454,"t":1.5},"source":{"table":"t"},"op":"u","ts_ms":5}"#,
    r#"{"schema":{"a":1},"payload":{"before":null,"after":{"d":-719163,"t":-1,"f":{"scale":2,"value":"AQ=="}},"op":"c"}}"#,
    r#"{"schema":{"a":1},"payload":{"after":{"m":"/w==","u":"12:30:00+00:00","s":{"d":1},"a":[1,null],"x":{"k":2}},"op":"r"}}"#,
    r#"{"payload":{"before":{"id":"__debezium_unavailable_value","a":[ "__debezium_unavailable_value" ]},"op":"d"},"schema":null}"#,
    r#"{"after":{"id":{"__debezium_unavailable_value":"__debezium_unavailable_value"},"n":"\ud83d\ude00"},"op":"c","ts_ms":-0}"#,
    r#"{"schema":{"b":[]},"payload":null}"#,
    r#" {"op" : "m" , "op":"c", "after" : {"id" : 1, "\u0069d":2} } "#,
    r#"{"op":"c","source":{"table":{"a":[1,"b"]}},"after":{"id":1.50,"c":"\ud800"}}"#,
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

    fn event(&mut self, seeds: &[&str]) -> Vec<u8> {
        let mut event = seeds[self.below(seeds.len())].as_bytes().to_vec();
        for _ in 0..self.below(4) {
            let at = self.below(event.len().max(1)).min(event.len());
            let end = (at + self.below(9)).min(event.len());
            match self.below(4) {
                0 if at < event.len() => event[at] = self.below(256) as u8,
                1 => drop(event.drain(at..end)),
                2 => {
                    let other = seeds[self.below(seeds.len())].as_bytes();
                    event.splice(at..at, other[..self.below(other.len())].to_vec());
                }
                _ => {
                    let one = b"\"\\{}[],:0123456789eE.+-ntf \x00\xc3\xa9"[self.below(29)];
                    event.insert(at, one);
                }
            }
        }
        event
    }
}

fn spec(required: bool, ignores_case: bool) -> String {
    let mut texts = vec!["0", "0", if ignores_case { "1" } else { "0" }, if required { "1" } else { "0" }]
        .into_iter()
        .map(String::from)
        .collect::<Vec<_>>();
    texts.push(KINDS.len().to_string());
    for (number, kind) in KINDS.iter().enumerate() {
        texts.extend([format!("c{number}"), format!("c{number}")]);
        let flags = [required && number == 2, false, !required && number < 16];
        texts.extend(flags.map(|flag| u8::from(flag).to_string()));
        texts.extend(kind.iter().map(|text| text.to_string()));
    }
    texts.join("\0")
}

fn lengths(array: &Array) -> Vec<usize> {
    array.children.iter().map(|child| child.length).collect()
}

#[test]
fn any_bytes_leave_columns_of_one_length() {
    let mut random = Random(88_172_645_463_325_252);
    for round in 0..300 {
        let text = spec(round % 2 == 0, round % 3 == 0);
        let mut converter = Converter::new(Spec::new(&text).object_columns().expect("a table"));
        let mut observer = Observer::new(Spec::new(&text).object_columns().expect("a table"));
        for _ in 0..3 {
            let events = Texts((0..100).map(|_| random.event(&SEEDS)).collect());
            let found = converter.convert(&events, None);
            assert!(lengths(&found.columns).iter().all(|length| *length == found.rows.length));
            assert_eq!(found.unknown_rows.length, found.sets.length);
            assert!(found.deferred.iter().all(|one| one.length == found.deferred[0].length));
            observer.observe(&events);
        }
    }
}

fn envelopes() -> Envelopes {
    let format = "1 1 2 __debezium_unavailable_value X19k 2 b68a35a7 Xw== 95 1 AQEA /before /after /op 5 c 0 r 0 u 1 d 2 m silent 3 /op 0 /source/table 0 /ts_ms 1 1 id";
    let logical_type =
        "struct 0 8 d date t timestamp 9 h time 3 m decimal 2 f free-decimal u utc s struct 1 1 d date a array map date";
    let spec = |text: &str| text.replace(' ', "\0");
    let mut envelopes = Envelopes::new(Spec::new(&spec(format)).format().expect("a format"));
    assert_eq!(envelopes.learn(br#"{"a":1}"#, Spec::new(&spec(logical_type)).logical_type().expect("a schema")), 0);
    envelopes
}

fn decoded(envelopes: &mut Envelopes, events: Vec<Vec<u8>>) -> [usize; 3] {
    let count = events.len();
    let found = envelopes.decode(&Texts(events));
    let rows = found.rows.length;
    assert_eq!([found.texts.length, found.operations.length, found.schemas.length], [rows; 3]);
    assert_eq!(lengths(&found.metadata), [rows; 3]);
    assert!(rows + found.silent.length <= count);
    [rows, found.silent.length, found.unknown.length]
}

#[test]
fn any_bytes_leave_envelopes_of_one_length() {
    let mut random = Random(88_172_645_463_325_252);
    let mut envelopes = envelopes();
    assert_eq!(decoded(&mut envelopes, ENVELOPES.map(|text| text.as_bytes().to_vec()).to_vec()), [5, 0, 1]);
    for _ in 0..1000 {
        decoded(&mut envelopes, (0..100).map(|_| random.event(&ENVELOPES)).collect());
    }
}

#[test]
fn only_json_objects_whose_keys_are_not_repeated_are_plain() {
    for plain in [r#"{}"#, r#" {"a":[{"b":1},{"b":2}],"\u0062":"\ud83d\ude00"} "#] {
        assert!(is_plain(plain.as_bytes()), "{plain}");
    }
    let deep = format!("{{\"a\":{}{}}}", "[".repeat(250), "]".repeat(250));
    for other in
        ["", "[]", "{", r#"{"a":1,"a":2}"#, r#"{"a":{"b":1,"\u0062":2}}"#, r#"{"a":"\ud800"}"#, r#"{"a":01}"#, &deep]
    {
        assert!(!is_plain(other.as_bytes()), "{other}");
    }
}

#[test]
fn a_specification_of_something_else_is_refused() {
    for text in ["", "0", "0,0,0,0,1", "0,0,0,0,1,a,a,0,0,0,geometry", "x,0,0"].map(|text| text.replace(',', "\0")) {
        assert!(Spec::new(&text).object_columns().is_none(), "{text:?}");
        assert!(Spec::new(&text).format().is_none(), "{text:?}");
        assert!(Spec::new(&text).logical_type().is_none(), "{text:?}");
    }
}
