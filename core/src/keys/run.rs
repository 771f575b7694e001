//! A run: an immutable file of sorted entries, read in place.
//!
//! ```text
//! header (48 bytes) | entries | directory: the first entry of each prefix of keys | a checksum for each block of entries
//! ```
//! The header has the checksums of itself, of the directory and of the block checksums, which are compared when the run is
//! opened; a block is compared when it is first read. So each bit is verified before it is believed.

use super::bits::{checksum, Bits};
use super::entry::{int, long, Entry, ENTRY_BYTES};
use std::io::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub const HEADER_BYTES: usize = 48;
/// Entries that share a checksum: 4 KiB.
pub const BLOCK: usize = 170;
/// "CALVEK01".
pub const MAGIC: u64 = 0x3130_4b45_564c_4143;

/// Where the bytes of a run are.
pub trait Memory {
    fn bytes(&self) -> &[u8];

    /// Announces whether it is read from start to end, or here and there.
    fn advise(&self, _is_sequential: bool) {}

    /// Announces that a byte is read soon.
    fn fetch(&self, _at: usize) {}
}

impl Memory for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

pub struct Run<M> {
    memory: M,
    count: usize,
    bits: u32,
    verified: Vec<AtomicU64>,
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

fn blocks(count: usize) -> usize {
    (count + BLOCK - 1) / BLOCK
}

impl<M: Memory> Run<M> {
    /// Verifies all but the entries.
    pub fn open(memory: M) -> Result<Run<M>> {
        let bytes = memory.bytes();
        let header = bytes.get(..HEADER_BYTES).ok_or_else(|| damaged("a run without a header"))?;
        if long(header, 0) != MAGIC || long(header, 40) != checksum(&header[..40]) {
            return Err(damaged("a run with a damaged header"));
        }
        let (count, bits) = (long(header, 8) as usize, long(header, 16) as u32);
        let directory = HEADER_BYTES + count * ENTRY_BYTES;
        let sums = directory + (4 << bits);
        if bytes.len() != sums + blocks(count) * 8 {
            return Err(damaged("a run of another length"));
        }
        if long(header, 24) != checksum(&bytes[directory..sums]) || long(header, 32) != checksum(&bytes[sums..]) {
            return Err(damaged("a run with a damaged directory"));
        }
        memory.advise(false);
        let verified = (0..=blocks(count) / 64).map(|_| AtomicU64::new(0)).collect();
        Ok(Run { memory, count, bits, verified })
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Reads an entry, whose block is verified.
    pub fn entry(&self, number: usize) -> Option<Entry> {
        (number < self.count).then(|| Entry::read(self.memory.bytes(), HEADER_BYTES + number * ENTRY_BYTES))
    }

    fn verify(&self, block: usize) -> Result<()> {
        let (word, bit) = (block / 64, 1u64 << (block % 64));
        if self.verified[word].load(Relaxed) & bit == 0 {
            let (first, last) = (block * BLOCK, ((block + 1) * BLOCK).min(self.count));
            let entries = HEADER_BYTES + first * ENTRY_BYTES..HEADER_BYTES + last * ENTRY_BYTES;
            let sum = HEADER_BYTES + self.count * ENTRY_BYTES + (4 << self.bits) + block * 8;
            if checksum(&self.memory.bytes()[entries]) != long(self.memory.bytes(), sum) {
                return Err(damaged("a run with a damaged block"));
            }
            self.verified[word].fetch_or(bit, Relaxed);
        }
        Ok(())
    }

    /// Verifies all entries.
    pub fn verify_all(&self) -> Result<()> {
        self.memory.advise(true);
        let verified = (0..blocks(self.count)).try_for_each(|block| self.verify(block));
        self.memory.advise(false);
        verified
    }

    fn slot_at(&self, key: &Bits) -> (usize, usize) {
        let slot = (key[0] >> (64 - self.bits)) as usize;
        (slot, HEADER_BYTES + self.count * ENTRY_BYTES + slot * 4)
    }

    /// Announces that a key is searched soon.
    pub fn fetch(&self, key: &Bits) {
        self.memory.fetch(self.slot_at(key).1);
    }

    /// Finds all entries of a key.
    pub fn find(&self, key: &Bits) -> Result<impl Iterator<Item = Entry> + '_> {
        let (slot, at) = self.slot_at(key);
        let bytes = self.memory.bytes();
        let is_last = slot + 1 == 1 << self.bits;
        let (mut first, end) =
            (int(bytes, at) as usize, if is_last { self.count } else { int(bytes, at + 4) as usize });
        if first < end {
            (first / BLOCK..=(end - 1) / BLOCK).try_for_each(|block| self.verify(block))?;
        }
        let mut last = end;
        while first < last {
            let middle = (first + last) / 2;
            if self.entry(middle).is_some_and(|entry| entry.key < *key) {
                first = middle + 1;
            } else {
                last = middle;
            }
        }
        let key = *key;
        Ok((first..end).map_while(move |number| self.entry(number).filter(|entry| entry.key == key)))
    }
}
