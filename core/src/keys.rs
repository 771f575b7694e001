//! The key index of a table: where rows with a key are, found without reading the table.
//!
//! It is derived from the data files and only answers one way for certain: a live row has an entry, and an entry may be of
//! a row that is gone. Python decides what is read and merged (`calve.commit.key_index`); here are the files.

pub mod bits;
pub mod entry;
pub mod merge;
pub mod run;
pub mod writer;

use bits::Bits;
use entry::GONE;
use run::{Memory, Run};
use std::io::Result;

/// An entry of a key that was searched: the number of the key among those given, the file, the position in it.
pub type Hit = [u32; 3];

/// How many keys ahead the directory is fetched into the processor's cache.
const AHEAD: usize = 8;

/// Finds all entries of keys that no newer one replaces, but those of `dead` files. Runs come the newest first.
pub fn find<M: Memory>(runs: &[&Run<M>], keys: &[Bits], dead: &[u64]) -> Result<Vec<Hit>> {
    let mut wanted: Vec<(Bits, u32)> = keys.iter().zip(0..).map(|(key, number)| (*key, number)).collect();
    wanted.sort_unstable(); // memory is then read upwards
    let mut hits = Vec::with_capacity(keys.len());
    for run in runs {
        let mut open = Vec::with_capacity(wanted.len());
        for (at, &(key, number)) in wanted.iter().enumerate() {
            if let Some((ahead, _)) = wanted.get(at + AHEAD) {
                run.fetch(ahead);
            }
            let mut is_replaced = false;
            for entry in run.find(&key)? {
                is_replaced |= entry.replaces();
                if entry.number() != GONE && !is_dead(dead, entry.number()) {
                    hits.push([number, entry.number(), entry.position]);
                }
            }
            if !is_replaced {
                open.push((key, number));
            }
        }
        wanted = open;
    }
    Ok(hits)
}

/// Whether a bitmap has the number of a file.
pub fn is_dead(dead: &[u64], file: u32) -> bool {
    dead.get(file as usize / 64).is_some_and(|word| word >> (file % 64) & 1 == 1)
}
