"""Records by number: what an application gives OpenTelemetry's SDK for Python, and the rows that they are.

The rows are computed from the number alone, without the SDK, Protobuf or Calve.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

RESOURCE: dict[str, Any] = {"service.name": "shop", "host.cpus": 4, "flags": [True, False]}
SCOPE: dict[str, Any] = {"scope": "ü", "ratio": 0.5}
NAME, VERSION, URL = "shop.web", "1.2", "https://opentelemetry.io/schemas/1.37.0"
KINDS = ("Internal", "Server", "Client", "Producer", "Consumer")
INSTRUMENTS = ("orders", "open", "load", "times", "sizes")
BOUNDS = (0.0, 10.0, 1000.0)
_START = 1_780_000_000_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def attributes(number: int) -> dict[str, Any]:
    """Return attributes of every type of the SDK."""
    return {
        "n": number, "text": f"t{number} ü\n\0😀", "empty": "", "flag": number % 2 == 0, "double": number + 0.5, "whole": 5.0,
        "least": -(2**63), "bytes": number.to_bytes(4), "texts": ["a", f"{number}"], "flags": [True, False],
        "numbers": [number, 2**63 - 1], "doubles": [0.5, -2.25], "nothing": [],
        "map": {"a": [1, "b"], "deep": {"x": 0.25}, "n": number}, "http.route": "/cart",
    }  # fmt: skip


def body(number: int) -> Any:
    """Return the body of a log record: each type in turn."""
    return (
        f"text {number}",
        number,
        number + 0.25,
        number % 2 == 0,
        number.to_bytes(4),
        ["a", number],
        {"n": [number]},
    )[number % 7]


def time_of(number: int) -> int:
    """Return a time in nanoseconds; a million of them are some days."""
    return _START + number * 200_000_000 + number


def trace_of(number: int) -> int:
    """Return the trace id of a span; two spans are a trace."""
    return 2**127 + number // 2 + 1


def span_of(number: int) -> int:
    """Return the id of a span."""
    return 2**63 + number + 1


def linked(number: int) -> tuple[int, int]:
    """Return trace id and span id of what a span links to."""
    return number + 7, number + 9


def is_child(number: int) -> bool:
    """Return whether a span has a parent, and an error: each second one."""
    return number % 2 == 1


def has_parts(number: int) -> bool:
    """Return whether a span has an event and a link."""
    return number % 8 == 1


def measured(number: int) -> float:
    """Return what an instrument measures."""
    return number if number % 5 == 0 else number + 0.5


def row(signal: str, number: int, times: Mapping[int, list[int]]) -> dict[str, Any]:
    """Return the row of a record, with all columns.

    Args:
        signal: Its table.
        number: Its number.
        times: Of points by number: the time of the point, of its start and of its exemplar, which the SDK chooses.
    """
    own = _OWN[signal](number, times)
    origin = {
        "service_name": "shop", "resource_attributes": texts(RESOURCE), "resource_dropped_attributes_count": 0,
        "resource_schema_url": None, "scope_name": NAME, "scope_version": VERSION, "scope_attributes": texts(SCOPE),
        "scope_dropped_attributes_count": 0, "scope_schema_url": URL,
    }  # fmt: skip
    return own | origin


def texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return attributes as a table has them."""
    return {key: text(value) for key, value in values.items()}


