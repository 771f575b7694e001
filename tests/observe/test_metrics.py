from __future__ import annotations

import socket
import urllib.request

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from calve.errors import CommitError
from calve.observe.metrics import Metrics, StatusCollector
from calve.observe.report import BranchFileStats
from calve.observe.status import BatchCounts, PipelineStatus

Samples = dict[tuple[str, tuple[str, ...]], float]


def scrape(port: int | None) -> Samples:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
        families = text_string_to_metric_families(response.read().decode())
        return {
            (s.name, tuple(value for _, value in sorted(s.labels.items()))): s.value
            for family in families
            for s in family.samples
        }


def test_the_status_is_scraped_over_http() -> None:
    status = PipelineStatus("orders")
    with Metrics(lambda: [status.report()], 0) as metrics:
        assert ("calve_events_total", ("orders",)) in scrape(metrics.port)
        status.set_state("running")
        rejects = {"a.b": {"NOT_COERCIBLE": 2}, "": {"MALFORMED": 1}}
        status.batch_written(BatchCounts(1, 1000, 22_000, 3, rejects, {"a.b": {"amount": 4}}), 0.5)
        status.batch_written(
            BatchCounts(2, 0, ignored={"a.b": {"in.x": 3}}, failed_rules={"a.b": {"r": 5, "s": 0}}), 0.5
        )
        status.table_committed("a.b", 994, 1)
        status.lag(50, 1100)
        status.trouble(CommitError("dropped"), table="a.b")
        found = scrape(metrics.port)
    expected: Samples = {
        ("calve_events_total", ("orders",)): 1000,
        ("calve_event_bytes_total", ("orders",)): 22_000,
        ("calve_unrouted_events_total", ("orders",)): 3,
        ("calve_rejects_total", ("NOT_COERCIBLE", "orders", "a.b")): 2,
        ("calve_rejects_total", ("MALFORMED", "orders", "")): 1,
        ("calve_nulled_values_total", ("amount", "orders", "a.b")): 4,
        ("calve_ignored_fields_total", ("in.x", "orders", "a.b")): 3,
        ("calve_failed_rules_total", ("orders", "r", "a.b")): 5,
        ("calve_failed_rules_total", ("orders", "s", "a.b")): 0,
        ("calve_committed_rows_total", ("orders", "a.b")): 994,
        ("calve_commits_total", ("orders", "a.b")): 1,
        ("calve_lag_rows", ("orders",)): 50,
        ("calve_lag_bytes", ("orders",)): 1100,
        ("calve_last_batch_seconds", ("orders",)): 0.5,
        ("calve_table_held", ("orders", "a.b")): 1,
        ("calve_pipeline_state", ("orders", "running")): 1,
    }
    assert {key: found.get(key) for key in expected} == expected
    assert found["calve_last_commit_timestamp_seconds", ("orders", "a.b")] > 0


def test_what_is_not_known_is_absent_and_not_zero() -> None:
    status = PipelineStatus("orders")
    status.lag(-1, 1100)
    with Metrics(lambda: [status.report()], 0) as metrics:
        names = {name for name, _ in scrape(metrics.port)}
    assert "calve_lag_bytes" in names
    assert not names & {"calve_lag_rows", "calve_freshness_seconds", "calve_last_batch_seconds"}


def test_a_port_that_is_taken_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, caplog.at_level("WARNING", logger="calve"):
        port = taken.getsockname()[1]
        with Metrics(list, port) as metrics:
            assert metrics.port is None
    (record,) = caplog.records
    assert f"127.0.0.1:{port} cannot be used" in record.message
    assert "--metrics-port" in record.message


def test_the_files_of_a_table_and_a_pause_are_metrics() -> None:
    status = PipelineStatus("orders")
    status.table_files("a.b", BranchFileStats(3, 900, 1, 20, 7))
    status.paused(True)
    status.source("public.cut is stopped", ["public.cut"])
    registry = CollectorRegistry()
    registry.register(StatusCollector(lambda: [status.report()]))
    table = {"pipeline": "orders", "table": "a.b"}
    names = ("data_files", "bytes", "delete_rows", "snapshots")
    assert [registry.get_sample_value(f"calve_table_{name}", table) for name in names] == [3, 900, 20, 7]
    assert registry.get_sample_value("calve_paused", {"pipeline": "orders"}) == 1
    stopped = {"pipeline": "orders", "table": "public.cut"}
    assert registry.get_sample_value("calve_source_table_stopped", stopped) == 1
