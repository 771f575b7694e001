//! An entry: the row of a key. On disk it has 24 bytes: the key's two halves, file, position, all little-endian.

use super::bits::Bits;
use std::cmp::Ordering;

pub const ENTRY_BYTES: usize = 24;
/// The file of an entry that only says that its key was deleted.
pub const GONE: u32 = 0x7fff_ffff;
/// A flag in `file`: all entries of this key in older runs are of deleted rows.
pub const REPLACES: u32 = 0x8000_0000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub key: Bits,
    pub file: u32,
    pub position: u32,
}

impl Entry {
    pub fn number(&self) -> u32 {
        self.file & !REPLACES
    }

    pub fn replaces(&self) -> bool {
        self.file & REPLACES != 0
    }

    /// The order within a run.
    pub fn compare(&self, other: &Entry) -> Ordering {
        (self.key, self.number(), self.position).cmp(&(other.key, other.number(), other.position))
    }

    pub fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.key[0].to_le_bytes());
        to.extend_from_slice(&self.key[1].to_le_bytes());
        to.extend_from_slice(&self.file.to_le_bytes());
        to.extend_from_slice(&self.position.to_le_bytes());
    }

    /// Reads the entry at a byte.
    #[inline(always)]
    pub fn read(bytes: &[u8], at: usize) -> Entry {
        let bytes = &bytes[at..at + ENTRY_BYTES];
        Entry { key: [long(bytes, 0), long(bytes, 8)], file: int(bytes, 16), position: int(bytes, 20) }
    }
}

/// Reads 8 bytes.
#[inline(always)]
pub fn long(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
}

/// Reads 4 bytes.
#[inline(always)]
pub fn int(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].try_into().map_or(0, u32::from_le_bytes)
}
