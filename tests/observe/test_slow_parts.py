"""The metrics that say what is slow: commits as a histogram, conflicts, backpressure, steps, the lag of partitions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.utils import floatToGoString

from calve.errors import CommitError
from calve.observe.metrics import StatusCollector
from calve.observe.report import BranchFileStats
from calve.observe.status import BatchCounts, PipelineStatus


def test_what_is_slow_is_served() -> None:
    status = PipelineStatus("p")
    status.commit_took(0.25)
    status.commit_took(90.0)
    status.commit_tried("a.b", 2, 2)
    status.commit_tried("a.b", 1, 3)
    status.held_back(1.5)
    status.steps({"read": 1.0, "write": 2.0})
    status.steps({"write": 0.5})
    status.lag_of_parts({"t/0": 7})
    status.table_files("a.b", BranchFileStats(manifests=120, manifest_list_bytes=9_000))
    status.maintained("a.b", 1.0, has_changed=False, small_files=70)
    registry = CollectorRegistry()
    registry.register(StatusCollector(lambda: [status.report()]))
    served = set(generate_latest(registry).decode().splitlines())
    assert {
        'calve_commit_seconds_bucket{le="0.1",pipeline="p"} 0.0',
        'calve_commit_seconds_bucket{le="0.25",pipeline="p"} 1.0',
        'calve_commit_seconds_bucket{le="60.0",pipeline="p"} 1.0',
        'calve_commit_seconds_bucket{le="+Inf",pipeline="p"} 2.0',
        'calve_commit_seconds_sum{pipeline="p"} 90.25',
        'calve_commit_conflicts_total{pipeline="p",table="a.b"} 3.0',
        'calve_backpressure_seconds_total{pipeline="p"} 1.5',
        'calve_step_seconds_total{pipeline="p",step="write"} 2.5',
        'calve_lag_partition_rows{partition="t/0",pipeline="p"} 7.0',
        'calve_table_manifests{pipeline="p",table="a.b"} 120.0',
        'calve_table_manifest_list_bytes{pipeline="p",table="a.b"} 9000.0',
        'calve_table_small_files{pipeline="p",table="a.b"} 70.0',
        'calve_commit_conflicts_by_commit_bucket{le="1",pipeline="p"} 1.0',
        'calve_commit_conflicts_by_commit_sum{pipeline="p"} 3.0',
        'calve_commit_retries_bucket{le="2",pipeline="p"} 1.0',
        'calve_commit_retries_count{pipeline="p"} 2.0',
    } <= served


def test_the_page_of_ten_thousand_tables_names_a_thousand_and_loses_no_count() -> None:
    status = PipelineStatus("p")
    names = [f"shop.t{number}" for number in range(10_000)]
    for number, name in enumerate(names):
        status.table_committed(name, 2, number)
        status.table_files(name, BranchFileStats(data_files=1, manifests=number))
        status.valid_through(name, datetime(2026, 11, 28, tzinfo=UTC) + timedelta(seconds=number))
    status.batch_written(BatchCounts(1, 9, nulled={name: {"n": 1} for name in names}), 0.1)
    status.batch_written(BatchCounts(2, 9, rejects={name: {"NO_KEY": 1} for name in names}), 0.1)
    status.trouble(CommitError("dropped"), table=names[-1])
    registry = CollectorRegistry()
    registry.register(StatusCollector(lambda: [status.report()]))
    page = generate_latest(registry).decode().splitlines()
    assert len(page) < 20_000
    others = {
        'calve_committed_rows_total{pipeline="p",table="(others)"} 18000.0',
        'calve_nulled_values_total{column="(others)",pipeline="p",table="(others)"} 9000.0',
        'calve_rejects_total{code="NO_KEY",pipeline="p",table="(others)"} 9000.0',
        'calve_table_manifests{pipeline="p",table="(others)"} 9999.0',
        'calve_table_held{pipeline="p",table="(others)"} 1.0',
        f'calve_valid_through_timestamp_seconds{{pipeline="p",table="(others)"}} {floatToGoString(1795825000)}',
        'calve_committed_rows_total{pipeline="p",table="shop.t999"} 2.0',
    }
    assert others - set(page) == set()
