"""The columns of spans, log records and points of metrics (docs/otlp.md); the core fills them in this order.

The names are those of ClickHouse's exporter where it has them, in lower case with underscores. Times have microseconds,
and their last three digits in a column `…_nano`. What a message lacks is null.
"""

from __future__ import annotations

import re

import pyarrow as pa

__all__ = ["TABLES", "column_of"]

_TEXT = pa.large_string()
_ATTRIBUTES = pa.map_(_TEXT, _TEXT)
_LONG, _INT, _DOUBLE = pa.int64(), pa.int32(), pa.float64()
_LONGS, _DOUBLES = pa.large_list(_LONG), pa.large_list(_DOUBLE)


def _time(name: str) -> list[tuple[str, pa.DataType]]:
    return [(name, pa.timestamp("us", "UTC")), (f"{name}_nano", _INT)]


def _rows(*fields: tuple[str, pa.DataType]) -> pa.DataType:
    return pa.large_list(pa.struct(fields))


_ORIGIN = [
    ("resource_attributes", _ATTRIBUTES),
    ("resource_dropped_attributes_count", _LONG),
    ("resource_schema_url", _TEXT),
    ("scope_name", _TEXT),
    ("scope_version", _TEXT),
    ("scope_attributes", _ATTRIBUTES),
    ("scope_dropped_attributes_count", _LONG),
    ("scope_schema_url", _TEXT),
]
_TRACES = [
    *_time("timestamp"),
    *_time("end_timestamp"),
    ("duration_nano", _LONG),
    ("trace_id", _TEXT),
    ("span_id", _TEXT),
    ("parent_span_id", _TEXT),
    ("flags", _LONG),
    ("trace_state", _TEXT),
    ("span_name", _TEXT),
    ("span_kind", _TEXT),
    ("service_name", _TEXT),
    ("status_code", _TEXT),
    ("status_message", _TEXT),
    ("span_attributes", _ATTRIBUTES),
    ("dropped_attributes_count", _LONG),
    (
        "events",
        _rows(*_time("timestamp"), ("name", _TEXT), ("attributes", _ATTRIBUTES), ("dropped_attributes_count", _LONG)),
    ),
    ("dropped_events_count", _LONG),
    (
        "links",
        _rows(
            ("trace_id", _TEXT),
            ("span_id", _TEXT),
            ("trace_state", _TEXT),
            ("flags", _LONG),
            ("attributes", _ATTRIBUTES),
            ("dropped_attributes_count", _LONG),
        ),
    ),
    ("dropped_links_count", _LONG),
]
_LOGS = [
    *_time("timestamp"),
    *_time("observed_timestamp"),
    ("trace_id", _TEXT),
    ("span_id", _TEXT),
    ("flags", _LONG),
    ("severity_text", _TEXT),
    ("severity_number", _INT),
    ("service_name", _TEXT),
    ("event_name", _TEXT),
    ("body", _TEXT),
    ("log_attributes", _ATTRIBUTES),
    ("dropped_attributes_count", _LONG),
]
_METRICS = [
    *_time("timestamp"),
    *_time("start_timestamp"),
    ("service_name", _TEXT),
    ("metric_name", _TEXT),
    ("metric_description", _TEXT),
    ("metric_unit", _TEXT),
    ("metric_metadata", _ATTRIBUTES),
    ("kind", _TEXT),
    ("aggregation_temporality", _TEXT),
    ("is_monotonic", pa.bool_()),
    ("attributes", _ATTRIBUTES),
    ("flags", _LONG),
    ("value", _DOUBLE),
    ("value_int", _LONG),
    ("count", _LONG),
    ("sum", _DOUBLE),
    ("min", _DOUBLE),
    ("max", _DOUBLE),
    ("bucket_counts", _LONGS),
    ("explicit_bounds", _DOUBLES),
    ("scale", _INT),
    ("zero_count", _LONG),
    ("zero_threshold", _DOUBLE),
    ("positive_offset", _INT),
    ("positive_bucket_counts", _LONGS),
    ("negative_offset", _INT),
    ("negative_bucket_counts", _LONGS),
    ("quantiles", _rows(("quantile", _DOUBLE), ("value", _DOUBLE))),
    (
        "exemplars",
        _rows(
            *_time("timestamp"),
            ("value", _DOUBLE),
            ("value_int", _LONG),
            ("trace_id", _TEXT),
            ("span_id", _TEXT),
            ("attributes", _ATTRIBUTES),
        ),
    ),
]
TABLES = {
    "traces": pa.schema([*_TRACES, *_ORIGIN]),
    "logs": pa.schema([*_LOGS, *_ORIGIN]),
    "metrics": pa.schema([*_METRICS, *_ORIGIN]),
}
"""The columns of each signal."""


def column_of(attribute: str) -> str:
    """Return the name of the column of a promoted attribute: `http_route` of `http.route`."""
    return re.sub(r"\W", "_", attribute)
