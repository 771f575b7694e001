//! Runs of the key index: a search has what a model has, merged or not, and damage is found.

use calve_core::keys::bits::{permute, Bits};
use calve_core::keys::entry::{Entry, GONE, REPLACES};
use calve_core::keys::find;
use calve_core::keys::merge::merge;
use calve_core::keys::run::Run;
use calve_core::keys::writer::{sort, write};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

const KEYS: u64 = 40;
const FILES: u64 = 9;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn entry(&mut self) -> Entry {
        let (key, flag) = (key(self.below(KEYS)), if self.below(2) == 0 { REPLACES } else { 0 });
        if self.below(5) == 0 {
            return Entry { key, file: GONE | REPLACES, position: 0 };
        }
        Entry { key, file: self.below(FILES) as u32 | flag, position: self.below(99) as u32 }
    }
}

fn key(number: u64) -> Bits {
    permute(number, 0, &[3, 4])
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("calve-keys-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn path(&self, number: usize) -> String {
        self.0.join(number.to_string()).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(path: &String) -> Run<Vec<u8>> {
    Run::open(fs::read(path).unwrap()).unwrap()
}

fn opened(paths: &[String]) -> Vec<Run<Vec<u8>>> {
    paths.iter().rev().map(open).collect()
}

/// Searches runs, the newest first.
fn hits(runs: &[Run<Vec<u8>>], keys: std::ops::Range<u64>, dead: u64) -> std::io::Result<BTreeSet<[u32; 3]>> {
    let keys: Vec<Bits> = keys.map(key).collect();
    Ok(find(&runs.iter().collect::<Vec<_>>(), &keys, &[dead])?.into_iter().collect())
}

/// All entries of keys in runs, the oldest first: those of the newest run that replaces others, and of newer ones.
fn expected(runs: &[Vec<Entry>], dead: u64) -> BTreeSet<[u32; 3]> {
    let mut rows = BTreeSet::new();
    for number in 0..KEYS {
        for entries in runs.iter().rev() {
            let own: Vec<&Entry> = entries.iter().filter(|entry| entry.key == key(number)).collect();
            let live = own.iter().filter(|entry| entry.number() != GONE && dead >> entry.number() & 1 == 0);
            rows.extend(live.map(|entry| [number as u32, entry.number(), entry.position]));
            if own.iter().any(|entry| entry.replaces()) {
                break;
            }
        }
    }
    rows
}

#[test]
fn a_search_has_what_the_model_has_whatever_was_merged() {
    let folder = Folder::new("model");
    for seed in 1..120 {
        let mut random = Random(seed * 7919);
        let (mut runs, mut paths, mut dead) = (vec![], vec![], 0);
        for number in 0..14 {
            let entries: Vec<Entry> = (0..random.below(60)).map(|_| random.entry()).collect();
            paths.push(folder.path(number * 2));
            assert_eq!(write(paths.last().unwrap(), entries.clone()).unwrap(), entries.len() as u64);
            runs.push(entries);
            dead |= 1 << random.below(FILES * 4); // files go, and never come back
            if random.below(3) == 0 {
                let first = random.below(paths.len() as u64) as usize;
                let chosen = opened(&paths[first..]);
                paths.truncate(first);
                paths.push(folder.path(number * 2 + 1));
                merge(&chosen.iter().collect::<Vec<_>>(), paths.last().unwrap(), &[dead], first == 0).unwrap();
            }
            assert_eq!(hits(&opened(&paths), 0..KEYS + 5, dead).unwrap(), expected(&runs, dead), "seed {seed}");
        }
    }
}

#[test]
fn a_merge_of_all_runs_keeps_the_live_rows_and_no_mark() {
    let folder = Folder::new("size");
    let mut random = Random(5);
    let runs: Vec<Vec<Entry>> = (0..6).map(|_| (0..300).map(|_| random.entry()).collect()).collect();
    for (number, entries) in runs.iter().enumerate() {
        write(&folder.path(number), entries.clone()).unwrap();
    }
    let chosen = opened(&(0..6).map(|number| folder.path(number)).collect::<Vec<_>>());
    merge(&chosen.iter().collect::<Vec<_>>(), &folder.path(9), &[0b101], true).unwrap();
    let merged = open(&folder.path(9));
    merged.verify_all().unwrap();
    assert!((0..merged.count())
        .filter_map(|at| merged.entry(at))
        .all(|entry| !entry.replaces() && entry.number() != GONE));
    assert!(merged.count() < 1500);
    let rows = hits(&[merged], 0..KEYS, 0).unwrap();
    assert_eq!(rows, expected(&runs, 0b101));
    assert!(rows.len() > KEYS as usize / 2);
}

#[test]
fn many_entries_are_sorted_as_the_library_sorts() {
    let mut random = Random(11);
    for count in [0, 1, 4095, 4096, 70_000] {
        let entries: Vec<Entry> =
            (0..count).map(|at| Entry { key: key(random.below(count)), file: 7, position: at as u32 }).collect();
        let mut sorted = entries.clone();
        sorted.sort_by(Entry::compare);
        assert_eq!(sort(entries), sorted);
    }
}

#[test]
fn each_row_of_a_large_run_is_found_and_no_other_key() {
    let folder = Folder::new("large");
    let entries = (0..100_000).map(|at| Entry { key: key(at), file: 1, position: at as u32 }).collect();
    write(&folder.path(0), entries).unwrap();
    let rows = hits(&[open(&folder.path(0))], 0..200_000, 0).unwrap();
    assert_eq!(rows, (0..100_000).map(|at| [at, 1, at]).collect());
}

#[test]
fn any_flipped_bit_and_any_cut_is_found() {
    let folder = Folder::new("damage");
    let entries = (0..500).map(|at| Entry { key: key(at), file: 1, position: at as u32 }).collect();
    write(&folder.path(0), entries).unwrap();
    let whole = fs::read(folder.path(0)).unwrap();
    let is_damaged = |bytes: Vec<u8>| Run::open(bytes).and_then(|run| run.verify_all()).is_err();
    assert!(!is_damaged(whole.clone()));
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        assert!(is_damaged(bytes), "byte {at}");
    }
    for length in [0, 47, 48, 100, 4096, whole.len() - 1] {
        assert!(is_damaged(whole[..length].to_vec()), "{length} bytes");
    }
    assert!(is_damaged([whole.clone(), vec![0]].concat()));
}

#[test]
fn a_search_never_believes_a_damaged_block() {
    let folder = Folder::new("block");
    let entries = (0..2000).map(|at| Entry { key: key(at), file: 1, position: at as u32 }).collect();
    write(&folder.path(0), entries).unwrap();
    let mut bytes = fs::read(folder.path(0)).unwrap();
    bytes[48 + 24 * 1000 + 20] ^= 1; // a position
    let runs = [Run::open(bytes).unwrap()];
    let damaged = (0..2000).filter(|at| hits(&runs, *at..at + 1, 0).is_err()).count();
    assert!((170..=1000).contains(&damaged), "{damaged} keys are in blocks that were read");
}
