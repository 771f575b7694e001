"""Pushes the metrics of a pipeline to an OpenTelemetry collector, on a thread of its own: nothing waits for it.

A push has the current values, so one that fails is not repeated: the next one says the same, and more.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from calve.credentials import in_short
from calve.notify.http_post import HttpPost
from calve.observe.log import Log
from calve.observe.metric_families import HISTOGRAMS
from calve.observe.metric_samples import families
from calve.observe.report import PipelineReport, PushReport
from calve.observe.status import PipelineStatus
from calve.settings.otlp import OtlpSettings

__all__ = ["OtlpPush", "encoded"]

_PATH = "/v1/metrics"
_LAST_SECONDS = 2.0
"""How long the end of a run waits for the last push."""
_CUMULATIVE = 2
"""`AGGREGATION_TEMPORALITY_CUMULATIVE`."""


class OtlpPush:
    """Pushes the metrics of one pipeline within its context; without settings it does nothing.

    Args:
        settings: The collector; None: there is none.
        status: Has the metrics, and gets how the pushes went.
    """

    def __init__(self, settings: OtlpSettings | None, status: PipelineStatus) -> None:
        self._settings = settings
        self._status = status
        self._log = Log(status.name)
        self._ended = threading.Event()
        self._pushes = PushReport()
        self._thread = threading.Thread(target=self._run, name=f"otlp-{status.name}", daemon=True)

    def __enter__(self) -> OtlpPush:
        if self._settings:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._settings:
            self._thread.join(_LAST_SECONDS)

    def _run(self) -> None:
        assert self._settings is not None
        headers = {"content-type": "application/x-protobuf", **self._settings.headers}
        post = HttpPost(self._settings.url, headers, self._settings.timeout, _PATH)
        while not self._ended.wait(self._settings.interval.total_seconds()):
            self._push(post, self._settings.resource)
        self._push(post, self._settings.resource)

    def _push(self, post: HttpPost, resource: dict[str, str]) -> None:
        try:
            error, answer = post.send(encoded(self._status.report(), resource))
            error = error or _refused(answer)
        except ValueError as fault:  # a text that is no Unicode
            error = in_short(fault)
        if error and not self._pushes.error:
            self._log.warning(f"otlp: {post.address} gets no metrics: {error}")
        elif self._pushes.error and not error:
            self._log.info(f"otlp: {post.address} gets metrics again")
        counts = self._pushes
        self._pushes = PushReport(counts.sent + (not error), counts.failed + bool(error), error)
        self._status.pushed(self._pushes)


def _refused(answer: bytes) -> str:
    """Return why a collector has refused a part of a push; empty: it has taken all."""
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

    try:
        partial = ExportMetricsServiceResponse.FromString(answer).partial_success
    except DecodeError:  # many collectors answer with a text
        return ""
    count = partial.rejected_data_points
    return f"it refused {count:,} values: {partial.error_message}"[:500] if count else ""


def encoded(report: PipelineReport, resource: dict[str, str]) -> bytes:
    """Return the metrics of a pipeline as an `ExportMetricsServiceRequest`; with the names that Prometheus has."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    request, now = ExportMetricsServiceRequest(), time.time_ns()
    of_resource = request.resource_metrics.add()
    _label(of_resource.resource.attributes, {"service.name": "calve", **resource})
    scope = of_resource.scope_metrics.add()
    scope.scope.name = "calve"
    for kind, name, text, labels, samples in families(report):
        if not samples:
            continue
        metric = scope.metrics.add(name=f"{name}_total" if kind == "counter" else name, description=text)
        if kind == "counter":
            metric.sum.aggregation_temporality, metric.sum.is_monotonic = _CUMULATIVE, True
        points = metric.sum.data_points if kind == "counter" else metric.gauge.data_points
        for values, value in samples:
            point = points.add(time_unix_nano=now, as_double=value)
            _label(point.attributes, {"pipeline": report.pipeline, **dict(zip(labels, values, strict=True))})
    for name, text, bounds, distribution in HISTOGRAMS:
        counts, total = distribution(report)
        metric = scope.metrics.add(name=name, description=text)
        metric.histogram.aggregation_temporality = _CUMULATIVE
        point = metric.histogram.data_points.add(
            time_unix_nano=now, count=sum(counts), sum=total, bucket_counts=counts, explicit_bounds=bounds
        )
        _label(point.attributes, {"pipeline": report.pipeline})
    return bytes(request.SerializeToString())


def _label(attributes: Any, labels: dict[str, str]) -> None:
    for key, value in labels.items():
        attributes.add(key=key).value.string_value = value
