//! HMAC (RFC 2104) with SHA-256 (FIPS 180-4) of many short texts, several of them side by side.
//!
//! A compiler makes vector instructions of the steps over the lanes, so that texts are hashed as fast as by the
//! instructions for SHA-256 that only some processors have.

use crate::convert::Events;
use crate::export::{Texts, TooLarge};

const LANES: usize = 8;
const BLOCK_BYTES: usize = 64;
/// The last block ends in a bit and the length.
const PADDING_BYTES: usize = 9;
const START: [u32; 8] =
    [0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19];
#[rustfmt::skip]
const ROUNDS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];
const HEX: &[u8; 16] = b"0123456789abcdef";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The same word of several texts.
type Word<const N: usize> = [u32; N];
type State<const N: usize> = [Word<N>; 8];
type Block<const N: usize> = [Word<N>; 16];
pub type Digest = [u8; 32];

/// A key, of which the first blocks are hashed already.
pub struct Hmac {
    inner: State<1>,
    outer: State<1>,
}

impl Hmac {
    pub fn new(key: &[u8]) -> Hmac {
        let mut padded = [0; BLOCK_BYTES];
        if key.len() > BLOCK_BYTES {
            padded[..32].copy_from_slice(&digest(hashed(START.map(|word| [word]), key, 0), 0));
        } else {
            padded[..key.len()].copy_from_slice(key);
        }
        let begun = |mask: u8| {
            let mut state = START.map(|word| [word]);
            compress(&mut state, block(&padded.map(|byte| byte ^ mask)).map(|word| [word]));
            state
        };
        Hmac { inner: begun(0x36), outer: begun(0x5c) }
    }

    /// Returns the digest of each text; None where there is none.
    #[inline(always)]
    pub fn digests(&self, texts: &impl Events) -> Vec<Option<Digest>> {
        let mut digests = vec![None; texts.count()];
        let (mut blocks, mut rows, mut count) = ([[0; LANES]; 16], [0; LANES], 0);
        for row in 0..texts.count() {
            let Some(text) = texts.text(row) else { continue };
            if text.len() + PADDING_BYTES > BLOCK_BYTES {
                digests[row] = Some(digest(self.finish(hashed(self.inner, text, BLOCK_BYTES)), 0));
                continue;
            }
            for (lanes, word) in blocks.iter_mut().zip(last_block(text, BLOCK_BYTES + text.len())) {
                lanes[count] = word;
            }
            rows[count] = row;
            count += 1;
            if count == LANES {
                self.side_by_side(blocks, &rows, &mut digests);
                count = 0;
            }
        }
        self.side_by_side(blocks, &rows[..count], &mut digests);
        digests
    }

    #[inline(always)]
    fn side_by_side(&self, blocks: Block<LANES>, rows: &[usize], digests: &mut [Option<Digest>]) {
        let mut state = self.inner.map(|[word]| [word; LANES]);
        compress(&mut state, blocks);
        let state = self.finish(state);
        for (lane, &row) in rows.iter().enumerate() {
            digests[row] = Some(digest(state, lane));
        }
    }

    /// Returns the hash of an inner hash.
    #[inline(always)]
    fn finish<const N: usize>(&self, inner: State<N>) -> State<N> {
        let mut block = [[0; N]; 16];
        block[..8].copy_from_slice(&inner);
        block[8] = [1 << 31; N];
        block[15] = [(BLOCK_BYTES as u32 + 32) * 8; N];
        let mut state = self.outer.map(|[word]| [word; N]);
        compress(&mut state, block);
        state
    }
}

/// Writes digests as texts, `is_hex` or in Base64.
pub fn texts(digests: &[Option<Digest>], is_hex: bool) -> Result<Texts, TooLarge> {
    let mut texts = Texts::with_capacity(digests.len(), digests.len() * 64);
    let mut text = Vec::with_capacity(64);
    for digest in digests {
        text.clear();
        match digest {
            Some(bytes) if is_hex => {
                text.extend(bytes.iter().flat_map(|byte| [byte >> 4, byte & 15].map(|half| HEX[usize::from(half)])));
            }
            Some(bytes) => base64(bytes, &mut text),
            None => {}
        }
        texts.push(digest.as_ref().map(|_| &text[..]))?;
    }
    Ok(texts)
}

