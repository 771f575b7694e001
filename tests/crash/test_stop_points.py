"""Wherever on the path the driver or a worker dies: after a restart every row and every dead letter is there once."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from calve.stop_point import VARIABLE
from running import Calve

YAML = """
points:
  source:
    file: {path: "in/*.ndjson"}
  sink:
    - iceberg:
        table_identifier: "points.t${/t}"
        auto_create: true
        schema_evolution: true
        commit_interval: 100ms
"""
TABLES = 3
POINTS = (
    "catalog.after-create:2",
    "task.in-write:2",
    "catalog.after-evolve",
    "ledger.after-begin",
    "pipeline.after-stage",
    "pipeline.after-publish",
    "commit.before-swap:2",
    "commit.after-swap:2",
    "commit.after-table:2",
    "pipeline.after-acknowledge",
)


@pytest.mark.crash
@pytest.mark.spark
def test_every_row_and_every_reject_is_there_once_wherever_the_process_died(tmp_path):
    calve = Calve(tmp_path, YAML)
    try:
        for number, point in enumerate(POINTS):
            _write(tmp_path / "in", number)
            code = calve.start("--once", "--give-up-after", "2s", environment={VARIABLE: point}).wait(60)
            assert code != 0, f"{point} was never reached: {calve.said()[-1500:]}"
        assert calve.once() == 0, calve.said()[-1500:]
    finally:
        calve.end()
    _check(calve, len(POINTS))


def _write(folder, number):
    """A file for every run: 60 events for three tables, a new field in each file, and two lines that are rejected."""
    folder.mkdir(exist_ok=True)
    events = [{"id": number * 60 + i, "t": i % TABLES, f"f{number}": i} for i in range(60)]
    lines = [json.dumps(event) for event in events] + [f'{{"bad": {number}', f"[{number}]"]
    unfinished = folder / f".{number}"
    unfinished.write_text("\n".join(lines) + "\n")
    unfinished.rename(folder / f"{number:03}.ndjson")


def _check(calve, files):
    found = Counter()
    for number in range(TABLES):
        rows = calve.rows(f"points.t{number}").to_pylist()
        found.update(row["id"] for row in rows)
        assert all(row[f"f{row['id'] // 60}"] == row["id"] % 60 for row in rows)
    assert found == Counter(range(files * 60))
    rejected = Counter(entry["event"] for entry in calve.dead_letters("points"))
    expected = [text for n in range(files) for text in (f'{{"bad": {n}', f"[{n}]")]
    assert rejected == Counter(expected)
