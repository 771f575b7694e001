//! One object of events and the columns for its fields; each key predicts the next one, as in the event before.

use crate::column::Column;
use crate::infer::{write_fields, Folded, Kind, Node, Seen, MOST_FIELDS};
use crate::parse::{Fast, NeedsExact, Parser};
use crate::text::Text;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// So many names without a column are remembered for the next event.
const MOST_NAMES: usize = 4096;

/// Where the value of a field goes.
#[derive(Clone, Copy)]
enum Target {
    Column(usize),
    /// No column; the number is that of its path.
    Unknown(u32),
    /// The field is left out by the settings.
    Ignored,
    /// Only the exact converter knows.
    NeedsExact,
}

struct Entry {
    /// `"name":` as it is written in most events; the first 16 bytes are compared at once.
    pattern: Vec<u8>,
    first: u128,
    mask: u128,
    target: Target,
    name: Vec<u8>,
    /// The number of the field in `ObjectColumns::new`, once a value of it was seen; it has no column.
    new: Option<usize>,
}

/// What is noted of the event at hand, and the paths of all fields without a column that were met.
#[derive(Default)]
pub struct EventNotes {
    /// The numbers of the paths that the event has, in their order.
    pub unknown: Vec<u32>,
    pub paths: Vec<String>,
    /// The values that Python decides: the column, and where they are in the event.
    pub deferred: Vec<(usize, Range<usize>)>,
    /// Whether the values of fields without a column are looked at, and what they lost.
    pub observes: bool,
    pub seen: Seen,
    numbers: HashMap<String, u32>,
    /// Of each path, the event that had it last.
    met: Vec<u64>,
    event: u64,
}

impl EventNotes {
    pub fn new(observes: bool) -> EventNotes {
        EventNotes { observes, ..EventNotes::default() }
    }

    pub fn begin(&mut self) {
        self.unknown.clear();
        self.deferred.clear();
        self.event += 1;
    }

    fn meet(&mut self, number: u32) {
        let met = &mut self.met[number as usize];
        if *met != self.event {
            *met = self.event;
            self.unknown.push(number);
        }
    }

    pub fn is_half_full(&self) -> bool {
        self.paths.len() > MOST_NAMES / 2
    }

    fn number(&mut self, path: String) -> Fast<u32> {
        if let Some(&number) = self.numbers.get(&path) {
            return Ok(number);
        }
        if self.paths.len() >= MOST_NAMES {
            return Err(NeedsExact);
        }
        let number = self.paths.len() as u32;
        self.paths.push(path.clone());
        self.met.push(0);
        self.numbers.insert(path, number);
        Ok(number)
    }
}

/// Which columns an object has, and how names find them.
#[derive(Default)]
pub struct Names {
    pub folded: Option<Folded>,
    pub include: HashSet<Vec<u8>>,
    pub exclude: HashSet<Vec<u8>>,
    /// The path to the fields, with a dot at its end.
    pub path: String,
    /// Whether the values of fields without a column are looked at while events are converted.
    pub observes: bool,
}

impl Names {
    /// Whether a field is not written.
    pub fn leave_out(&self, name: &[u8]) -> bool {
        self.exclude.contains(name) || !(self.include.is_empty() || self.include.contains(name))
    }
}

pub struct ObjectColumns {
    pub columns: Vec<Column>,
    pub names: Names,
    /// The fields without a column and what was seen of them, in the order of their first values.
    new: Vec<(Vec<u8>, Node)>,
    entries: Vec<Entry>,
    found: HashMap<Vec<u8>, usize>,
    /// Of each entry (and of the start, first), the one that came after it.
    next: Vec<u32>,
    /// Of each column, and of each entry, the object in which it was seen last.
    seen: Vec<u64>,
    met: Vec<u64>,
    object: u64,
}

