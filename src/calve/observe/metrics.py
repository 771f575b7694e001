"""Prometheus metrics, made from the status when they are asked for: nothing of them is on the path of an event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from calve.observe.log import Log
from calve.observe.report import PipelineReport

__all__ = ["Metrics", "StatusCollector"]

Sample = tuple[list[str], float | int | None]
Samples = Callable[[PipelineReport], Iterable[Sample]]


def _one(value: Callable[[PipelineReport], float | int | None]) -> Samples:
    return lambda report: [([], value(report))]


def _known(reports: Iterable[PipelineReport], samples: Samples) -> Iterator[tuple[str, list[str], float]]:
    """Yield pipeline, labels and value of every sample that has a value."""
    for report in reports:
        yield from ((report.pipeline, labels, value) for labels, value in samples(report) if value is not None)


def _rejects(report: PipelineReport) -> Iterator[Sample]:
    for name, table in report.tables.items():
        yield from (([name, code], count) for code, count in table.rejects.items())
    yield from ((["", code], count) for code, count in report.rejects_without_table().items())


def _nulled(report: PipelineReport) -> Iterator[Sample]:
    for name, table in report.tables.items():
        yield from (([name, column], count) for column, count in table.nulled.items())


def _ignored(report: PipelineReport) -> Iterator[Sample]:
    for name, table in report.tables.items():
        yield from (([name, field], count) for field, count in table.ignored.items())


def _lag_rows(report: PipelineReport) -> float | None:
    return report.lag_rows if report.lag_rows >= 0 else None


COUNTERS: tuple[tuple[str, str, tuple[str, ...], Samples], ...] = (
    ("calve_events", "Events read.", (), _one(lambda r: r.events)),
    ("calve_event_bytes", "Bytes of the events read.", (), _one(lambda r: r.bytes)),
    ("calve_unrouted_events", "Events that no route took.", (), _one(lambda r: r.unrouted)),
    (
        "calve_passed_over_events",
        "Records of change streams that are about no row, e.g. tombstones.",
        (),
        _one(lambda r: r.passed_over),
    ),
    ("calve_batches", "Batches staged.", (), _one(lambda r: r.batches)),
    ("calve_rejects", "Events in the dead-letter queue.", ("table", "code"), _rejects),
    ("calve_nulled_values", "Values that did not fit and became NULL.", ("table", "column"), _nulled),
    (
        "calve_ignored_fields",
        "Events with a field that has no column and was not written; the field `(others)` stands for all further ones.",
        ("table", "field"),
        _ignored,
    ),
    (
        "calve_superseded_events",
        "Events that an index had newer ones of, or had already.",
        ("table",),
        lambda r: [([name], table.superseded) for name, table in r.tables.items() if table.superseded],
    ),
    (
        "calve_committed_rows",
        "Rows visible in the table.",
        ("table",),
        lambda r: [([name], table.rows) for name, table in r.tables.items()],
    ),
    (
        "calve_commits",
        "Commits of the table.",
        ("table",),
        lambda r: [([name], table.commits) for name, table in r.tables.items()],
    ),
)
GAUGES: tuple[tuple[str, str, tuple[str, ...], Samples], ...] = (
    ("calve_lag_rows", "Rows that wait in the source, where it knows.", (), _one(_lag_rows)),
    ("calve_lag_bytes", "Bytes that wait in the source, about.", (), _one(lambda r: r.lag_bytes)),
    ("calve_staged_batches", "Batches durable and not committed yet.", (), _one(lambda r: r.staged_batches)),
    ("calve_staged_bytes", "Bytes durable and not committed yet.", (), _one(lambda r: r.staged_bytes)),
    ("calve_last_batch_seconds", "Time to write the last batch.", (), _one(lambda r: r.last_batch_seconds)),
    (
        "calve_freshness_seconds",
        "Age of the oldest event of the last commit when it became visible.",
        (),
        _one(lambda r: r.freshness_seconds),
    ),
    (
        "calve_last_commit_timestamp_seconds",
        "Time of the table's last commit.",
        ("table",),
        lambda r: [([n], t.last_commit.timestamp()) for n, t in r.tables.items() if t.last_commit],
    ),
    ("calve_pipeline_state", "1 for the state that the pipeline is in.", ("state",), lambda r: [([r.state], 1)]),
    ("calve_pipeline_errors", "Errors that are not over yet.", (), _one(lambda r: len(r.errors))),
    (
        "calve_table_held",
        "1 while the table is held by an error.",
        ("table",),
        lambda r: [([name], int(table.error is not None)) for name, table in r.tables.items()],
    ),
)


class StatusCollector(Collector):
    """Gives the reports of this moment as metrics."""

    def __init__(self, reports: Callable[[], list[PipelineReport]]) -> None:
        self._reports = reports

    def describe(self) -> Iterable[Metric]:
        """Give no metric at registration: nothing runs yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with the samples of every pipeline."""
        reports = self._reports()
        for kind, families in ((CounterMetricFamily, COUNTERS), (GaugeMetricFamily, GAUGES)):
            for name, text, labels, samples in families:
                family = kind(name, text, labels=["pipeline", *labels])
                for pipeline, values, value in _known(reports, samples):
                    family.add_metric([pipeline, *values], value)
                yield family


class Metrics:
    """Serves `/metrics` while it is entered; a port that is taken is a warning, and the pipelines run without."""

    def __init__(self, reports: Callable[[], list[PipelineReport]], port: int, host: str = "127.0.0.1") -> None:
        self._registry = CollectorRegistry()
        self._registry.register(StatusCollector(reports))
        ProcessCollector(registry=self._registry)
        self._host, self._wanted = host, port
        self._close: Callable[[], None] = lambda: None
        self.port: int | None = None

    def __enter__(self) -> Metrics:
        try:
            server, thread = start_http_server(self._wanted, self._host, self._registry)
        except OSError as error:
            Log().warning(
                f"no metrics: {self._host}:{self._wanted} cannot be used ({error.strerror or error}); "
                "choose another one with --metrics-port"
            )
            return self
        self.port = server.server_port

        def close() -> None:
            server.shutdown()
            thread.join()
            server.server_close()

        self._close = close
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
