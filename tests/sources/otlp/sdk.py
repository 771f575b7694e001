"""OpenTelemetry's SDK for Python as an application uses it, and what it must have sent."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc import _log_exporter as grpc_logs
from opentelemetry.exporter.otlp.proto.grpc import metric_exporter as grpc_metrics
from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as grpc_traces
from opentelemetry.exporter.otlp.proto.http import _log_exporter as http_logs
from opentelemetry.exporter.otlp.proto.http import metric_exporter as http_metrics
from opentelemetry.exporter.otlp.proto.http import trace_exporter as http_traces
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

ATTRIBUTES: dict[str, Any] = {
    "text": "ü\n\0😀", "empty": "", "yes": True, "no": False, "whole": 2**63 - 1, "negative": -5, "double": 0.1, "five": 5.0,
    "texts": ["a", "ü"], "flags": [True, False], "numbers": [1, -(2**63)], "doubles": [0.5, -2.25], "none": [],
    "http.route": "/cart",
}  # fmt: skip
"""Values of every type that attributes of spans and metrics have in the SDK."""


class _Finished(SpanExporter):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS


class Application:
    """An application with all three signals; each sends when it is told to, or closed.

    Args:
        protocol: `grpc` or `http`.
        address: Where Calve listens, as `host:port`.
    """

    def __init__(self, protocol: str, address: str) -> None:
        resource = Resource({"service.name": "shop", "host.name": "h1"})
        if protocol == "grpc":
            options: list[dict[str, Any]] = [{"endpoint": address, "insecure": True}] * 3
            traces, logs, metrics = (
                grpc_traces.OTLPSpanExporter,
                grpc_logs.OTLPLogExporter,
                grpc_metrics.OTLPMetricExporter,
            )
        else:
            options = [{"endpoint": f"http://{address}/v1/{signal}"} for signal in ("traces", "logs", "metrics")]
            traces, logs, metrics = (
                http_traces.OTLPSpanExporter,
                http_logs.OTLPLogExporter,
                http_metrics.OTLPMetricExporter,
            )
        self._finished = _Finished()
        self._traces = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._traces.add_span_processor(BatchSpanProcessor(self._finished))
        self._traces.add_span_processor(BatchSpanProcessor(traces(**options[0])))
        self._logs = LoggerProvider(resource=resource, shutdown_on_exit=False)
        self._logs.add_log_record_processor(BatchLogRecordProcessor(logs(**options[1])))
        reader = PeriodicExportingMetricReader(metrics(**options[2]), export_interval_millis=float("inf"))
        view = View(Histogram, "sizes", aggregation=ExponentialBucketHistogramAggregation())
        self._metrics = MeterProvider([reader], resource, shutdown_on_exit=False, views=[view])

    def trace(self, seconds: float, attributes: Mapping[str, Any] = ATTRIBUTES) -> None:
        """Make a trace of two spans whose root takes so long."""
        tracer, start = self._traces.get_tracer("shop.web", "1.2"), 1_780_000_000_123_456_789
        root = tracer.start_span("GET /cart", kind=SpanKind.SERVER, attributes=attributes, start_time=start)
        with tracer.start_as_current_span("unused", end_on_exit=False) as linked:
            context = linked.get_span_context()
        parent = set_span_in_context(root)
        child = tracer.start_span("SELECT", context=parent, kind=SpanKind.CLIENT, start_time=start + 5)
        child.add_event("retry", dict(attributes), timestamp=start + 7)
        child.add_link(context, attributes)
        child.set_status(Status(StatusCode.ERROR, "too slow"))
        child.end(start + 9)
        root.end(start + int(seconds * 1e9))

    def log(self) -> None:
        """Write records with bodies of every type."""
        logger = self._logs.get_logger("shop.log")
        for body in BODIES:
            record = LogRecord(
                timestamp=1_780_000_000_000_000_001,
                severity_number=SeverityNumber.WARN,
                severity_text="WARN",
                body=body,
                attributes={**ATTRIBUTES, "bytes": b"\0\xff", "map": {"a": [1, "b"]}},
                event_name="checkout",
            )
            logger.emit(record)

    def measure(self) -> None:
        """Record a value with each instrument."""
        meter = self._metrics.get_meter("shop.metrics")
        meter.create_counter("orders", "1", "How many").add(7, ATTRIBUTES)
        meter.create_up_down_counter("open").add(-2.5)
        meter.create_gauge("load").set(0.75)
        meter.create_histogram("times", "ms").record(12.5)
        meter.create_histogram("sizes").record(3.0)

    def close(self) -> None:
        """Send what waits."""
        self._metrics.force_flush()
        for provider in (self._traces, self._logs, self._metrics):
            provider.shutdown()

    @property
    def spans(self) -> list[ReadableSpan]:
        """The finished spans, after `close`."""
        return self._finished.spans


BODIES: tuple[Any, ...] = ("text", 5, 0.5, True, b"\0\xff", ["a", 1, None], {"a": {"b": [1.5, False]}})
BODY_TEXTS = ["text", "5", "0.5", "true", "AP8=", '["a",1,null]', '{"a":{"b":[1.5,false]}}']
LOG_TEXTS = {"bytes": "AP8=", "map": '{"a":[1,"b"]}'}


def texts(attributes: Mapping[str, Any]) -> dict[str, str]:
    """Return attributes as a table has them."""
    return {key: _text(value) for key, value in attributes.items()}


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, str):
        return value
    plain = list(value) if isinstance(value, list | tuple) else value
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=False)
