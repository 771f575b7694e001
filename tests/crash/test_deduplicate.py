"""Wherever the process dies, an event passes once, and its repetitions are dropped in later runs, too."""

from __future__ import annotations

from collections import Counter

import pytest

YAML = """
points:
  source:
    file: {path: "in/*.ndjson"}
  processor:
    - deduplicate: {keys: [id], window: 1h}
  sink:
    - iceberg: {table_identifier: points.once, auto_create: true, commit_interval: 100ms, max_batch_bytes: 1b}
"""
POINTS = ("task.after-keys", "pipeline.after-stage:2")
EVENTS = 20


@pytest.mark.crash
@pytest.mark.spark
def test_each_event_passes_once_over_kills_and_runs(doomed):
    calve = doomed(YAML)
    for number, point in enumerate(POINTS):
        ids = [*range(EVENTS * (number + 1)), number]
        calve.feed(2 * number, ({"id": each, "file": number} for each in ids))
        calve.feed(2 * number + 1, ({"id": each, "file": number} for each in reversed(ids)))
        (calve.dies_at if point.startswith("task.") else calve.killed_at)(point)
    assert calve.once() == 0, calve.said()[-1500:]
    rows = calve.rows("points.once").to_pylist()
    assert Counter(row["id"] for row in rows) == Counter(range(EVENTS * len(POINTS)))
    assert all(row["file"] == row["id"] // EVENTS for row in rows), "the first one passes"
    report = calve.status("points")
    assert (report["events"], report["duplicates"], report["dropped"]) == (124, 84, 84)
    metrics = report["tables"]["points.once"]["rows"]
    assert metrics == EVENTS * len(POINTS)
    named = calve.folder / "calve-state" / "points"
    assert len([*(named / "seen").iterdir()]) <= 3
