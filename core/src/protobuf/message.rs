//! The fields of a message and the columns for them; a row is open until the message that it is in ends.

use crate::column::Column;
use crate::parse::Fast;
use crate::protobuf::field::Field;
use crate::protobuf::wire::Reader;
use std::collections::HashMap;

/// Fields with smaller numbers are found without a search.
const DIRECT: u32 = 256;
const NONE: u16 = u16::MAX;

pub struct Message {
    fields: Vec<Field>,
    direct: Vec<u16>,
    others: HashMap<u32, usize>,
    /// The fields of each oneof.
    oneofs: Vec<Vec<usize>>,
}

impl Message {
    /// None: there are too many fields.
    pub fn new(fields: Vec<Field>) -> Option<Message> {
        let (mut direct, mut others, mut oneofs) = (vec![], HashMap::new(), vec![]);
        for (at, field) in fields.iter().enumerate() {
            if field.number < DIRECT {
                let number = field.number as usize;
                direct.resize(direct.len().max(number + 1), NONE);
                direct[number] = u16::try_from(at).ok().filter(|&at| at != NONE)?;
            } else {
                others.insert(field.number, at);
            }
            if let Some(group) = field.oneof {
                oneofs.resize(oneofs.len().max(group + 1), vec![]);
                oneofs[group].push(at);
            }
        }
        Some(Message { fields, direct, others, oneofs })
    }

    #[inline(always)]
    fn find(&self, number: u32) -> Option<usize> {
        match self.direct.get(number as usize) {
            Some(&NONE) => None,
            Some(&at) => Some(at.into()),
            None => self.others.get(&number).copied(),
        }
    }

    /// Reads fields into the open row, which may have values: the last scalar counts, messages are joined.
    #[inline(always)]
    pub fn read(&mut self, columns: &mut [Column], row: usize, mut reader: Reader) -> Fast<()> {
        while reader.has_more() {
            let (number, wire) = reader.tag()?;
            let Some(at) = self.find(number) else {
                reader.skip(number, wire)?;
                continue;
            };
            let field = &mut self.fields[at];
            let is_set = field.read(&mut columns[at], row, wire, &mut reader)?;
            if let (Some(group), true) = (field.oneof, is_set) {
                for &other in &self.oneofs[group] {
                    if other != at && columns[other].valid.len() > row {
                        columns[other].truncate(row);
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends a row: fields that are missing have what their type says.
    pub fn close(&mut self, columns: &mut [Column], row: usize, whole: &Reader) -> Fast<()> {
        for (field, column) in self.fields.iter_mut().zip(columns) {
            field.close(column, row, whole)?;
        }
        Ok(())
    }
}
