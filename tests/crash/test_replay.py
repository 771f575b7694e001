"""Wherever a replay dies: called again, every dead letter is in its table once, or once more a dead letter."""

from __future__ import annotations

import hmac
from collections import Counter

import pytest

YAML = """
points:
  source:
    file: {path: "in/*.ndjson"}
  processor:
    - mask:
        unmasked: keep
        key: "a key of 16 bytes"
        columns: [{names: [secret], action: hash}]
  sink:
    - iceberg:
        table_identifier: "points.t${/t}"
        auto_create: %s
        commit_interval: 100ms
        max_batch_bytes: 1b
"""
POINTS = ("pipeline.after-publish", "ledger.after-committed")
"""`test_stop_points` has what a batch of dead letters goes through as any other, and a replay that dies behind its commit."""
EVENTS = 10


@pytest.mark.crash
@pytest.mark.spark
def test_a_replay_that_is_killed_and_called_again_sends_each_dead_letter_once(doomed):
    calve = doomed(YAML % "false")
    for file in range(len(POINTS) + 1):
        calve.feed(file, ({"id": file * EVENTS + n, "t": n % 2, "secret": "s"} for n in range(EVENTS)), f"[{file}]")
    assert calve.once() == 0, calve.said()
    calve.configure(YAML % "true")
    calve.replay_dies_at(POINTS[0])
    calve.killed_at(POINTS[1], "dlq", "replay", "pipelines.yaml")
    assert calve.call("dlq", "replay", "pipelines.yaml").exit_code == 0
    rows = Counter((row["id"], row["secret"]) for t in range(2) for row in calve.rows(f"points.t{t}").to_pylist())
    once = hmac.new(b"a key of 16 bytes", b"s", "sha256").hexdigest()
    assert rows == Counter((number, once) for number in range(EVENTS * (len(POINTS) + 1))), "masked once"
    malformed = Counter(entry["event"] for entry in calve.dead_letters("points") if entry["code"] == "MALFORMED")
    assert malformed == {f"[{file}]": 2 for file in range(len(POINTS) + 1)}
