//! The 128 bits that stand for a key, and checksums.
//!
//! A key of one column of at most 16 bytes (a number, a date, a time, a decimal, a UUID) is permuted: two keys never have
//! the same bits. Any other key is hashed by SipHash-2-4-128 with the secret of the index: among a billion keys two have
//! the same bits with a probability of 1e-21, and nobody without the secret can choose such keys.

use super::entry::long;

/// The first half decides the order.
pub type Bits = [u64; 2];

fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    word = (word ^ (word >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}

/// Permutes 128 bits by a Feistel network of four rounds: one to one, whatever the function of a round is.
pub fn permute(low: u64, high: u64, secret: &Bits) -> Bits {
    let (mut left, mut right) = (high, low);
    for round in 0..4u64 {
        let salt = secret[(round & 1) as usize].wrapping_add(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (left, right) = (right, left ^ mix(right ^ salt));
    }
    [left, right]
}

/// Permutes a value of at most 16 bytes, little-endian; equal values must have equal widths.
pub fn permute_value(value: &[u8], secret: &Bits) -> Bits {
    let mut word = [0u8; 16];
    word[..value.len()].copy_from_slice(value);
    permute(long(&word, 0), long(&word, 8), secret)
}

/// Adds the value of a further column to the bits of the columns before it.
pub fn chain(before: &Bits, value: &[u8], secret: &Bits) -> Bits {
    let mut joined = Vec::with_capacity(16 + value.len());
    joined.extend_from_slice(&before[0].to_le_bytes());
    joined.extend_from_slice(&before[1].to_le_bytes());
    joined.extend_from_slice(value);
    sip128(secret, &joined)
}

fn rounds(state: &mut [u64; 4], count: usize) {
    for _ in 0..count {
        state[0] = state[0].wrapping_add(state[1]);
        state[2] = state[2].wrapping_add(state[3]);
        state[1] = state[1].rotate_left(13) ^ state[0];
        state[3] = state[3].rotate_left(16) ^ state[2];
        state[0] = state[0].rotate_left(32);
        state[2] = state[2].wrapping_add(state[1]);
        state[0] = state[0].wrapping_add(state[3]);
        state[1] = state[1].rotate_left(17) ^ state[2];
        state[3] = state[3].rotate_left(21) ^ state[0];
        state[2] = state[2].rotate_left(32);
    }
}

/// SipHash-2-4 with 128 bits of output (https://github.com/veorq/SipHash).
pub fn sip128(secret: &Bits, text: &[u8]) -> Bits {
    let mut state = [
        secret[0] ^ 0x736f_6d65_7073_6575,
        secret[1] ^ 0x646f_7261_6e64_6f6d ^ 0xee,
        secret[0] ^ 0x6c79_6765_6e65_7261,
        secret[1] ^ 0x7465_6462_7974_6573,
    ];
    let mut add = |word: u64| {
        state[3] ^= word;
        rounds(&mut state, 2);
        state[0] ^= word;
    };
    let mut words = text.chunks_exact(8);
    for word in &mut words {
        add(long(word, 0));
    }
    let mut last = [0u8; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    last[7] = text.len() as u8; // modulo 256, as specified
    add(u64::from_le_bytes(last));
    state[2] ^= 0xee;
    rounds(&mut state, 4);
    let first = state[0] ^ state[1] ^ state[2] ^ state[3];
    state[1] ^= 0xdd;
    rounds(&mut state, 4);
    [first, state[0] ^ state[1] ^ state[2] ^ state[3]]
}

const FACTOR: u64 = 0x9fb2_1c65_1e98_df25;
const LANES_BYTES: usize = 32;

/// A checksum that finds damage, not forgery: four lanes of multiplications and rotations.
pub fn checksum(bytes: &[u8]) -> u64 {
    let mut lanes = [FACTOR, FACTOR.rotate_left(16), FACTOR.rotate_left(32), FACTOR.rotate_left(48)];
    let mut add = |chunk: &[u8]| {
        for (number, lane) in lanes.iter_mut().enumerate() {
            *lane = (lane.rotate_left(27) ^ long(chunk, number * 8)).wrapping_mul(FACTOR);
        }
    };
    let mut chunks = bytes.chunks_exact(LANES_BYTES);
    for chunk in &mut chunks {
        add(chunk);
    }
    let mut rest = [0u8; LANES_BYTES];
    rest[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    add(&rest);
    mix(lanes[0] ^ mix(lanes[1] ^ mix(lanes[2] ^ mix(lanes[3] ^ bytes.len() as u64))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: Bits = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

    /// Undoes `permute`.
    fn restore(bits: &Bits, secret: &Bits) -> (u64, u64) {
        let (mut left, mut right) = (bits[0], bits[1]);
        for round in (0..4u64).rev() {
            let salt = secret[(round & 1) as usize].wrapping_add(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            (left, right) = (right ^ mix(left ^ salt), left);
        }
        (right, left)
    }

    #[test]
    fn a_permutation_is_one_to_one() {
        for (low, high) in [(0, 0), (1, 0), (0, 1), (u64::MAX, u64::MAX), (5, u64::MAX), (1 << 63, 1)] {
            assert_eq!(restore(&permute(low, high, &SECRET), &SECRET), (low, high));
        }
        assert_eq!(permute_value(&7u64.to_le_bytes(), &SECRET), permute(7, 0, &SECRET));
        assert_ne!(permute(7, 0, &SECRET), permute(7, 0, &[1, 2]));
    }

    #[test]
    fn sip_hash_has_the_vectors_of_its_authors() {
        let text: Vec<u8> = (0..64).collect();
        let vector = |length: usize| {
            let [first, second] = sip128(&SECRET, &text[..length]);
            [first.to_le_bytes(), second.to_le_bytes()]
                .concat()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        };
        assert_eq!(vector(0), "a3817f04ba25a8e66df67214c7550293");
        assert_eq!(vector(1), "da87c1d86b99af44347659119b22fc45");
        assert_eq!(vector(7), "a1f1ebbed8dbc153c0b84aa61ff08239");
        assert_eq!(vector(8), "3b62a9ba6258f5610f83e264f31497b4");
    }

    #[test]
    fn the_border_between_two_columns_counts() {
        let key = |first: &[u8], second: &[u8]| chain(&sip128(&SECRET, first), second, &SECRET);
        assert_ne!(key(b"ab", b"c"), key(b"a", b"bc"));
        assert_ne!(key(b"", b"a"), key(b"a", b""));
        assert_eq!(key(b"ab", b"c"), key(b"ab", b"c"));
    }

    #[test]
    fn a_checksum_changes_with_each_bit_and_with_the_length() {
        let text: Vec<u8> = (0..77).collect();
        for bit in 0..77 * 8 {
            let mut other = text.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(checksum(&text), checksum(&other), "bit {bit}");
        }
        assert_ne!(checksum(&[0; 5]), checksum(&[0; 6]));
    }
}
