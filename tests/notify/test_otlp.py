"""A collector gets the metrics as OTLP; one that is slow, dead or refuses holds nothing, and is said once."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from calve.notify.otlp import OtlpPush, encoded
from calve.observe.report import BranchFileStats, PipelineReport, PushReport
from calve.observe.status import BatchCounts, PipelineStatus
from calve.settings.otlp import OtlpSettings
from kit.running import PATIENCE_SECONDS, until

pb = pytest.importorskip(
    "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2", reason="pip install calve[otel]"
)


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        server: Any = self.server
        server.got.append((self.path, dict(self.headers.items()), pb.ExportMetricsServiceRequest.FromString(body)))
        status, answer = server.answer()
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Any]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.got, server.answer = [], lambda: (200, b"")  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def filled() -> PipelineStatus:
    status = PipelineStatus("orders")
    status.batch_written(BatchCounts(1, 1000, 22_000), 0.5)
    status.table_committed("shop.größe", 994, 1)
    status.table_files("shop.größe", BranchFileStats(manifests=7))
    status.commit_took(0.25)
    return status


def pushes(status: PipelineStatus) -> PushReport:
    return status.report().otlp or PushReport()


def points(request: Any) -> dict[tuple[str, ...], Any]:
    """Return every point by its metric's name and the values of its labels."""
    (resource,) = request.resource_metrics
    (scope,) = resource.scope_metrics
    return {
        (metric.name, *sorted(label.value.string_value for label in point.attributes)): point
        for metric in scope.metrics
        for point in getattr(metric, metric.WhichOneof("data")).data_points
    }


def pushed(server: Any, status: PipelineStatus, while_open: Callable[[], object], **options: Any) -> None:
    url = f"http://127.0.0.1:{server.server_port}"
    with OtlpPush(OtlpSettings(url=url, interval=timedelta(milliseconds=100), **options), status):
        while_open()


def test_a_collector_gets_counters_gauges_and_histograms(collector: Any) -> None:
    def ready() -> None:
        until(lambda: len(collector.got) > 1, "two pushes arrived")

    status = filled()
    pushed(collector, status, ready, headers={"authorization": "secret"}, resource={"env": "test"})
    path, headers, request = collector.got[0]
    assert (path, headers["content-type"], headers["authorization"]) == (
        "/v1/metrics",
        "application/x-protobuf",
        "secret",
    )
    named = {label.key: label.value.string_value for label in request.resource_metrics[0].resource.attributes}
    assert named == {"service.name": "calve", "env": "test"}
    values = points(request)
    assert values["calve_events_total", "orders"].as_double == 1000
    assert values["calve_committed_rows_total", "orders", "shop.größe"].as_double == 994
    assert values["calve_table_manifests", "orders", "shop.größe"].as_double == 7
    seconds = values["calve_commit_seconds", "orders"]
    assert (seconds.count, seconds.sum, len(seconds.bucket_counts)) == (1, 0.25, len(seconds.explicit_bounds) + 1)
    metrics = {metric.name: metric for metric in request.resource_metrics[0].scope_metrics[0].metrics}
    assert metrics["calve_events_total"].sum.is_monotonic
    assert "calve_freshness_seconds" not in metrics, "what is not known is absent"
    assert pushes(status).sent >= 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((503, b""), "it answered with status 503"),
        (
            (
                200,
                pb.ExportMetricsServiceResponse(
                    partial_success={"rejected_data_points": 3, "error_message": "old"}
                ).SerializeToString(),
            ),
            "it refused 3 values: old",
        ),
    ],
)
def test_a_collector_that_refuses_is_counted_and_said_once(
    collector: Any, caplog: pytest.LogCaptureFixture, answer: tuple[int, bytes], reason: str
) -> None:
    collector.answer = lambda: answer
    status = filled()
    pushed(collector, status, lambda: until(lambda: pushes(status).failed > 1, "two pushes failed"))
    assert (pushes(status).error, pushes(status).sent) == (reason, 0)
    assert [record.levelname for record in caplog.records if "gets no metrics" in record.message] == ["WARNING"]


def test_a_collector_that_never_answers_holds_no_run(collector: Any) -> None:
    released = threading.Event()
    collector.answer = lambda: (released.wait(PATIENCE_SECONDS) and 200, b"")
    began = time.monotonic()
    pushed(collector, filled(), lambda: until(lambda: collector.got, "a push arrived"), timeout=timedelta(minutes=1))
    released.set()
    assert time.monotonic() - began < PATIENCE_SECONDS


def test_a_header_that_http_does_not_allow_is_said_without_its_value(caplog: pytest.LogCaptureFixture) -> None:
    status = filled()
    settings = OtlpSettings(url="http://127.0.0.1:9", headers={"authorization": "Bearer secret\n"})
    with OtlpPush(settings, status):
        pass
    until(lambda: pushes(status).failed, "the last push failed")
    assert "a header has characters" in pushes(status).error
    assert "secret" not in caplog.text


def test_a_pipeline_without_events_can_be_sent() -> None:
    assert points(pb.ExportMetricsServiceRequest.FromString(encoded(PipelineReport("p"), {})))[
        "calve_events_total", "p"
    ]
