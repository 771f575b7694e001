//! Rows of PostgreSQL's COPY in text format as columns of texts.
//!
//! https://www.postgresql.org/docs/current/sql-copy.html#SQL-COPY-FILE-FORMATS

use crate::export::Texts;
use crate::pgoutput::{frames, HEAD_BYTES};
use std::str;

/// Rows, and the bytes that they take in the stream.
pub struct Copied {
    pub size: usize,
    pub rows: usize,
    pub columns: Vec<Texts>,
}

impl Copied {
    pub fn new(columns: usize) -> Copied {
        Copied { size: 0, rows: 0, columns: (0..columns).map(|_| Texts::default()).collect() }
    }

    fn push(&mut self, row: &[u8]) -> Option<()> {
        str::from_utf8(row).ok()?;
        let row = row.strip_suffix(b"\n")?;
        let (mut start, mut is_plain) = (0, true);
        let mut columns = self.columns.iter_mut();
        for (at, byte) in row.iter().enumerate() {
            match byte {
                b'\t' => {
                    push(columns.next()?, &row[start..at], is_plain)?;
                    (start, is_plain) = (at + 1, true);
                }
                b'\\' => is_plain = false,
                b'\n' => return None,
                _ => {}
            }
        }
        push(columns.next()?, &row[start..], is_plain)?;
        self.rows += 1;
        columns.next().is_none().then_some(())
    }
}

/// Reads the rows that are completely there, up to another message; None if one is not as PostgreSQL writes it.
pub fn copied(data: &[u8], columns: usize) -> Option<Copied> {
    let mut found = Copied::new(columns);
    for row in frames(data) {
        found.size += HEAD_BYTES + row.len();
        found.push(row)?;
    }
    Some(found)
}

fn push(column: &mut Texts, field: &[u8], is_plain: bool) -> Option<()> {
    if is_plain {
        return column.push(Some(field)).ok();
    }
    if field == b"\\N" {
        return column.push(None).ok();
    }
    let mut text = Vec::with_capacity(field.len());
    let mut bytes = field.iter();
    while let Some(byte) = bytes.next() {
        text.push(if *byte == b'\\' { meant(*bytes.next()?) } else { *byte });
    }
    column.push(Some(&text)).ok()
}

/// What a byte after a backslash stands for.
fn meant(byte: u8) -> u8 {
    match byte {
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
    }

    #[test]
    fn rows_are_taken_up_to_one_that_is_cut_off_or_another_message() {
        let rows = [framed(b'd', b"1\ta\n"), framed(b'd', b"\\N\t\\\\\\n\n")].concat();
        for rest in [framed(b'c', b""), framed(b'd', b"3\t\n")[..7].to_vec(), b"d\0".to_vec()] {
            let found = copied(&[&rows[..], &rest].concat(), 2).unwrap();
            assert_eq!((found.size, found.rows), (rows.len(), 2));
            assert_eq!(found.columns[0].bytes(), b"1");
            assert_eq!(found.columns[1].bytes(), b"a\\\n");
        }
    }

    #[test]
    fn what_is_no_row_is_left() {
        for row in [&b"1\n"[..], b"1\t2\t3\n", b"1\t2", b"1\t\xff\n", b"1\n2\n", b"1\t2\\\n", b"\n"] {
            assert!(copied(&framed(b'd', row), 2).is_none());
        }
    }
}