enum Below<'a> {
    Column(&'a Column),
    New(&'a Node),
}

impl ObjectColumns {
    pub fn new(fields: Vec<(String, Column)>, names: Names) -> ObjectColumns {
        let mut level = ObjectColumns {
            seen: vec![0; fields.len()],
            columns: Vec::with_capacity(fields.len()),
            names,
            new: vec![],
            entries: vec![],
            found: HashMap::new(),
            next: vec![0],
            met: vec![],
            object: 0,
        };
        for (number, (name, column)) in fields.into_iter().enumerate() {
            level.columns.push(column);
            let is_left_out = level.names.leave_out(name.as_bytes());
            level.add(name.as_bytes(), if is_left_out { Target::Ignored } else { Target::Column(number) });
        }
        level.entry(b"", vec![255], Target::Ignored); // for names that are not remembered
        level
    }

    /// The columns as fields that are known, so that only others are of interest.
    pub fn known(&self) -> Node {
        let mut names: Vec<(&Vec<u8>, &usize)> =
            self.found.iter().filter(|(_, &one)| one < self.columns.len()).collect();
        names.sort_by_key(|(_, &number)| number);
        let fields = names.into_iter().map(|(name, &number)| (name.clone(), self.columns[number].known())).collect();
        Node::new(Kind::KnownStruct, fields, self.names.folded.clone())
    }

    fn add(&mut self, name: &[u8], target: Target) -> usize {
        let is_plain = !name.iter().any(|byte| matches!(byte, b'"' | b'\\' | 0..=31));
        // no text holds the byte 255: other names are looked up
        let pattern = if is_plain { [b"\"", name, b"\":"].concat() } else { vec![255] };
        let number = self.entry(name, pattern, target);
        self.found.insert(name.to_vec(), number);
        number
    }

    fn entry(&mut self, name: &[u8], pattern: Vec<u8>, target: Target) -> usize {
        let (mut first, mut mask) = ([0; 16], [0; 16]);
        for (at, byte) in pattern.iter().take(16).enumerate() {
            first[at] = *byte;
            mask[at] = 255;
        }
        let number = self.entries.len();
        self.entries.push(Entry {
            pattern,
            first: u128::from_le_bytes(first),
            mask: u128::from_le_bytes(mask),
            target,
            name: name.to_vec(),
            new: None,
        });
        self.next.push(number as u32 + 1);
        self.met.push(0);
        number
    }

    /// Makes room for so many rows, which have so many bytes altogether: of a text there may be twice its share.
    pub fn reserve(&mut self, rows: usize, bytes: usize) {
        let share = bytes / self.columns.len().max(2) * 2;
        self.columns.iter_mut().for_each(|column| column.reserve(rows, share));
    }

    /// Forgets what was seen of fields without a column.
    pub fn begin(&mut self) {
        self.new.clear();
        self.entries.iter_mut().for_each(|entry| entry.new = None);
        self.columns.iter_mut().for_each(Column::begin);
    }

    /// Forgets all names but those of the columns, with their numbers.
    pub fn forget(&mut self) {
        let kept = self.columns.len() + 1;
        self.entries.truncate(kept);
        self.met.truncate(kept);
        self.next.truncate(kept + 1);
        self.found.retain(|_, number| *number < kept);
        self.columns.iter_mut().for_each(Column::forget);
    }

    #[inline(always)]
    fn is_next(&self, entry: usize, parser: &Parser) -> bool {
        let Some(entry) = self.entries.get(entry) else { return false };
        let rest = &parser.bytes[parser.at..];
        match rest.get(..16).and_then(|block| <[u8; 16]>::try_from(block).ok()) {
            Some(block) => {
                (u128::from_le_bytes(block) ^ entry.first) & entry.mask == 0
                    && (entry.pattern.len() <= 16 || rest[16..].starts_with(&entry.pattern[16..]))
            }
            None => rest.starts_with(&entry.pattern),
        }
    }

    /// Reads a key up to its value; gives its entry.
    #[inline(always)]
    fn key(&mut self, parser: &mut Parser, before: usize, notes: &mut EventNotes) -> Fast<usize> {
        let mut guess = self.next[before] as usize;
        for _ in 0..4 {
            if self.is_next(guess, parser) {
                let entry = &self.entries[guess];
                parser.at += entry.pattern.len();
                parser.blanks();
                return Ok(guess);
            }
            guess = self.next.get(guess + 1).map_or(usize::MAX, |next| *next as usize);
            if guess == usize::MAX {
                break;
            }
        }
        self.look_up(parser, before, notes)
    }

    #[inline(never)]
    fn look_up(&mut self, parser: &mut Parser, before: usize, notes: &mut EventNotes) -> Fast<usize> {
        let name = plain(parser.key()?)?;
        let entry = match self.found.get(&name) {
            Some(entry) => *entry,
            None => {
                let target = self.resolve(&name, notes)?;
                if self.entries.len() < self.columns.len() + MOST_NAMES {
                    self.add(&name, target)
                } else if matches!(target, Target::Ignored) {
                    return Ok(self.columns.len()); // any name that is left out; it is not remembered
                } else {
                    return Err(NeedsExact);
                }
            }
        };
        self.next[before] = entry as u32;
        Ok(entry)
    }

    fn resolve(&self, name: &[u8], notes: &mut EventNotes) -> Fast<Target> {
        if self.names.leave_out(name) {
            return Ok(Target::Ignored);
        }
        if let Some(folded) = &self.names.folded {
            if !name.is_ascii() {
                return Ok(Target::NeedsExact);
            }
            match folded.get(&name.to_ascii_lowercase()) {
                Some(Some(column)) => return Ok(Target::Column(*column)),
                Some(None) => return Ok(Target::NeedsExact),
                None => {}
            }
        }
        let path = format!("{}{}", self.names.path, String::from_utf8_lossy(name));
        notes.number(path).map(Target::Unknown)
    }

    /// Reads an object into one row of all columns; at the top, one field must have a column.
    pub fn object(&mut self, parser: &mut Parser, notes: &mut EventNotes, is_top: bool) -> Fast<()> {
        self.object += 1;
        let (mut count, mut before) = (0, 0);
        let mut more = parser.open(b'}')?;
        while more {
            let entry = self.key(parser, before, notes)?;
            before = entry + 1;
            match self.entries[entry].target {
                Target::Column(number) => {
                    if self.seen[number] == self.object {
                        return Err(NeedsExact); // repeated, or ambiguous
                    }
                    self.seen[number] = self.object;
                    count += 1;
                    let start = parser.at;
                    if self.columns[number].read(parser, notes).is_err() {
                        self.defer(number, start, parser, notes)?;
                    }
                }
                Target::Unknown(number) => {
                    if self.met[entry] == self.object {
                        return Err(NeedsExact);
                    }
                    self.met[entry] = self.object;
                    notes.meet(number);
                    self.unknown(entry, parser, notes, is_top)?;
                }
                Target::Ignored => parser.skip()?,
                Target::NeedsExact => return Err(NeedsExact),
            }
            more = parser.more(b'}')?;
        }
        if count == 0 && is_top {
            return Err(NeedsExact);
        }
        if count < self.columns.len() {
            for (number, column) in self.columns.iter_mut().enumerate() {
                if self.seen[number] != self.object {
                    if column.required && !column.may_lack {
                        return Err(NeedsExact);
                    }
                    column.push_null();
                }
            }
        }
        Ok(())
    }
}

impl ObjectColumns {
    /// Reads the value of a field without a column.
    fn unknown(&mut self, entry: usize, parser: &mut Parser, notes: &mut EventNotes, is_top: bool) -> Fast<()> {
        if notes.observes && parser.peek() != b'n' {
            let entry = &mut self.entries[entry];
            let number = *entry.new.get_or_insert_with(|| {
                self.new.push((entry.name.clone(), Node::default()));
                self.new.len() - 1
            });
            notes.seen.lost |= self.new.len() > MOST_FIELDS;
            return self.new[number].1.observe(parser, &mut notes.seen);
        }
        if is_top {
            parser.skip()
        } else {
            parser.skip_unique() // keys that are repeated within a column are counted
        }
    }

    /// Writes the fields without a column as `Node.to_json` does, below the columns that hold them. False: there are none.
    pub fn write_new(&self, out: &mut Vec<u8>) -> bool {
        let mut columns: Vec<(&[u8], Below)> = vec![];
        for entry in &self.entries[..self.columns.len()] {
            if let Target::Column(number) = entry.target {
                columns.push((&entry.name, Below::Column(&self.columns[number])));
            }
        }
        let new = self.new.iter().map(|(name, node)| (name.as_slice(), Below::New(node)));
        write_fields(Kind::Known, out, columns.into_iter().chain(new), |below, out| match below {
            Below::Column(column) => column.write_new(out),
            Below::New(node) => node.write_counted(out),
        })
    }

    /// Makes a value null that its column did not take, and notes where it is.
    #[cold]
    fn defer(&mut self, number: usize, start: usize, parser: &mut Parser, notes: &mut EventNotes) -> Fast<()> {
        let column = &mut self.columns[number];
        if !column.defers {
            return Err(NeedsExact);
        }
        column.truncate(column.valid.len());
        column.push_null();
        parser.at = start;
        parser.skip_unique()?;
        notes.deferred.push((number, start..parser.at));
        Ok(())
    }
}

fn plain(key: Text) -> Fast<Vec<u8>> {
    let mut out = Vec::new();
    key.write(&mut out)?;
    Ok(out)
}
