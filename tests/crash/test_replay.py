"""Wherever a replay dies: called again, every dead letter is in its table once, or once more a dead letter."""

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
        table_identifier: "points.t${/t}"
        auto_create: %s
        commit_interval: 100ms
        max_batch_bytes: 1b
"""
POINTS = (
    "ledger.after-begin",
    "task.in-write",
    "pipeline.after-stage",
    "pipeline.after-publish",
    "commit.after-swap",
    "pipeline.after-acknowledge",
    "ledger.after-committed",
)
EVENTS = 10


def replay(calve: Calve, point: str = "") -> subprocess.CompletedProcess[str]:
    command = calve.command("dlq", "replay", "pipelines.yaml", "--master", "local[2]", "--give-up-after", "2s")
    environment = {**os.environ, VARIABLE: point}
    return subprocess.run(command, cwd=calve.folder, capture_output=True, text=True, timeout=240, env=environment)


@pytest.mark.crash
@pytest.mark.spark
def test_a_replay_that_is_killed_and_called_again_sends_each_dead_letter_once(tmp_path):
    calve = Calve(tmp_path, YAML % "false")
    (tmp_path / "in").mkdir()
    for file in range(len(POINTS) + 1):
        events = [{"id": file * EVENTS + n, "t": n % 2} for n in range(EVENTS)]
        lines = [*map(json.dumps, events), f"[{file}]"]
        (tmp_path / "in" / f"{file}.ndjson").write_text("\n".join(lines) + "\n")
    try:
        assert calve.once() == 0, calve.said()
    finally:
        calve.end()
    calve.configure(YAML % "true")
    for point in POINTS:
        assert replay(calve, point).returncode != 0, f"{point} was never reached"
    assert replay(calve).returncode == 0
    rows = Counter(row["id"] for t in range(2) for row in calve.rows(f"points.t{t}").to_pylist())
    assert rows == Counter(range(EVENTS * (len(POINTS) + 1)))
    malformed = Counter(entry["event"] for entry in calve.dead_letters("points") if entry["code"] == "MALFORMED")
    assert malformed == {f"[{file}]": 2 for file in range(len(POINTS) + 1)}
