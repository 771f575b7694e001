//! The compiled core of Calve: strict JSON events into typed Arrow columns, in one pass over each event.
//!
//! It decides nothing that is not certain: an event that is malformed, lacks something, repeats a key or holds a value that
//! does not fit its column is left to the exact converter in Python, which alone gives reasons. Python calls it through
//! ctypes (`calve.compiled`); what crosses is the Arrow C data interface. There are no dependencies.
#![deny(unsafe_code)]

pub mod avro;
pub mod bodies;
pub mod check;
pub mod column;
pub mod convert;
pub mod copy;
pub mod envelope;
pub mod export;
mod ffi;
pub mod hmac;
pub mod infer;
pub mod iso8601;
pub mod kafka;
pub mod keys;
pub mod layout;
pub mod logical_type;
pub mod masks;
pub mod mysql;
pub mod needs_exact;
pub mod object_columns;
pub mod observe;
pub mod otlp;
pub mod parse;
pub mod pgoutput;
pub mod placeholder;
pub mod program;
pub mod protobuf;
pub mod row;
pub mod scalar;
pub mod scan_fields;
pub mod schemas;
pub mod spec;
pub mod text;
pub mod value;
