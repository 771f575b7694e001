"""Requests with values of every kind, and the rows that they are, computed from the messages by OpenTelemetry's own package."""

from __future__ import annotations

import base64
import json
import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Exemplar, Metric
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

REQUESTS = {
    "traces": ExportTraceServiceRequest,
    "logs": ExportLogsServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}
_PARTS = {
    "traces": ("resource_spans", "scope_spans", "spans"),
    "logs": ("resource_logs", "scope_logs", "log_records"),
    "metrics": ("resource_metrics", "scope_metrics", "metrics"),
}
_TIMES = (0, 1, 999, 1_700_000_000_123_456_789, 2**63, 2**64 - 1)
_COUNTS = (0, 1, 2**53 + 1, 2**63 - 1)
_DOUBLES = (0.0, -0.0, 1.0, 0.1, 1e300, 5e-324, 123456789.125)
_ODD_DOUBLES = (*_DOUBLES, math.inf, -math.inf, math.nan)
_TEXTS = ("", "a", 'say "ü"\n\t\\', "\0\x1f", "😀" * 20)
_IDS = (b"", b"\0" * 16, bytes(range(16)), b"\xff" * 8, b"\1", bytes(range(40)))


def request_of(signal: str, seed: int, records: int = 12) -> Any:
    """Make a request of a signal by a number."""
    rng = random.Random(seed)
    request, (resources, scopes, places) = REQUESTS[signal](), _PARTS[signal]
    for _ in range(rng.randint(1, 3)):
        resource = getattr(request, resources).add(schema_url=rng.choice(_TEXTS))
        resource.resource.CopyFrom(
            Resource(attributes=_attributes(rng), dropped_attributes_count=rng.choice((0, 2**32 - 1)))
        )
        if rng.random() < 0.7:
            resource.resource.attributes.append(KeyValue(key="service.name", value=AnyValue(string_value="shop")))
        for _ in range(rng.randint(0, 2)):
            scope = getattr(resource, scopes).add(schema_url=rng.choice(_TEXTS))
            if rng.random() < 0.8:
                name, version = rng.choice(_TEXTS), rng.choice(_TEXTS)
                scope.scope.CopyFrom(InstrumentationScope(name=name, version=version, attributes=_attributes(rng)))
            made = [_RECORDS[signal](rng) for _ in range(rng.randint(0, records))]
            getattr(scope, places).extend(made)
    return request


def as_json(request: Any) -> bytes:
    """Return a request as OTLP's JSON."""
    return json.dumps(_with_hex(json_format.MessageToDict(request, use_integers_for_enums=True))).encode()


def rows_of(signal: str, request: Any) -> list[dict[str, Any]]:
    """Return the rows of a request; texts of doubles in them are those of `repr`."""
    resources, scopes, places = _PARTS[signal]
    rows = []
    for resource in getattr(request, resources):
        attributes = _map(resource.resource.attributes)
        for scope in getattr(resource, scopes):
            origin = {
                "resource_attributes": attributes,
                "resource_dropped_attributes_count": resource.resource.dropped_attributes_count,
                "resource_schema_url": resource.schema_url or None,
                "scope_name": scope.scope.name or None,
                "scope_version": scope.scope.version or None,
                "scope_attributes": _map(scope.scope.attributes),
                "scope_dropped_attributes_count": scope.scope.dropped_attributes_count,
                "scope_schema_url": scope.schema_url or None,
                "service_name": dict(attributes).get("service.name"),
            }
            for record in getattr(scope, places):
                rows += [{**row, **origin} for row in _ROWS[signal](record)]
    return rows


