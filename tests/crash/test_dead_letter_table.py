"""Wherever the driver or a worker dies: every reject is in the table of dead letters once, and is sent again once."""

from __future__ import annotations

import json
import os
import subprocess
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
        table_identifier: shop.points
        auto_create: true
        commit_interval: 100ms
        schema: {columns: [{name: id, type: long}, {name: name, type: string, required: true}]}
        dlq: {table: ops.dead}
"""
POINTS = ("task.in-write:2", "commit.before-swap:2", "commit.after-swap")
GOOD, BAD = 5, 3


def replay(calve: Calve, point: str = "") -> subprocess.CompletedProcess[str]:
    command = calve.command("dlq", "replay", "pipelines.yaml", "--master", "local[2]")
    environment = {**os.environ, VARIABLE: point}
    return subprocess.run(command, cwd=calve.folder, capture_output=True, text=True, timeout=240, env=environment)


@pytest.mark.crash
@pytest.mark.spark
def test_a_reject_is_in_its_table_once_and_sent_again_once_whatever_was_killed(tmp_path):
    calve = Calve(tmp_path, YAML)
    try:
        for number, point in enumerate(POINTS):
            _write(tmp_path / "in", number)
            code = calve.start("--once", "--give-up-after", "2s", environment={VARIABLE: point}).wait(120)
            assert code != 0, f"{point} was never reached"
        assert calve.once() == 0, calve.said()[-1500:]
    finally:
        calve.end()
    rejected = Counter(json.loads(row["event"])["id"] for row in calve.rows("ops.dead").to_pylist())
    assert rejected == Counter(range(len(POINTS) * BAD))
    tables = calve.status("points")["tables"]
    assert tables["ops.dead"]["rows"] == len(POINTS) * BAD
    assert tables["shop.points"]["rejects"] == {"REQUIRED_MISSING": len(POINTS) * BAD}
    with calve.catalog().load_table("shop.points").update_schema() as update:
        update.make_column_optional("name")
    assert replay(calve, "commit.after-swap").returncode != 0
    done = replay(calve)
    assert "9 events sent, 9 now in tables, 0 rejected again" in done.stdout, done.stdout + done.stderr
    rows = Counter(row["id"] for row in calve.rows("shop.points").to_pylist() if row["name"] is None)
    assert rows == rejected
    listed = calve.command("dlq", "list")
    said = subprocess.run(listed, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "points: 9 dead letters, 9 of them replayed" in said


def _write(folder, number):
    """Rows that fit, and some without the name that they must have."""
    folder.mkdir(exist_ok=True)
    events = [{"id": -1, "name": "x"}] * GOOD + [{"id": number * BAD + n} for n in range(BAD)]
    unfinished = folder / f".{number}"
    unfinished.write_text("".join(json.dumps(event) + "\n" for event in events))
    unfinished.rename(folder / f"{number:03}.ndjson")
