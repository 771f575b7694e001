//! Requests of OpenTelemetry's protocol (OTLP 1) as rows: a row for each span, log record and point of a metric.
//!
//! The bodies of requests may be joined: two messages after each other are one with the parts of both. A request is checked
//! when it arrives by the very function that decodes it later.

pub mod fields;
pub mod json;
pub mod messages;
pub mod metrics;
pub mod origin;
pub mod row;
pub mod signals;
pub mod value;

use crate::column::Column;
use crate::otlp::fields::Fields;
use crate::otlp::metrics::{Metric, Point};
use crate::otlp::origin::{Origin, ORIGIN};
use crate::otlp::row::{columns, Row};
use crate::parse::Fast;
use crate::protobuf::wire::Reader;

#[derive(Clone, Copy, PartialEq)]
pub enum Signal {
    Traces,
    Logs,
    Metrics,
}

/// What is read of a request.
#[derive(Clone, Copy)]
pub struct Part {
    /// The records that are passed over.
    pub start: usize,
    /// It ends when it has so many rows, or about so many bytes.
    pub rows: usize,
    pub bytes: usize,
}

/// The rows of a part of a request.
pub struct Decoder {
    signal: Signal,
    part: Part,
    /// None: rows are checked, and not kept.
    pub columns: Option<Vec<Column>>,
    pub rows: usize,
    /// The records that were met, those before the part among them.
    pub records: usize,
    /// The records that no row can hold.
    pub refused: usize,
    bytes: usize,
    /// Whether it ended before the request did.
    pub is_cut: bool,
}

impl Decoder {
    pub fn new(signal: Signal, part: Part) -> Decoder {
        let own = match signal {
            Signal::Traces => signals::SPAN,
            Signal::Logs => signals::LOG,
            Signal::Metrics => metrics::POINT,
        };
        let columns = columns(&mut format!("{own}{ORIGIN}").chars());
        Decoder { columns: Some(columns), ..Decoder::checking(signal, part) }
    }

    /// One that keeps no rows.
    pub fn checking(signal: Signal, part: Part) -> Decoder {
        Decoder { signal, part, columns: None, rows: 0, records: 0, refused: 0, bytes: 0, is_cut: false }
    }

    /// Reads a request; a failure: it is not valid.
    pub fn read(&mut self, request: &[u8]) -> Fast<()> {
        let mut origin = Origin::default();
        for resource in Fields::read(Reader::new(request))?.parts(1) {
            let resource = Fields::read(resource)?;
            origin.set_resource(&resource)?;
            for scope in resource.parts(2) {
                let scope = Fields::read(scope)?;
                origin.set_scope(&scope)?;
                for record in scope.parts(2) {
                    self.read_record(record, &origin)?;
                    if self.is_cut {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn read_record(&mut self, record: Reader, origin: &Origin) -> Fast<()> {
        if self.signal == Signal::Metrics {
            return self.read_metric(record, origin);
        }
        if !self.begins(record.rest().len() + origin.size()) {
            return Ok(());
        }
        let fields = Fields::read(record)?;
        if self.signal == Signal::Traces && !signals::holds(&fields) {
            self.refused += 1;
            return Ok(());
        }
        let mut row = Row::new(self.columns.as_deref_mut());
        match self.signal {
            Signal::Traces => signals::span(&mut row, &fields, origin)?,
            _ => signals::log(&mut row, &fields, origin)?,
        }
        origin.fill(&mut row)?;
        self.rows += 1;
        Ok(())
    }

    fn read_metric(&mut self, record: Reader, origin: &Origin) -> Fast<()> {
        let Some(metric) = Metric::read(Fields::read(record)?)? else { return Ok(()) };
        let size = metric.size() + origin.size();
        for point in metric.points() {
            if !self.begins(point.rest().len() + size) {
                if self.is_cut {
                    break;
                }
                continue;
            }
            let point = Point::read(Fields::read(point)?);
            if !metric.holds(&point)? {
                self.refused += 1;
                continue;
            }
            let mut row = Row::new(self.columns.as_deref_mut());
            metric.row(&mut row, &point, origin)?;
            origin.fill(&mut row)?;
            self.rows += 1;
        }
        Ok(())
    }

    /// Whether the next record is of the part.
    fn begins(&mut self, bytes: usize) -> bool {
        if self.records < self.part.start {
            self.records += 1;
            return false;
        }
        self.is_cut = self.rows > 0 && (self.rows == self.part.rows || self.bytes + bytes > self.part.bytes);
        if !self.is_cut {
            self.records += 1;
            self.bytes += bytes;
        }
        !self.is_cut
    }
}
