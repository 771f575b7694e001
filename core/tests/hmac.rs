//! HMAC-SHA-256 as RFC 4231 has it, for texts side by side and long ones.

use calve_core::convert::Events;
use calve_core::hmac::{texts, Hmac};

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

fn hashed(key: &[u8], text: &[u8], is_hex: bool) -> String {
    let digests = Hmac::new(key).digests(&Texts(vec![text.to_vec(); 11]));
    let all = texts(&digests, is_hex).unwrap();
    let ends = all.ends();
    let one = |row: usize| &all.bytes()[ends[row] as usize..ends[row + 1] as usize];
    assert!((1..11).all(|row| one(row) == one(0)));
    String::from_utf8(one(0).to_vec()).unwrap()
}

#[test]
fn the_vectors_of_rfc_4231_come_out() {
    let cases: [(&[u8], &[u8], &str); 4] = [
        (&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        (
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        ),
        (
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        ),
        (
            &[0xaa; 131],
            b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to be \
              hashed before being used by the HMAC algorithm.",
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
        ),
    ];
    for (key, text, expected) in cases {
        assert_eq!(hashed(key, text, true), expected);
    }
    assert_eq!(hashed(b"Jefe", b"what do ya want for nothing?", false), "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM=");
}

#[test]
fn what_is_no_text_has_none() {
    let digests = Hmac::new(b"k").digests(&Texts(vec![vec![0xff], vec![b'a'], vec![0xff; 100]]));
    assert_eq!(digests.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, false]);
}
