//! Requests of OpenTelemetry's protocol (OTLP 1) as rows: a row for each span, log record and point of a metric.
//!
//! The bodies of requests may be joined: two messages after each other are one with the parts of both. A request is checked
//! when it arrives by the very function that decodes it later.

pub mod fields;
pub mod metrics;
pub mod row;
pub mod signals;
pub mod value;

use crate::column::Column;
use crate::otlp::fields::Fields;
use crate::otlp::metrics::{Metric, Point};
use crate::otlp::row::{columns, Row};
use crate::otlp::value::Attributes;
use crate::parse::Fast;
use crate::protobuf::wire::{Reader, VARINT};

/// The columns of what a row comes from, which are the last of each table.
const ORIGIN: &str = "mltttmlt";
/// A check keeps so many rows at most.
const CHECKED_ROWS: usize = 4096;

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
    /// Whether the rows are kept, or only checked.
    pub keeps: bool,
}

/// What has sent a record: the resource and the scope.
#[derive(Default)]
pub struct Origin<'a> {
    resource: Attributes,
    resource_dropped: i64,
    resource_url: &'a [u8],
    name: &'a [u8],
    version: &'a [u8],
    scope: Attributes,
    scope_dropped: i64,
    scope_url: &'a [u8],
}

impl<'a> Origin<'a> {
    fn set_resource(&mut self, fields: &Fields<'a>) -> Fast<()> {
        let resource = fields.message(1)?;
        self.resource = Attributes::read(resource.parts(1))?;
        self.resource_dropped = resource.count(2, VARINT);
        self.resource_url = fields.text(3)?;
        Ok(())
    }

    fn set_scope(&mut self, fields: &Fields<'a>) -> Fast<()> {
        let scope = fields.message(1)?;
        (self.name, self.version) = (scope.text(1)?, scope.text(2)?);
        self.scope = Attributes::read(scope.parts(3))?;
        self.scope_dropped = scope.count(4, VARINT);
        self.scope_url = fields.text(3)?;
        Ok(())
    }

    fn size(&self) -> usize {
        let texts = [self.resource_url, self.name, self.version, self.scope_url];
        self.resource.size() + self.scope.size() + texts.iter().map(|text| text.len()).sum::<usize>()
    }

    pub fn service(&self) -> Option<&[u8]> {
        self.resource.get(b"service.name")
    }

    fn fill(&self, row: &mut Row) -> Fast<()> {
        row.map(&self.resource)?;
        row.long(Some(self.resource_dropped))?;
        row.text(self.resource_url)?;
        row.text(self.name)?;
        row.text(self.version)?;
        row.map(&self.scope)?;
        row.long(Some(self.scope_dropped))?;
        row.text(self.scope_url)
    }
}

/// The rows of a part of a request.
pub struct Decoder {
    signal: Signal,
    part: Part,
    pub columns: Vec<Column>,
    /// The rows in the columns; and all.
    pub kept: usize,
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
        Decoder { signal, part, columns, kept: 0, rows: 0, records: 0, refused: 0, bytes: 0, is_cut: false }
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
        let (fields, mut row) = (Fields::read(record)?, Row::new(&mut self.columns));
        match self.signal {
            Signal::Traces => signals::span(&mut row, &fields, origin)?,
            _ => signals::log(&mut row, &fields, origin)?,
        }
        origin.fill(&mut row)?;
        self.end();
        Ok(())
    }

    fn read_metric(&mut self, record: Reader, origin: &Origin) -> Fast<()> {
        let Some(metric) = Metric::read(Fields::read(record)?)? else { return Ok(()) };
        let size = metric.size()? + origin.size();
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
            let mut row = Row::new(&mut self.columns);
            metric.row(&mut row, &point, origin)?;
            origin.fill(&mut row)?;
            self.end();
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

    fn end(&mut self) {
        self.rows += 1;
        self.kept += 1;
        if !self.part.keeps && self.kept == CHECKED_ROWS {
            self.columns.iter_mut().for_each(|column| column.truncate(0));
            self.kept = 0;
        }
    }
}