def text(value: Any) -> str:
    """Return a value as a table has it."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _times(**nanos: int) -> dict[str, Any]:
    micros = {name: _EPOCH + timedelta(microseconds=at // 1000) for name, at in nanos.items()}
    return micros | {f"{name}_nano": at % 1000 for name, at in nanos.items()}


def _span(number: int, times: Mapping[int, list[int]]) -> dict[str, Any]:
    start, has_failed = time_of(number), is_child(number)
    trace, span = linked(number)
    own = texts(attributes(number))
    event = {**_times(timestamp=start + 3), "name": "retry", "attributes": own, "dropped_attributes_count": 0}
    link = {
        "trace_id": f"{trace:032x}", "span_id": f"{span:016x}", "trace_state": None, "flags": 0x300, "attributes": own,
        "dropped_attributes_count": 0,
    }  # fmt: skip
    return {
        **_times(timestamp=start, end_timestamp=start + number), "duration_nano": number,
        "trace_id": f"{trace_of(number):032x}", "span_id": f"{span_of(number):016x}",
        "parent_span_id": f"{span_of(number - 1):016x}" if has_failed else None, "flags": 0x100, "trace_state": None,
        "span_name": f"GET /{number}", "span_kind": KINDS[number % 5], "status_code": "Error" if has_failed else "Unset",
        "status_message": "too slow" if has_failed else None, "span_attributes": own, "dropped_attributes_count": 0,
        "events": [event] if has_parts(number) else [], "dropped_events_count": 0, "links": [link] if has_parts(number) else [],
        "dropped_links_count": 0,
    }  # fmt: skip


def _log(number: int, times: Mapping[int, list[int]]) -> dict[str, Any]:
    return {
        **_times(timestamp=time_of(number), observed_timestamp=time_of(number) + 7), "flags": 1,
        "trace_id": f"{trace_of(number):032x}", "span_id": f"{span_of(number):016x}",
        "severity_text": f"level {number % 24 + 1}", "severity_number": number % 24 + 1, "event_name": "checkout",
        "body": text(body(number)), "log_attributes": texts(attributes(number)), "dropped_attributes_count": 0,
    }  # fmt: skip


def _point(number: int, times: Mapping[int, list[int]]) -> dict[str, Any]:
    instrument, value, own = INSTRUMENTS[number % 5], measured(number), texts(attributes(number))
    at, start, exemplar_at = times[number]
    whole = int(value) if isinstance(value, int) else None
    is_histogram, is_exponential = instrument == "times", instrument == "sizes"
    is_total = is_histogram or is_exponential
    kind = {"orders": "sum", "open": "sum", "load": "gauge", "times": "histogram", "sizes": "exponential_histogram"}
    exemplar = {
        **_times(timestamp=exemplar_at), "value": float(value), "value_int": whole, "trace_id": f"{trace_of(number):032x}",
        "span_id": f"{span_of(number):016x}", "attributes": {"http.route": own.pop("http.route")} if is_exponential else {},
    }  # fmt: skip
    bucket = sum(value > bound for bound in BOUNDS)
    nothing = {"offset": 0, "bucket_counts": [0]} if is_exponential else dict.fromkeys(("offset", "bucket_counts"))
    return {
        **_times(timestamp=at), "start_timestamp": _times(s=start)["s"] if start else None,
        "start_timestamp_nano": start % 1000 if start else None, "metric_name": instrument,
        "metric_description": f"the {instrument}", "metric_unit": "By", "metric_metadata": {}, "kind": kind[instrument],
        "aggregation_temporality": None if instrument == "load" else "Cumulative",
        "is_monotonic": {"orders": True, "open": False}.get(instrument), "attributes": own, "flags": 0,
        "value": None if is_total else float(value), "value_int": whole, "count": 1 if is_total else None,
        **dict.fromkeys(("sum", "min", "max"), value if is_total else None),
        "bucket_counts": [int(place == bucket) for place in range(4)] if is_histogram else None,
        "explicit_bounds": list(BOUNDS) if is_histogram else None, "scale": 20 if is_exponential else None,
        "zero_count": 0 if is_exponential else None, "zero_threshold": 0.0 if is_exponential else None,
        "positive_offset": math.ceil(math.log2(value) * 2**20) - 1 if is_exponential else None,
        "positive_bucket_counts": [1] if is_exponential else None,
        **{f"negative_{name}": part for name, part in nothing.items()}, "quantiles": [], "exemplars": [exemplar],
    }  # fmt: skip


_OWN = {"traces": _span, "logs": _log, "metrics": _point}