def comparable(value: Any) -> Any:
    """Return a value in which NaN equals NaN, -0.0 is not 0.0, and pairs of maps are lists."""
    if isinstance(value, dict):
        return {name: comparable(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(part) for part in value]
    return repr(value) if isinstance(value, float) else value


def _value(rng: random.Random, depth: int = 0) -> AnyValue:
    value = AnyValue()
    kind = rng.randrange(8 if depth < 3 else 6)
    if kind == 0:
        value.string_value = rng.choice(_TEXTS)
    elif kind == 1:
        value.bool_value = rng.random() < 0.5
    elif kind == 2:
        value.int_value = rng.choice((0, -1, 2**63 - 1, -(2**63)))
    elif kind == 3:
        value.double_value = rng.choice(_ODD_DOUBLES)
    elif kind == 4:
        value.bytes_value = rng.randbytes(rng.randrange(5))
    elif kind == 6:
        value.array_value.values.extend(_value(rng, depth + 1) for _ in range(rng.randrange(4)))
        value.array_value.SetInParent()
    elif kind == 7:
        value.kvlist_value.values.extend(_attributes(rng, depth + 1))
        value.kvlist_value.SetInParent()
    return value


def _attributes(rng: random.Random, depth: int = 0) -> list[KeyValue]:
    """Return attributes; some keys are repeated, sometimes there are many."""
    count = rng.choice((0, 1, 3, 3, 40)) if depth == 0 else rng.randrange(4)
    return [KeyValue(key=f"k{rng.randrange(30)}", value=_value(rng, depth)) for _ in range(count)]


def _span(rng: random.Random) -> Span:
    span = Span(
        trace_id=rng.choice(_IDS), span_id=rng.choice(_IDS), parent_span_id=rng.choice(_IDS), flags=rng.choice((0, 2**32 - 1)),
        trace_state=rng.choice(_TEXTS), name=rng.choice(_TEXTS), kind=rng.choice((0, 1, 2, 3, 4, 5)),
        start_time_unix_nano=rng.choice(_TIMES), end_time_unix_nano=rng.choice(_TIMES), attributes=_attributes(rng),
        dropped_attributes_count=rng.choice((0, 7)), dropped_events_count=rng.choice((0, 8)), dropped_links_count=9,
    )  # fmt: skip
    for _ in range(rng.randrange(3)):
        span.events.add(time_unix_nano=rng.choice(_TIMES), name=rng.choice(_TEXTS), attributes=_attributes(rng))
        span.links.add(trace_id=rng.choice(_IDS), span_id=rng.choice(_IDS), attributes=_attributes(rng), flags=3)
    if rng.random() < 0.5:
        span.status.code, span.status.message = rng.randrange(3), rng.choice(_TEXTS)
    return span


def _log(rng: random.Random) -> LogRecord:
    record = LogRecord(
        time_unix_nano=rng.choice(_TIMES), observed_time_unix_nano=rng.choice(_TIMES), severity_number=rng.randrange(25),
        severity_text=rng.choice(_TEXTS), attributes=_attributes(rng), dropped_attributes_count=2, flags=1,
        trace_id=rng.choice(_IDS), span_id=rng.choice(_IDS), event_name=rng.choice(_TEXTS),
    )  # fmt: skip
    if rng.random() < 0.9:
        record.body.CopyFrom(_value(rng))
    return record


def _metric(rng: random.Random) -> Metric:
    metric = Metric(name=rng.choice(_TEXTS), description=rng.choice(_TEXTS), unit="By", metadata=_attributes(rng))
    kind = rng.choice(("gauge", "sum", "histogram", "exponential_histogram", "summary", ""))
    if not kind:
        return metric
    data = getattr(metric, kind)
    data.SetInParent()
    if kind == "sum":
        data.is_monotonic = rng.random() < 0.5
    if kind not in ("gauge", "summary"):
        data.aggregation_temporality = rng.randrange(3)
    for _ in range(rng.randrange(4)):
        point = data.data_points.add(
            attributes=_attributes(rng),
            start_time_unix_nano=rng.choice(_TIMES),
            time_unix_nano=rng.choice(_TIMES),
            flags=1,
        )
        _FILL[kind](rng, point)
        if kind != "summary":
            point.exemplars.extend(_exemplar(rng) for _ in range(rng.randrange(3)))
    return metric


def _number(rng: random.Random, point: Any) -> None:
    if rng.random() < 0.5:
        point.as_int = rng.choice((0, -5, 2**63 - 1))
    elif rng.random() < 0.9:
        point.as_double = rng.choice(_ODD_DOUBLES)


def _histogram(rng: random.Random, point: Any) -> None:
    point.count = rng.choice(_COUNTS)
    point.bucket_counts.extend(rng.choice(_COUNTS) for _ in range(rng.randrange(4)))
    point.explicit_bounds.extend(rng.choice(_ODD_DOUBLES) for _ in range(rng.randrange(4)))
    if rng.random() < 0.5:
        point.sum, point.min, point.max = (rng.choice(_ODD_DOUBLES) for _ in range(3))


def _exponential(rng: random.Random, point: Any) -> None:
    point.count, point.zero_count, point.scale = rng.choice(_COUNTS), rng.choice(_COUNTS), rng.choice((0, -3, 20))
    point.zero_threshold = rng.choice(_DOUBLES)
    point.positive.offset = rng.choice((0, -(2**31), 2**31 - 1))
    point.positive.bucket_counts.extend(rng.choice(_COUNTS) for _ in range(rng.randrange(4)))
    if rng.random() < 0.5:
        point.negative.bucket_counts.extend((1, 300))
        point.sum, point.min, point.max = 1.0, 0.0, -2.5


def _summary(rng: random.Random, point: Any) -> None:
    point.count, point.sum = rng.choice(_COUNTS), rng.choice(_ODD_DOUBLES)
    for _ in range(rng.randrange(3)):
        point.quantile_values.add(quantile=rng.choice((0.0, 0.5, 1.0)), value=rng.choice(_ODD_DOUBLES))


def _exemplar(rng: random.Random) -> Exemplar:
    exemplar = Exemplar(time_unix_nano=rng.choice(_TIMES), trace_id=rng.choice(_IDS), span_id=rng.choice(_IDS))
    exemplar.filtered_attributes.extend(_attributes(rng))
    _number(rng, exemplar)
    return exemplar


_FILL = {
    "gauge": _number, "sum": _number, "histogram": _histogram, "exponential_histogram": _exponential, "summary": _summary,
}  # fmt: skip
_RECORDS = {"traces": _span, "logs": _log, "metrics": _metric}


def _with_hex(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_hex(part) for part in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {name: base64.b64decode(part).hex() if name in ids else _with_hex(part) for name, part in value.items()}


def _double(number: float) -> str:
    """Return a double as the core writes it."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    mantissa, _, exponent = repr(number).partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def _any(value: AnyValue) -> str | None:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "string_value":
        return value.string_value
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    if kind == "double_value":
        return _double(value.double_value)
    return _json(value)


def _json(value: AnyValue) -> str:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return f"[{','.join(map(_json, value.array_value.values))}]"
    if kind == "kvlist_value":
        pairs = _last(value.kvlist_value.values)
        return f"{{{','.join(f'{json.dumps(pair.key)}:{_json(pair.value)}' for pair in pairs)}}}"
    if kind == "double_value" and math.isfinite(value.double_value):
        return _double(value.double_value)
    plain = {None: None, "bool_value": value.bool_value, "int_value": value.int_value}
    return json.dumps(plain[kind] if kind in plain else _any(value), ensure_ascii=False)


def _last(pairs: Any) -> list[KeyValue]:
    at = {pair.key: number for number, pair in enumerate(pairs)}
    return [pair for number, pair in enumerate(pairs) if at[pair.key] == number]


def _map(pairs: Any) -> list[tuple[str, str | None]]:
    return [(pair.key, _any(pair.value)) for pair in _last(pairs)]


def _time(name: str, nanos: int) -> dict[str, Any]:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=nanos // 1000) if nanos else None
    return {name: at, f"{name}_nano": nanos % 1000 if nanos else None}


def _span_rows(span: Span) -> list[dict[str, Any]]:
    start, end = span.start_time_unix_nano, span.end_time_unix_nano
    duration = end - start if start and end and -(2**63) <= end - start < 2**63 else None
    events = [
        {
            **_time("timestamp", event.time_unix_nano), "name": event.name or None, "attributes": _map(event.attributes),
            "dropped_attributes_count": event.dropped_attributes_count,
        }
        for event in span.events
    ]  # fmt: skip
    links = [
        {
            "trace_id": link.trace_id.hex() or None, "span_id": link.span_id.hex() or None,
            "trace_state": link.trace_state or None, "flags": link.flags, "attributes": _map(link.attributes),
            "dropped_attributes_count": link.dropped_attributes_count,
        }
        for link in span.links
    ]  # fmt: skip
    return [{
        **_time("timestamp", start), **_time("end_timestamp", end), "duration_nano": duration,
        "trace_id": span.trace_id.hex() or None, "span_id": span.span_id.hex() or None,
        "parent_span_id": span.parent_span_id.hex() or None, "flags": span.flags, "trace_state": span.trace_state or None,
        "span_name": span.name or None,
        "span_kind": Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").capitalize(),
        "status_code": ("Unset", "Ok", "Error")[span.status.code], "status_message": span.status.message or None,
        "span_attributes": _map(span.attributes), "dropped_attributes_count": span.dropped_attributes_count,
        "events": events, "dropped_events_count": span.dropped_events_count, "links": links,
        "dropped_links_count": span.dropped_links_count,
    }]  # fmt: skip


def _log_rows(log: LogRecord) -> list[dict[str, Any]]:
    return [{
        **_time("timestamp", log.time_unix_nano or log.observed_time_unix_nano),
        **_time("observed_timestamp", log.observed_time_unix_nano), "trace_id": log.trace_id.hex() or None,
        "span_id": log.span_id.hex() or None, "flags": log.flags, "severity_text": log.severity_text or None,
        "severity_number": log.severity_number, "event_name": log.event_name or None, "body": _any(log.body),
        "log_attributes": _map(log.attributes), "dropped_attributes_count": log.dropped_attributes_count,
    }]  # fmt: skip


def _metric_rows(metric: Metric) -> list[dict[str, Any]]:
    kind = metric.WhichOneof("data")
    return [_point_row(metric, kind, point) for point in getattr(metric, kind).data_points] if kind else []


def _point_row(metric: Metric, kind: str, point: Any) -> dict[str, Any]:
    data, is_exponential = getattr(metric, kind), kind == "exponential_histogram"
    is_histogram, is_number = kind == "histogram", kind in ("gauge", "sum")
    has = {name.name for name in point.DESCRIPTOR.fields}

    def optional(name: str) -> Any:
        return getattr(point, name) if name in has and point.HasField(name) else None

    temporality = ("Unspecified", "Delta", "Cumulative")
    buckets = {
        f"{side}_{name}": (list(value) if name == "bucket_counts" else value) if is_exponential else None
        for side in ("positive", "negative")
        for name in ("offset", "bucket_counts")
        for value in [getattr(getattr(point, side), name) if is_exponential else None]
    }
    total = point.sum if kind == "summary" else optional("sum")
    return {
        **_time("timestamp", point.time_unix_nano), **_time("start_timestamp", point.start_time_unix_nano),
        "metric_name": metric.name or None, "metric_description": metric.description or None,
        "metric_unit": metric.unit or None, "metric_metadata": _map(metric.metadata), "kind": kind,
        "aggregation_temporality": temporality[data.aggregation_temporality] if kind not in ("gauge", "summary") else None,
        "is_monotonic": data.is_monotonic if kind == "sum" else None, "attributes": _map(point.attributes),
        "flags": point.flags, **_number_of(point if is_number else None), "count": None if is_number else point.count,
        "sum": total, "min": optional("min"), "max": optional("max"),
        "bucket_counts": list(point.bucket_counts) if is_histogram else None,
        "explicit_bounds": list(point.explicit_bounds) if is_histogram else None,
        "scale": point.scale if is_exponential else None, "zero_count": point.zero_count if is_exponential else None,
        "zero_threshold": point.zero_threshold if is_exponential else None, **buckets,
        "quantiles": [{"quantile": each.quantile, "value": each.value} for each in getattr(point, "quantile_values", [])],
        "exemplars": [
            {
                **_time("timestamp", exemplar.time_unix_nano), **_number_of(exemplar),
                "trace_id": exemplar.trace_id.hex() or None, "span_id": exemplar.span_id.hex() or None,
                "attributes": _map(exemplar.filtered_attributes),
            }
            for exemplar in getattr(point, "exemplars", [])
        ],
    }  # fmt: skip


def _number_of(point: Any) -> dict[str, Any]:
    kind = point.WhichOneof("value") if point is not None else None
    whole = point.as_int if kind == "as_int" else None
    return {"value": float(whole) if whole is not None else point.as_double if kind else None, "value_int": whole}


_ROWS = {"traces": _span_rows, "logs": _log_rows, "metrics": _metric_rows}
