"""An application with OpenTelemetry's SDK for Python that sends the records of `numbered` until all are answered.

`python -m sources.otlp.sender traces 4317 1000 8`: a signal, a port, how many records, in how many parts. For each line
of its input it sends a part, and prints one when the part is answered: of points, the times that the SDK has chosen.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import requests
from grpc import Compression
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.otlp.proto.http import Compression as HttpCompression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExportResult
from opentelemetry.sdk.metrics import AlwaysOnExemplarFilter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult, MetricsData
from opentelemetry.sdk.metrics.view import (
    ExplicitBucketHistogramAggregation,
    ExponentialBucketHistogramAggregation,
    View,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import IdGenerator, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from sources.otlp import numbered

BATCH = 1000
QUEUE = 4 * BATCH
Part = Callable[[range], dict[int, list[int]]]


class PatientSpans(OTLPSpanExporter):
    """Sends a batch again when the exporter gives it up, with the key that it had."""

    batches = 0

    def export(self, spans: Any) -> SpanExportResult:
        """Send a batch until it is answered."""
        self.batches += 1
        self._headers = (("idempotency-key", f"traces-{self.batches}"),)
        while super().export(spans) is not SpanExportResult.SUCCESS:
            pass
        return SpanExportResult.SUCCESS


class PatientPoints(OTLPMetricExporter):
    """The same for metrics."""

    batches = 0

    def export(self, metrics_data: MetricsData, *more: Any, **options: Any) -> MetricExportResult:
        """Send a batch until it is answered."""
        self.batches += 1
        self._headers = (("idempotency-key", f"metrics-{self.batches}"),)
        while super().export(metrics_data, *more, **options) is not MetricExportResult.SUCCESS:
            pass
        return MetricExportResult.SUCCESS


class PatientLogs(OTLPLogExporter):
    """The same for log records, over HTTP."""

    batches = 0

    def __init__(self, endpoint: str) -> None:
        self._own = requests.Session()
        super().__init__(endpoint, session=self._own, compression=HttpCompression.Gzip)

    def export(self, batch: Any) -> LogRecordExportResult:
        """Send a batch until it is answered."""
        self.batches += 1
        self._own.headers["Idempotency-Key"] = f"logs-{self.batches}"
        while super().export(batch) is not LogRecordExportResult.SUCCESS:
            pass
        return LogRecordExportResult.SUCCESS


class NumberedIds(IdGenerator):
    """Gives the span of a number its ids."""

    number = 0

    def generate_trace_id(self) -> int:
        """Return the trace id of the span."""
        return numbered.trace_of(self.number)

    def generate_span_id(self) -> int:
        """Return its own."""
        return numbered.span_of(self.number)


def context(trace: int, span: int) -> Context:
    """Return the context of a span that is elsewhere."""
    return set_span_in_context(NonRecordingSpan(SpanContext(trace, span, False, TraceFlags(1))))


def traces(port: int) -> Part:
    """Return what makes the spans of some numbers, and sends them."""
    ids, resource = NumberedIds(), Resource(numbered.RESOURCE)
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    exporter = PatientSpans(f"127.0.0.1:{port}", insecure=True)
    processor = BatchSpanProcessor(exporter, max_queue_size=QUEUE, max_export_batch_size=BATCH)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer(numbered.NAME, numbered.VERSION, numbered.URL, numbered.SCOPE)

    def span(number: int) -> None:
        ids.number, start = number, numbered.time_of(number)
        own, is_child, has_parts = numbered.attributes(number), numbered.is_child(number), numbered.has_parts(number)
        elsewhere = SpanContext(*numbered.linked(number), True)
        child = tracer.start_span(
            f"GET /{number}",
            context(numbered.trace_of(number), numbered.span_of(number - 1)) if is_child else Context(),
            list(SpanKind)[number % 5],
            own,
            [Link(elsewhere, own)] if has_parts else [],
            start,
        )
        if has_parts:
            child.add_event("retry", own, start + 3)
        if is_child:
            child.set_status(Status(StatusCode.ERROR, "too slow"))
        child.end(start + number)

    return sent(span, processor)


def logs(port: int) -> Part:
    """Return what makes the log records of some numbers, and sends them."""
    provider = LoggerProvider(Resource(numbered.RESOURCE), shutdown_on_exit=False)
    exporter = PatientLogs(f"http://127.0.0.1:{port}/v1/logs")
    processor = BatchLogRecordProcessor(exporter, max_queue_size=QUEUE, max_export_batch_size=BATCH)
    provider.add_log_record_processor(processor)
    logger = provider.get_logger(numbered.NAME, numbered.VERSION, numbered.URL, numbered.SCOPE)

    def log(number: int) -> None:
        at, severity = numbered.time_of(number), SeverityNumber(number % 24 + 1)
        logger.emit(
            LogRecord(
                timestamp=at,
                observed_timestamp=at + 7,
                context=context(numbered.trace_of(number), numbered.span_of(number)),
                severity_text=f"level {severity.value}",
                severity_number=severity,
                body=numbered.body(number),
                attributes=numbered.attributes(number),
                event_name="checkout",
            )
        )

    return sent(log, processor)


def sent(make: Callable[[int], None], processor: Any) -> Part:
    """Return what makes records and sends them: none is dropped because the queue of the SDK is full."""

    def part(numbers: range) -> dict[int, list[int]]:
        for start in numbers[:: QUEUE // 2]:
            for number in numbers[start - numbers.start :][: QUEUE // 2]:
                make(number)
            processor.force_flush()
        return {}

    return part


def metrics(port: int) -> Part:
    """Return what measures some numbers, each with an instrument, and sends the points."""
    exporter = PatientPoints(f"127.0.0.1:{port}", insecure=True, compression=Compression.Gzip)
    kept = {*numbered.attributes(0)} - {"http.route"}
    views = [
        View(Histogram, "times", aggregation=ExplicitBucketHistogramAggregation(numbered.BOUNDS)),
        View(Histogram, "sizes", aggregation=ExponentialBucketHistogramAggregation(), attribute_keys=kept),
    ]

    def part(numbers: range) -> dict[int, list[int]]:
        times = {}
        for start in numbers[::BATCH]:
            reader = InMemoryMetricReader()
            provider = MeterProvider(
                [reader], Resource(numbered.RESOURCE), AlwaysOnExemplarFilter(), shutdown_on_exit=False, views=views
            )
            meter = provider.get_meter(numbered.NAME, numbered.VERSION, numbered.URL, numbered.SCOPE)
            measure(meter, numbers[start - numbers.start :][:BATCH])
            points = reader.get_metrics_data()
            assert points is not None
            exporter.export(points)
            times.update(times_of(points))
            provider.shutdown()
        return times

    return part


def measure(meter: Any, numbers: range) -> None:
    """Measure each number once: with attributes of its own, it is a point of its own."""
    kinds = (meter.create_counter, meter.create_up_down_counter, meter.create_gauge, *[meter.create_histogram] * 2)
    instruments = [kind(name, "By", f"the {name}") for kind, name in zip(kinds, numbered.INSTRUMENTS, strict=True)]
    for number in numbers:
        instrument = instruments[number % len(instruments)]
        record = getattr(instrument, "add", None) or getattr(instrument, "set", None) or instrument.record
        of = context(numbered.trace_of(number), numbered.span_of(number))
        record(numbered.measured(number), numbered.attributes(number), of)


def times_of(points: MetricsData) -> Iterable[tuple[int, list[int]]]:
    """Return the times of points, their starts and exemplars, by number."""
    for resource in points.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    [exemplar] = point.exemplars
                    times = [point.time_unix_nano, point.start_time_unix_nano or 0, exemplar.time_unix_nano]
                    yield point.attributes["n"], times


def main() -> None:
    """Send the parts."""
    signal, port, count, parts = sys.argv[1], *map(int, sys.argv[2:])
    send = {"traces": traces, "logs": logs, "metrics": metrics}[signal](port)
    for part, _ in zip(range(parts), sys.stdin, strict=False):
        times = send(range(count * part // parts, count * (part + 1) // parts))
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
