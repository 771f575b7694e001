//! The points of metrics as rows of one table (opentelemetry/proto/metrics/v1/metrics.proto).

use crate::otlp::fields::{zigzag, Fields};
use crate::otlp::origin::Origin;
use crate::otlp::row::Row;
use crate::otlp::signals::name;
use crate::otlp::value::Attributes;
use crate::parse::Fast;
use crate::protobuf::wire::{FIXED64, LENGTH, VARINT};

/// The columns of points, before those of `ORIGIN` (`calve.sources.otlp.tables` names them).
pub const POINT: &str = "nnttttmttbmldlldddLDildiLiL(dd)(ndlttm)";

const TEMPORALITIES: [&str; 3] = ["Unspecified", "Delta", "Cumulative"];
const MOST: u64 = i64::MAX as u64;

/// The kinds of metrics, by the number of their field.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Gauge = 5,
    Sum = 7,
    Histogram = 9,
    ExponentialHistogram = 10,
    Summary = 11,
}

const KINDS: [(Kind, &str); 5] = [
    (Kind::Gauge, "gauge"),
    (Kind::Sum, "sum"),
    (Kind::Histogram, "histogram"),
    (Kind::ExponentialHistogram, "exponential_histogram"),
    (Kind::Summary, "summary"),
];

/// A metric without its points. What each of its rows has is read once: it may stand behind very many points.
pub struct Metric<'a> {
    name: &'a [u8],
    description: &'a [u8],
    unit: &'a [u8],
    metadata: Attributes,
    kind: (Kind, &'static str),
    data: Fields<'a>,
    temporality: u64,
    is_monotonic: bool,
}

impl<'a> Metric<'a> {
    /// None: it has no data, or data of a kind that is not known here.
    pub fn read(fields: Fields<'a>) -> Fast<Option<Metric<'a>>> {
        let last = fields.last_of(&KINDS.map(|kind| kind.0 as u32), LENGTH);
        let Some(kind) = KINDS.into_iter().find(|kind| Some(kind.0 as u32) == last) else { return Ok(None) };
        let data = fields.message(kind.0 as u32)?;
        Ok(Some(Metric {
            name: fields.text(1)?,
            description: fields.text(2)?,
            unit: fields.text(3)?,
            metadata: Attributes::read(fields.parts(12))?,
            kind,
            temporality: data.number(2, VARINT),
            is_monotonic: data.number(3, VARINT) != 0,
            data,
        }))
    }

    pub fn points(&self) -> impl Iterator<Item = crate::protobuf::wire::Reader<'a>> + '_ {
        self.data.parts(1)
    }

    pub fn size(&self) -> usize {
        self.name.len() + self.description.len() + self.unit.len() + self.metadata.size()
    }

    pub fn row(&self, row: &mut Row, point: &Point, origin: &Origin) -> Fast<()> {
        let kind = self.kind.0;
        let fields = &point.0;
        row.time(fields.number(3, FIXED64))?;
        row.time(fields.number(2, FIXED64))?;
        row.optional_text(origin.service())?;
        row.text(self.name)?;
        row.text(self.description)?;
        row.text(self.unit)?;
        row.map(&self.metadata)?;
        row.text(self.kind.1.as_bytes())?;
        match kind {
            Kind::Gauge | Kind::Summary => row.text(b"")?,
            _ => row.text(name(&TEMPORALITIES, self.temporality).as_bytes())?,
        }
        row.flag((kind == Kind::Sum).then_some(self.is_monotonic))?;
        point.fill(kind, row)
    }
}

/// A point, and the numbers of its fields by what they are.
pub struct Point<'a>(Fields<'a>);

