"""The metrics that say what is slow: commits as a histogram, conflicts, backpressure, steps, the lag of partitions."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from calve.observe.metrics import StatusCollector
from calve.observe.report import BranchFileStats
from calve.observe.status import PipelineStatus


def test_what_is_slow_is_served() -> None:
    status = PipelineStatus("p")
    status.commit_took("a.b", 0.25, 2)
    status.commit_took("a.b", 90.0, 1)
    status.held_back(1.5)
    status.steps({"read": 1.0, "write": 2.0})
    status.steps({"write": 0.5})
    status.lag_of_parts({"t/0": 7})
    status.table_files("a.b", BranchFileStats(manifests=12))
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
        'calve_table_manifests{pipeline="p",table="a.b"} 12.0',
    } <= served
