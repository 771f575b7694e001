"""Prometheus metrics and health checks, computed on request and not on the path of an event."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from itertools import accumulate
from types import TracebackType
from typing import Any
from wsgiref.simple_server import make_server

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from calve.network.host_names import is_local_name
from calve.observe.health import Health, alive, ready
from calve.observe.log import Log
from calve.observe.metric_families import HISTOGRAMS
from calve.observe.metric_samples import families
from calve.observe.report import PipelineReport
from calve.observe.web_server import Quiet, server_class

__all__ = ["Metrics", "StatusCollector"]

_CHECK_SECONDS = 0.02
"""How often the server checks whether it shall end; the end of each run waits for that."""
_FAMILIES = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily}


class StatusCollector(Collector):
    """Returns the current reports as metrics."""

    def __init__(self, reports: Callable[[], list[PipelineReport]]) -> None:
        self._reports = reports

    def describe(self) -> Iterable[Metric]:
        """Return no metric at registration, because nothing runs yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with the samples of every pipeline."""
        reports = self._reports()
        merged: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for report in reports or [PipelineReport("")]:
            for kind, name, text, labels, samples in families(report):
                family = merged.setdefault(name, _FAMILIES[kind](name, text, labels=["pipeline", *labels]))
                for values, value in samples if reports else ():
                    family.add_metric([report.pipeline, *values], value)
        yield from merged.values()
        for name, text, bounds, distribution in HISTOGRAMS:
            histogram = HistogramMetricFamily(name, text, labels=["pipeline"])
            for report in reports:
                counts, total = distribution(report)
                buckets = zip([*map(str, bounds), "+Inf"], accumulate(counts), strict=True)
                histogram.add_metric([report.pipeline], list(buckets), total)
            yield histogram


class Metrics:
    """Serves `/metrics`, `/healthz` and `/readyz` within its context.

    If the port is in use, it logs a warning, and the pipelines run without metrics.

    Args:
        reports: Returns a report for each pipeline that has begun.
        port: The port; 0 is any free port.
        host: The address to listen on.
        health: Returns the health of each pipeline of the run, by name.
    """

    def __init__(
        self,
        reports: Callable[[], list[PipelineReport]],
        port: int,
        host: str = "127.0.0.1",
        health: Callable[[], Mapping[str, Health]] = dict,
    ) -> None:
        registry = CollectorRegistry()
        registry.register(StatusCollector(reports))
        ProcessCollector(registry=registry)
        self._metrics = make_wsgi_app(registry)
        self._health = health
        self._host, self._wanted = host, port
        self._close: Callable[[], None] = lambda: None
        self.port: int | None = None

    def __enter__(self) -> Metrics:
        try:
            server = make_server(self._host, self._wanted, self._answer, server_class(self._host), Quiet)
        except OSError as error:
            Log().warning(
                f"no metrics: {self._host}:{self._wanted} cannot be used ({error.strerror or error}); "
                "choose another port with --metrics-port"
            )
            return self
        self.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(_CHECK_SECONDS,), name="metrics", daemon=True)
        thread.start()

        def close() -> None:
            server.shutdown()
            thread.join()
            server.server_close()

        self._close = close
        return self

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if not is_local_name(environ.get("HTTP_HOST", ""), self._host):
            start_response("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"This host has another name.\n"]
        check = {"/healthz": alive, "/readyz": ready}.get(environ["PATH_INFO"])
        if check is None:
            answered: Iterable[bytes] = self._metrics(environ, start_response)
            return answered
        status, answer = check(self._health())
        start_response(f"{status} {HTTPStatus(status).phrase}", [("Content-Type", "application/json")])
        return [msgspec.json.encode(answer) + b"\n"]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