impl<'a> Point<'a> {
    pub fn read(fields: Fields<'a>) -> Point<'a> {
        Point(fields)
    }

    fn fill(&self, kind: Kind, row: &mut Row) -> Fast<()> {
        let fields = &self.0;
        let (attributes, flags, exemplars) = match kind {
            Kind::Gauge | Kind::Sum => (7, 8, 5),
            Kind::Histogram => (9, 10, 8),
            Kind::ExponentialHistogram => (1, 10, 11),
            Kind::Summary => (7, 8, 0),
        };
        row.attributes(fields.parts(attributes))?;
        row.long(Some(fields.count(flags, VARINT)))?;
        let is_number = matches!(kind, Kind::Gauge | Kind::Sum);
        value(row, fields, if is_number { (4, 6) } else { (0, 0) })?;
        let (is_histogram, is_exponential) = (kind == Kind::Histogram, kind == Kind::ExponentialHistogram);
        row.long((!is_number).then(|| fields.number(4, FIXED64) as i64))?;
        row.double(match kind {
            Kind::Gauge | Kind::Sum => None,
            Kind::Summary => Some(fields.double(5).unwrap_or(0.0)),
            _ => fields.double(5),
        })?;
        let (least, greatest) = if is_histogram { (11, 12) } else { (12, 13) };
        row.double(fields.double(least).filter(|_| is_histogram || is_exponential))?;
        row.double(fields.double(greatest).filter(|_| is_histogram || is_exponential))?;
        row.longs(if is_histogram { Some(longs(fields.numbers(6, FIXED64)?)) } else { None })?;
        row.doubles(match is_histogram {
            true => Some(fields.numbers(7, FIXED64)?.into_iter().map(f64::from_bits).collect()),
            false => None,
        })?;
        row.int(is_exponential.then(|| zigzag(fields.number(6, VARINT))))?;
        row.long(is_exponential.then(|| fields.number(7, FIXED64) as i64))?;
        row.double(is_exponential.then(|| fields.double(14).unwrap_or(0.0)))?;
        for buckets in [8, 9] {
            let buckets = if is_exponential { fields.message(buckets)? } else { fields.message(0)? };
            row.int(is_exponential.then(|| zigzag(buckets.number(1, VARINT))))?;
            row.longs(if is_exponential { Some(longs(buckets.numbers(2, VARINT)?)) } else { None })?;
        }
        row.rows(fields.parts(if kind == Kind::Summary { 6 } else { 0 }), |row, quantile| {
            let quantile = Fields::read(quantile)?;
            row.double(Some(quantile.double(1).unwrap_or(0.0)))?;
            row.double(Some(quantile.double(2).unwrap_or(0.0)))
        })?;
        row.rows(fields.parts(exemplars), |row, exemplar| {
            let exemplar = Fields::read(exemplar)?;
            row.time(exemplar.number(2, FIXED64))?;
            value(row, &exemplar, (3, 6))?;
            row.id(exemplar.bytes(5))?;
            row.id(exemplar.bytes(4))?;
            row.attributes(exemplar.parts(7))
        })
    }
}

impl Metric<'_> {
    /// Whether a row can hold a point: its counts fit columns of 64 bits with a sign, and its lists are not too long.
    pub fn holds(&self, point: &Point) -> Fast<bool> {
        let fields = &point.0;
        Ok(match self.kind.0 {
            Kind::Gauge | Kind::Sum => fields.are_few(&[5], &[]),
            Kind::Summary => fields.are_few(&[6], &[]) && fields.number(4, FIXED64) <= MOST,
            Kind::Histogram => {
                fields.are_few(&[8], &[6, 7])
                    && fields.number(4, FIXED64) <= MOST
                    && fields.numbers(6, FIXED64)?.iter().all(|count| *count <= MOST)
            }
            Kind::ExponentialHistogram => {
                let mut counts = vec![fields.number(4, FIXED64), fields.number(7, FIXED64)];
                for buckets in [8, 9] {
                    let buckets = fields.message(buckets)?;
                    if !buckets.are_few(&[], &[2]) {
                        return Ok(false);
                    }
                    counts.extend(buckets.numbers(2, VARINT)?);
                }
                fields.are_few(&[11], &[]) && counts.iter().all(|count| *count <= MOST)
            }
        })
    }
}

/// A number as a double, and as it is if it is whole; `places`: the fields of doubles and of whole numbers.
fn value(row: &mut Row, fields: &Fields, places: (u32, u32)) -> Fast<()> {
    let is_whole = fields.last_of(&[places.0, places.1], FIXED64) == Some(places.1);
    let whole = fields.optional(places.1, FIXED64).filter(|_| is_whole).map(|bits| bits as i64);
    row.double(whole.map_or_else(|| fields.double(places.0), |number| Some(number as f64)))?;
    row.long(whole)
}

fn longs(numbers: Vec<u64>) -> Vec<i64> {
    numbers.into_iter().map(|number| number as i64).collect()
}
