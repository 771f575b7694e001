//! Reads what Python says of a message (`calve.serde.protobuf.core_spec`): its fields, depth first.

use crate::column::{self, Column, Store};
use crate::object_columns::{Names, ObjectColumns};
use crate::protobuf::field::{Bits, Enum, Field, Kind, Missing};
use crate::protobuf::json;
use crate::protobuf::leaf::Leaf;
use crate::protobuf::map::Map;
use crate::protobuf::message::Message;
use crate::spec::Spec;

type Fields = (Message, Vec<Column>);

/// The fields of a message and their columns; None: something is not known here.
pub fn message(spec: &mut Spec) -> Option<Fields> {
    let count: usize = spec.number()?;
    let (mut fields, mut columns) = (vec![], vec![]);
    for _ in 0..count {
        let (field, column) = field(spec)?;
        fields.push(field);
        columns.push(column);
    }
    Some((Message::new(fields)?, columns))
}

fn field(spec: &mut Spec) -> Option<(Field, Column)> {
    let (number, oneof, missing) = (spec.number()?, usize::try_from(spec.number::<i64>()?).ok(), missing(spec)?);
    let (kind, store) = kind(spec)?;
    let column =
        Column { kind: column::Kind::Nested, store, valid: vec![], required: false, may_lack: false, defers: false };
    Some((Field { number, oneof, missing, kind, pieces: vec![] }, column))
}

fn missing(spec: &mut Spec) -> Option<Missing> {
    Some(match spec.text()? {
        "null" => Missing::Null,
        "required" => Missing::Required,
        "empty" => Missing::Empty,
        "number" => Missing::Number(spec.number()?),
        "text" => Missing::Text(hex(spec.text()?)?),
        _ => return None,
    })
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let pairs = (0..text.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

fn kind(spec: &mut Spec) -> Option<(Kind, Store)> {
    let name = spec.text()?;
    if let Some((bits, store)) = number(name) {
        return Some((Kind::Number(bits), store));
    }
    let texts = Store::Bytes(vec![0], vec![]);
    let leaf = |leaf| (Kind::Leaf(leaf), Store::Bytes(vec![0], vec![]));
    Some(match name {
        "string" => (Kind::String, texts),
        "bytes" => (Kind::Bytes, texts),
        "enum" => (Kind::Enum(names(spec)?), texts),
        "timestamp" => (Kind::Leaf(Leaf::Timestamp), Store::Longs(vec![])),
        "timestamp-text" => leaf(Leaf::TimestampText),
        "duration" => leaf(Leaf::Duration),
        "empty" => leaf(Leaf::Empty),
        "json-struct" => leaf(Leaf::Json(json::Kind::Struct)),
        "json-value" => leaf(Leaf::Json(json::Kind::Value)),
        "json-list" => leaf(Leaf::Json(json::Kind::List)),
        "wrapper" => {
            let (inner, column) = field(spec)?;
            (Kind::Wrapper(Box::new(inner)), column.store)
        }
        "struct" => {
            let (message, columns) = message(spec)?;
            let named = columns.into_iter().map(|column| (String::new(), column)).collect();
            (Kind::Message(message), Store::Struct(Box::new(ObjectColumns::new(named, Names::default()))))
        }
        "list" => {
            let (element, column) = field(spec)?;
            (Kind::List(Box::new(element)), Store::List(vec![0], Box::new(column)))
        }
        "map" => {
            let ((key, keys), (value, values)) = (field(spec)?, field(spec)?);
            (Kind::Map(Box::new(Map { key, value })), Store::Map(vec![0], Box::new((keys, values))))
        }
        _ => return None,
    })
}

fn number(name: &str) -> Option<(Bits, Store)> {
    let (ints, longs) = (Store::Ints(vec![]), Store::Longs(vec![]));
    Some(match name {
        "bool" => (Bits::Bool, Store::Bits(vec![])),
        "int32" => (Bits::Varint32, ints),
        "sint32" => (Bits::ZigZag32, ints),
        "sfixed32" => (Bits::SignedFixed32, ints),
        "uint32" => (Bits::Unsigned32, longs),
        "fixed32" => (Bits::Fixed32, longs),
        "int64" => (Bits::Varint64, longs),
        "sint64" => (Bits::ZigZag64, longs),
        "sfixed64" => (Bits::Fixed64, longs),
        "uint64" => (Bits::Varint64, Store::Decimals(vec![])),
        "fixed64" => (Bits::Fixed64, Store::Decimals(vec![])),
        "float" => (Bits::Fixed32, Store::Floats(vec![])),
        "double" => (Bits::Fixed64, Store::Doubles(vec![])),
        _ => return None,
    })
}

fn names(spec: &mut Spec) -> Option<Enum> {
    let is_closed = spec.flag()?;
    let count: usize = spec.number()?;
    let mut names = vec![];
    for _ in 0..count {
        names.push((spec.number()?, spec.text()?.as_bytes().to_vec()));
    }
    names.sort();
    Some(Enum { names, is_closed })
}
