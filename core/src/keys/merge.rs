//! Merges runs into one.

use super::entry::{Entry, GONE, REPLACES};
use super::is_dead;
use super::run::{Memory, Run};
use super::writer::Writer;
use std::io::Result;

/// Merges runs, the newest first; returns the number of entries.
///
/// Left out are entries that a newer run replaces, and those of `dead` files. Only if there is no older run (`is_last`)
/// nothing is left to be replaced.
pub fn merge<M: Memory>(runs: &[&Run<M>], path: &str, dead: &[u64], is_last: bool) -> Result<u64> {
    runs.iter().try_for_each(|run| run.verify_all())?;
    let mut writer = Writer::create(path, runs.iter().map(|run| run.count()).sum())?;
    let mut next = vec![0usize; runs.len()];
    let mut heads: Vec<Option<Entry>> = runs.iter().map(|run| run.entry(0)).collect();
    let mut live: Vec<Entry> = Vec::new();
    while let Some(key) = heads.iter().flatten().map(|entry| entry.key).min() {
        live.clear();
        let mut is_replaced = false;
        for (number, run) in runs.iter().enumerate() {
            let mut replaces = false;
            while let Some(entry) = heads[number].filter(|entry| entry.key == key) {
                replaces |= entry.replaces();
                if !is_replaced && entry.number() != GONE && !is_dead(dead, entry.number()) {
                    live.push(Entry { file: entry.number(), ..entry });
                }
                next[number] += 1;
                heads[number] = run.entry(next[number]);
            }
            is_replaced |= replaces;
        }
        if is_replaced && !is_last {
            match live.first_mut() {
                Some(entry) => entry.file |= REPLACES,
                None => live.push(Entry { key, file: GONE | REPLACES, position: 0 }),
            }
        }
        live.sort_unstable_by(Entry::compare);
        live.iter().try_for_each(|entry| writer.push(*entry))?;
    }
    writer.finish()
}
