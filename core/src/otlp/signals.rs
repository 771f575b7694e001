//! Spans and log records as rows (opentelemetry/proto/trace/v1/trace.proto, opentelemetry/proto/logs/v1/logs.proto).

use crate::otlp::fields::Fields;
use crate::otlp::origin::Origin;
use crate::otlp::row::Row;
use crate::parse::Fast;
use crate::protobuf::wire::{FIXED32, FIXED64, VARINT};
use std::borrow::Cow;

/// The columns of spans, before those of `ORIGIN` (`calve.sources.otlp.tables` names them).
pub const SPAN: &str = "nnltttlttttttml(ntml)l(tttlml)l";
pub const LOG: &str = "nnttltitttml";

const KINDS: [&str; 6] = ["Unspecified", "Internal", "Server", "Client", "Producer", "Consumer"];
const STATUSES: [&str; 3] = ["Unset", "Ok", "Error"];

/// The name of a value of an enum, or its number.
pub fn name(names: &[&'static str], bits: u64) -> Cow<'static, str> {
    let number = bits as u32 as i32;
    let name = usize::try_from(number).ok().and_then(|at| names.get(at));
    name.map_or_else(|| number.to_string().into(), |name| Cow::from(*name))
}

/// Whether a row can hold a span: it has not too many events and links.
pub fn holds(span: &Fields) -> bool {
    span.are_few(&[11, 13], &[])
}

pub fn span(row: &mut Row, span: &Fields, origin: &Origin) -> Fast<()> {
    let (start, end, status) = (span.number(7, FIXED64), span.number(8, FIXED64), span.message(15)?);
    row.time(start)?;
    row.time(end)?;
    let duration = i64::try_from(i128::from(end) - i128::from(start)).ok();
    row.long(duration.filter(|_| start != 0 && end != 0))?;
    row.id(span.bytes(1))?;
    row.id(span.bytes(2))?;
    row.id(span.bytes(4))?;
    row.long(Some(span.count(16, FIXED32)))?;
    row.text(span.text(3)?)?;
    row.text(span.text(5)?)?;
    row.text(name(&KINDS, span.number(6, VARINT)).as_bytes())?;
    row.optional_text(origin.service())?;
    row.text(name(&STATUSES, status.number(3, VARINT)).as_bytes())?;
    row.text(status.text(2)?)?;
    row.attributes(span.parts(9))?;
    row.long(Some(span.count(10, VARINT)))?;
    row.rows(span.parts(11), |row, event| {
        let event = Fields::read(event)?;
        row.time(event.number(1, FIXED64))?;
        row.text(event.text(2)?)?;
        row.attributes(event.parts(3))?;
        row.long(Some(event.count(4, VARINT)))
    })?;
    row.long(Some(span.count(12, VARINT)))?;
    row.rows(span.parts(13), |row, link| {
        let link = Fields::read(link)?;
        row.id(link.bytes(1))?;
        row.id(link.bytes(2))?;
        row.text(link.text(3)?)?;
        row.long(Some(link.count(6, FIXED32)))?;
        row.attributes(link.parts(4))?;
        row.long(Some(link.count(5, VARINT)))
    })?;
    row.long(Some(span.count(14, VARINT)))
}

pub fn log(row: &mut Row, log: &Fields, origin: &Origin) -> Fast<()> {
    let (time, observed) = (log.number(1, FIXED64), log.number(11, FIXED64));
    row.time(if time == 0 { observed } else { time })?;
    row.time(observed)?;
    row.id(log.bytes(9))?;
    row.id(log.bytes(10))?;
    row.long(Some(log.count(8, FIXED32)))?;
    row.text(log.text(3)?)?;
    row.int(Some(log.number(2, VARINT) as i32))?;
    row.optional_text(origin.service())?;
    row.text(log.text(12)?)?;
    row.value(log.part(5))?;
    row.attributes(log.parts(6))?;
    row.long(Some(log.count(7, VARINT)))
}
