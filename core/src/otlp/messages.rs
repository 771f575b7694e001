//! The messages of OTLP 1 by the names of their fields in JSON (opentelemetry/proto, "JSON Protobuf Encoding").

use crate::otlp::Signal;
use Form::{Bool, Bytes, Double, Enum, Fixed32, Fixed64, Id, Int64, Sfixed64, Sint32, Text, Uint32, Uint64};

/// What a field holds.
#[derive(Clone, Copy)]
pub enum Form {
    Text,
    Bool,
    /// Bytes as hexadecimal digits, and as Base64.
    Id,
    Bytes,
    Int64,
    Uint64,
    Uint32,
    Sint32,
    /// A number, or one of these names behind this prefix; their place is their number.
    Enum(&'static str, &'static [&'static str]),
    Fixed32,
    Fixed64,
    Sfixed64,
    Double,
    Message(&'static Message),
}

/// A field: its name, its number, what it holds, and whether it is a list of that.
pub struct Field(pub &'static str, pub u32, pub Form, pub bool);

pub struct Message(&'static [Field]);

impl Message {
    /// The message of a request.
    pub fn of(signal: Signal) -> &'static Message {
        match signal {
            Signal::Traces => &TRACES,
            Signal::Logs => &LOGS,
            Signal::Metrics => &METRICS,
        }
    }

    /// The field of a name in JSON, or in Protobuf.
    pub fn field(&self, name: &[u8]) -> Option<&'static Field> {
        let fields = self.0;
        fields
            .iter()
            .find(|field| field.0.as_bytes() == name)
            .or_else(|| fields.iter().find(|field| is_snake(field.0, name)))
    }
}

/// Whether a name is `some_name` of `someName`.
fn is_snake(camel: &str, name: &[u8]) -> bool {
    let mut name = name.iter().copied();
    let is_same = camel.bytes().all(|byte| match byte.is_ascii_uppercase() {
        true => name.next() == Some(b'_') && name.next() == Some(byte.to_ascii_lowercase()),
        false => name.next() == Some(byte),
    });
    is_same && name.next().is_none()
}

const SPAN_KIND: Form = Enum("SPAN_KIND_", &["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"]);
const STATUS_CODE: Form = Enum("STATUS_CODE_", &["UNSET", "OK", "ERROR"]);
const TEMPORALITY: Form = Enum("AGGREGATION_TEMPORALITY_", &["UNSPECIFIED", "DELTA", "CUMULATIVE"]);
const SEVERITY: Form = Enum(
    "SEVERITY_NUMBER_",
    &[
        "UNSPECIFIED",
        "TRACE",
        "TRACE2",
        "TRACE3",
        "TRACE4",
        "DEBUG",
        "DEBUG2",
        "DEBUG3",
        "DEBUG4",
        "INFO",
        "INFO2",
        "INFO3",
        "INFO4",
        "WARN",
        "WARN2",
        "WARN3",
        "WARN4",
        "ERROR",
        "ERROR2",
        "ERROR3",
        "ERROR4",
        "FATAL",
        "FATAL2",
        "FATAL3",
        "FATAL4",
    ],
);

const fn one(name: &'static str, number: u32, form: Form) -> Field {
    Field(name, number, form, false)
}

const fn list(name: &'static str, number: u32, form: Form) -> Field {
    Field(name, number, form, true)
}

const fn part(name: &'static str, number: u32, message: &'static Message) -> Field {
    one(name, number, Form::Message(message))
}

const fn parts(name: &'static str, number: u32, message: &'static Message) -> Field {
    list(name, number, Form::Message(message))
}

static TRACES: Message = Message(&[parts("resourceSpans", 1, &RESOURCE_SPANS)]);
static RESOURCE_SPANS: Message =
    Message(&[part("resource", 1, &RESOURCE), parts("scopeSpans", 2, &SCOPE_SPANS), one("schemaUrl", 3, Text)]);
static SCOPE_SPANS: Message = Message(&[part("scope", 1, &SCOPE), parts("spans", 2, &SPAN), one("schemaUrl", 3, Text)]);
static LOGS: Message = Message(&[parts("resourceLogs", 1, &RESOURCE_LOGS)]);
static RESOURCE_LOGS: Message =
    Message(&[part("resource", 1, &RESOURCE), parts("scopeLogs", 2, &SCOPE_LOGS), one("schemaUrl", 3, Text)]);
static SCOPE_LOGS: Message =
    Message(&[part("scope", 1, &SCOPE), parts("logRecords", 2, &LOG_RECORD), one("schemaUrl", 3, Text)]);
static METRICS: Message = Message(&[parts("resourceMetrics", 1, &RESOURCE_METRICS)]);
static RESOURCE_METRICS: Message =
    Message(&[part("resource", 1, &RESOURCE), parts("scopeMetrics", 2, &SCOPE_METRICS), one("schemaUrl", 3, Text)]);
static SCOPE_METRICS: Message =
    Message(&[part("scope", 1, &SCOPE), parts("metrics", 2, &METRIC), one("schemaUrl", 3, Text)]);
static RESOURCE: Message = Message(&[parts("attributes", 1, &KEY_VALUE), one("droppedAttributesCount", 2, Uint32)]);
static SCOPE: Message = Message(&[
    one("name", 1, Text),
    one("version", 2, Text),
    parts("attributes", 3, &KEY_VALUE),
    one("droppedAttributesCount", 4, Uint32),
]);
static KEY_VALUE: Message = Message(&[one("key", 1, Text), part("value", 2, &ANY_VALUE)]);
static ANY_VALUE: Message = Message(&[
    one("stringValue", 1, Text),
    one("boolValue", 2, Bool),
    one("intValue", 3, Int64),
    one("doubleValue", 4, Double),
    part("arrayValue", 5, &ARRAY_VALUE),
    part("kvlistValue", 6, &KEY_VALUE_LIST),
    one("bytesValue", 7, Bytes),
]);
static ARRAY_VALUE: Message = Message(&[parts("values", 1, &ANY_VALUE)]);
static KEY_VALUE_LIST: Message = Message(&[parts("values", 1, &KEY_VALUE)]);
static SPAN: Message = Message(&[
    one("traceId", 1, Id),
    one("spanId", 2, Id),
    one("traceState", 3, Text),
    one("parentSpanId", 4, Id),
    one("flags", 16, Fixed32),
    one("name", 5, Text),
    one("kind", 6, SPAN_KIND),
    one("startTimeUnixNano", 7, Fixed64),
    one("endTimeUnixNano", 8, Fixed64),
    parts("attributes", 9, &KEY_VALUE),
    one("droppedAttributesCount", 10, Uint32),
    parts("events", 11, &EVENT),
    one("droppedEventsCount", 12, Uint32),
    parts("links", 13, &LINK),
    one("droppedLinksCount", 14, Uint32),
    part("status", 15, &STATUS),
]);
static EVENT: Message = Message(&[
    one("timeUnixNano", 1, Fixed64),
    one("name", 2, Text),
    parts("attributes", 3, &KEY_VALUE),
    one("droppedAttributesCount", 4, Uint32),
]);
static LINK: Message = Message(&[
    one("traceId", 1, Id),
    one("spanId", 2, Id),
    one("traceState", 3, Text),
    parts("attributes", 4, &KEY_VALUE),
    one("droppedAttributesCount", 5, Uint32),
    one("flags", 6, Fixed32),
]);
static STATUS: Message = Message(&[one("message", 2, Text), one("code", 3, STATUS_CODE)]);
static LOG_RECORD: Message = Message(&[
    one("timeUnixNano", 1, Fixed64),
    one("observedTimeUnixNano", 11, Fixed64),
    one("severityNumber", 2, SEVERITY),
    one("severityText", 3, Text),
    part("body", 5, &ANY_VALUE),
    parts("attributes", 6, &KEY_VALUE),
    one("droppedAttributesCount", 7, Uint32),
    one("flags", 8, Fixed32),
    one("traceId", 9, Id),
    one("spanId", 10, Id),
    one("eventName", 12, Text),
]);
static METRIC: Message = Message(&[
    one("name", 1, Text),
    one("description", 2, Text),
    one("unit", 3, Text),
    part("gauge", 5, &GAUGE),
    part("sum", 7, &SUM),
    part("histogram", 9, &HISTOGRAM),
    part("exponentialHistogram", 10, &EXPONENTIAL_HISTOGRAM),
    part("summary", 11, &SUMMARY),
    parts("metadata", 12, &KEY_VALUE),
]);
static GAUGE: Message = Message(&[parts("dataPoints", 1, &NUMBER_POINT)]);
static SUM: Message = Message(&[
    parts("dataPoints", 1, &NUMBER_POINT),
    one("aggregationTemporality", 2, TEMPORALITY),
    one("isMonotonic", 3, Bool),
]);
static HISTOGRAM: Message =
    Message(&[parts("dataPoints", 1, &HISTOGRAM_POINT), one("aggregationTemporality", 2, TEMPORALITY)]);
static EXPONENTIAL_HISTOGRAM: Message =
    Message(&[parts("dataPoints", 1, &EXPONENTIAL_POINT), one("aggregationTemporality", 2, TEMPORALITY)]);
static SUMMARY: Message = Message(&[parts("dataPoints", 1, &SUMMARY_POINT)]);
static NUMBER_POINT: Message = Message(&[
    parts("attributes", 7, &KEY_VALUE),
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("asDouble", 4, Double),
    one("asInt", 6, Sfixed64),
    parts("exemplars", 5, &EXEMPLAR),
    one("flags", 8, Uint32),
]);
static HISTOGRAM_POINT: Message = Message(&[
    parts("attributes", 9, &KEY_VALUE),
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("count", 4, Fixed64),
    one("sum", 5, Double),
    list("bucketCounts", 6, Fixed64),
    list("explicitBounds", 7, Double),
    parts("exemplars", 8, &EXEMPLAR),
    one("flags", 10, Uint32),
    one("min", 11, Double),
    one("max", 12, Double),
]);
static EXPONENTIAL_POINT: Message = Message(&[
    parts("attributes", 1, &KEY_VALUE),
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("count", 4, Fixed64),
    one("sum", 5, Double),
    one("scale", 6, Sint32),
    one("zeroCount", 7, Fixed64),
    part("positive", 8, &BUCKETS),
    part("negative", 9, &BUCKETS),
    one("flags", 10, Uint32),
    parts("exemplars", 11, &EXEMPLAR),
    one("min", 12, Double),
    one("max", 13, Double),
    one("zeroThreshold", 14, Double),
]);
static BUCKETS: Message = Message(&[one("offset", 1, Sint32), list("bucketCounts", 2, Uint64)]);
static SUMMARY_POINT: Message = Message(&[
    parts("attributes", 7, &KEY_VALUE),
    one("startTimeUnixNano", 2, Fixed64),
    one("timeUnixNano", 3, Fixed64),
    one("count", 4, Fixed64),
    one("sum", 5, Double),
    parts("quantileValues", 6, &QUANTILE),
    one("flags", 8, Uint32),
]);
static QUANTILE: Message = Message(&[one("quantile", 1, Double), one("value", 2, Double)]);
static EXEMPLAR: Message = Message(&[
    parts("filteredAttributes", 7, &KEY_VALUE),
    one("timeUnixNano", 2, Fixed64),
    one("asDouble", 3, Double),
    one("asInt", 6, Sfixed64),
    one("spanId", 4, Id),
    one("traceId", 5, Id),
]);