fn base64(bytes: &Digest, out: &mut Vec<u8>) {
    for three in bytes.chunks(3) {
        let at = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        out.extend([18, 12, 6, 0].map(|shift| BASE64[(bits >> shift & 63) as usize]));
    }
    out.pop();
    out.push(b'=');
}

fn digest<const N: usize>(state: State<N>, lane: usize) -> Digest {
    let mut digest = [0; 32];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word[lane].to_be_bytes());
    }
    digest
}

/// Returns the hash of a text after so many bytes that are in `state`.
fn hashed(mut state: State<1>, text: &[u8], bytes: usize) -> State<1> {
    let mut blocks = text.chunks_exact(BLOCK_BYTES);
    for whole in &mut blocks {
        compress(&mut state, block(whole).map(|word| [word]));
    }
    let rest = blocks.remainder();
    if rest.len() + PADDING_BYTES > BLOCK_BYTES {
        let mut full = [0; BLOCK_BYTES];
        full[..rest.len()].copy_from_slice(rest);
        full[rest.len()] = 1 << 7;
        compress(&mut state, block(&full).map(|word| [word]));
        let mut last = [0; BLOCK_BYTES];
        end(&mut last, bytes + text.len());
        compress(&mut state, block(&last).map(|word| [word]));
    } else {
        compress(&mut state, last_block(rest, bytes + text.len()).map(|word| [word]));
    }
    state
}

/// Returns the last block of a text of so many bytes altogether.
#[inline(always)]
fn last_block(rest: &[u8], bytes: usize) -> [u32; 16] {
    let mut last = [0; BLOCK_BYTES];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 1 << 7;
    end(&mut last, bytes);
    block(&last)
}

#[inline(always)]
fn end(last: &mut [u8; BLOCK_BYTES], bytes: usize) {
    last[BLOCK_BYTES - 8..].copy_from_slice(&(bytes as u64 * 8).to_be_bytes());
}

#[inline(always)]
fn block(bytes: &[u8]) -> [u32; 16] {
    let mut words = [0; 16];
    for (word, four) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
    }
    words
}

#[inline(always)]
fn both<const N: usize>(a: Word<N>, b: Word<N>, step: impl Fn(u32, u32) -> u32) -> Word<N> {
    let mut result = [0; N];
    for lane in 0..N {
        result[lane] = step(a[lane], b[lane]);
    }
    result
}

#[inline(always)]
fn sum<const N: usize>(a: Word<N>, b: Word<N>) -> Word<N> {
    both(a, b, u32::wrapping_add)
}

/// FIPS 180-4, section 6.2.2.
#[inline(always)]
fn compress<const N: usize>(state: &mut State<N>, mut w: Block<N>) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (round, constant) in ROUNDS.iter().enumerate() {
        if round >= 16 {
            let early = w[(round + 1) % 16].map(|x| x.rotate_right(7) ^ x.rotate_right(18) ^ x >> 3);
            let late = w[(round + 14) % 16].map(|x| x.rotate_right(17) ^ x.rotate_right(19) ^ x >> 10);
            w[round % 16] = sum(sum(w[round % 16], early), sum(w[(round + 9) % 16], late));
        }
        let mixed = e.map(|x| x.rotate_right(6) ^ x.rotate_right(11) ^ x.rotate_right(25));
        let chosen = both(g, both(e, both(f, g, |f, g| f ^ g), |e, x| e & x), |g, x| g ^ x);
        let first = sum(sum(h, mixed), sum(chosen, w[round % 16].map(|word| word.wrapping_add(*constant))));
        let mixed = a.map(|x| x.rotate_right(2) ^ x.rotate_right(13) ^ x.rotate_right(22));
        let either = both(c, both(a, b, |a, b| a | b), |c, x| c & x);
        let majority = both(either, both(a, b, |a, b| a & b), |x, y| x | y);
        (h, g, f, e, d, c, b, a) = (g, f, e, sum(d, first), c, b, a, sum(first, sum(mixed, majority)));
    }
    for (word, added) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = sum(*word, added);
    }
}
