//! Writes a run.

use super::bits::checksum;
use super::entry::Entry;
use super::run::{BLOCK, HEADER_BYTES, MAGIC};
use std::fs::File;
use std::io::{Error, ErrorKind, Result, Seek, SeekFrom, Write};

const BUFFERED: usize = BLOCK * 256;
/// About how many entries have the same prefix.
const PER_SLOT: usize = 16;
/// So few entries are sorted as a whole.
const SMALL: usize = 4096;

/// Sorts entries and writes them as a run; returns how many there are.
pub fn write(path: &str, entries: Vec<Entry>) -> Result<u64> {
    let entries = sort(entries);
    let mut writer = Writer::create(path, entries.len())?;
    entries.into_iter().try_for_each(|entry| writer.push(entry))?;
    writer.finish()
}

/// Sorts entries: into parts by their first bits, which are uniform, then each part within the processor's cache.
pub fn sort(mut entries: Vec<Entry>) -> Vec<Entry> {
    if entries.len() < SMALL {
        entries.sort_unstable_by(Entry::compare);
        return entries;
    }
    let bits = (entries.len() / 1024).next_power_of_two().trailing_zeros().min(12);
    let part = |entry: &Entry| (entry.key[0] >> (64 - bits)) as usize;
    let mut ends = vec![0usize; 1 << bits];
    for entry in &entries {
        ends[part(entry)] += 1;
    }
    let mut start = 0;
    for end in &mut ends {
        (*end, start) = (start, start + *end);
    }
    let mut sorted = vec![Entry { key: [0; 2], file: 0, position: 0 }; entries.len()];
    for entry in entries {
        let end = &mut ends[part(&entry)];
        sorted[*end] = entry;
        *end += 1;
    }
    let mut start = 0;
    for end in ends {
        sorted[start..end].sort_unstable_by(Entry::compare);
        start = end;
    }
    sorted
}

/// Takes entries in order.
pub struct Writer {
    file: File,
    buffer: Vec<u8>,
    buffered: usize,
    bits: u32,
    directory: Vec<u32>,
    sums: Vec<u64>,
    count: u64,
}

impl Writer {
    /// Begins a run of at most so many entries.
    pub fn create(path: &str, most: usize) -> Result<Writer> {
        if most >= u32::MAX as usize {
            return Err(Error::new(ErrorKind::InvalidInput, "a run of more than 4 billion entries"));
        }
        let mut file = File::create(path)?;
        file.seek(SeekFrom::Start(HEADER_BYTES as u64))?;
        let bits = (most / PER_SLOT).next_power_of_two().trailing_zeros().clamp(1, 31);
        let directory = vec![0; 1 << bits];
        Ok(Writer { file, buffer: vec![], buffered: 0, bits, directory, sums: vec![], count: 0 })
    }

    pub fn push(&mut self, entry: Entry) -> Result<()> {
        self.directory[(entry.key[0] >> (64 - self.bits)) as usize] += 1;
        self.count += 1;
        self.buffered += 1;
        entry.write(&mut self.buffer);
        if self.buffered == BUFFERED {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.sums.extend(self.buffer.chunks(BLOCK * super::entry::ENTRY_BYTES).map(checksum));
        self.file.write_all(&self.buffer)?;
        self.buffer.clear();
        self.buffered = 0;
        Ok(())
    }

    /// Ends the run; it is not forced to disk, because a damaged one is noticed.
    pub fn finish(mut self) -> Result<u64> {
        self.flush()?;
        let mut first = 0u32;
        for slot in &mut self.directory {
            (*slot, first) = (first, first + *slot);
        }
        let directory: Vec<u8> = self.directory.iter().flat_map(|slot| slot.to_le_bytes()).collect();
        let sums: Vec<u8> = self.sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        self.file.write_all(&directory)?;
        self.file.write_all(&sums)?;
        let words = [MAGIC, self.count, u64::from(self.bits), checksum(&directory), checksum(&sums)];
        let mut header: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        header.extend_from_slice(&checksum(&header).to_le_bytes());
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&header)?;
        Ok(self.count)
    }
}
