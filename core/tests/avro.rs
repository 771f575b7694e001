//! Any bytes as values of Avro schemas: never a panic, and columns that are whole.

use calve_core::avro::Decoder;
use calve_core::convert::Events;
use calve_core::export::Array;
use calve_core::spec::Spec;

/// The columns and the steps of records, as `calve.serde.avro.core_spec` writes them.
const SPECS: [&str; 6] = [
    "0 0 0 0 2 a 0 0 0 0 long b 1 0 0 0 string record 2 0 long 0 1 union 2 null string",
    "0 0 0 0 2 a 0 0 0 0 list 0 0 0 int b 1 0 0 0 map 0 0 0 string 0 0 0 double record 2 0 array int 0 1 map double",
    "0 0 0 0 1 a 0 0 0 0 list 0 0 0 unknown record 1 0 array null",
    "0 0 0 0 2 a 0 0 0 0 decimal 9 2 b 1 0 0 0 fixed 3 record 3 0 decimal 9 1 fixed 3 -1 map union 2 boolean enum 2 A B",
    "0 0 0 0 1 a 0 0 0 0 struct 2 x 0 0 0 0 uuid y 1 0 0 0 float record 1 0 union 3 branch 0 uuid null branch 1 float",
    "0 0 0 0 2 a 0 0 0 0 int b 1 0 0 0 string record 3 0 int 86400000 -1 bytes 1 default 0261 string",
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

fn check(array: &Array, rows: usize) {
    assert_eq!(array.length, rows);
    assert!(array.nulls <= rows);
}

#[test]
fn any_bytes_make_whole_columns() {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for spec in SPECS {
        let text = spec.replace(' ', "\0");
        let mut decoder = Decoder::new(&mut Spec::new(&text)).expect(spec);
        let mut taken = 0;
        for _ in 0..60 {
            let value = |random: &mut dyn FnMut() -> u64| {
                let length = random() % 24;
                (0..length).map(|_| if random() % 3 == 0 { random() as u8 } else { random() as u8 % 8 }).collect()
            };
            let values = Values((0..50).map(|_| value(&mut random)).collect());
            let found = decoder.decode(&values, (random() % 2) as usize);
            taken += found.rows.length;
            let block = Values(vec![values.0.concat()]);
            let found_in_block = decoder.decode_block(&block, 60);
            check(&found_in_block.columns, found_in_block.rows.length);
            check(&found.columns, found.rows.length);
            found.columns.children.iter().for_each(|child| check(child, found.rows.length));
        }
        assert!(taken > 0, "{spec}");
    }
}
