"""Receivers of `notify` learn of every commit, at least once and with the same id, wherever the process died."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from kit.running import Calve

POINTS = ("commit.after-swap", "commit.after-table", "pipeline.after-keep", "ledger.before-stage")
"""Behind each of these something was committed, announced or changed that the next process must know."""
YAML = """
shop:
  source:
    file: {path: "in/*.ndjson"}
  notify:
    - file: {path: all.ndjson}
    - http: {url: "http://127.0.0.1:9/"}
  sink:
    - iceberg:
        table_identifier: "shop.${/t}"
        auto_create: true
        schema_evolution: true
        event_time: at
        column_types: {at: timestamptz}
        partition_by: ["day(at)"]
    - iceberg:
        table_identifier: shop.copy
        auto_create: true
        notify: [{file: {path: copy.ndjson}, events: [table.committed, schema.changed]}]
"""


def feed(job: Calve, number: int, *events: dict[str, Any]) -> None:
    (job.folder / "in").mkdir(exist_ok=True)
    path = job.folder / "in" / f"{number:03}.ndjson"
    path.write_text("".join(json.dumps(event) + "\n" for event in events) + "broken\n")


def lines(job: Calve, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (job.folder / name).read_text().splitlines()]


@pytest.mark.spark
def test_every_commit_is_told_with_one_id_wherever_the_process_died_and_although_a_receiver_is_dead(calve) -> None:
    job: Calve = calve(YAML)
    for number, point in enumerate(POINTS):
        feed(job, number, *({"t": t, "at": f"2026-01-{number + 1:02}T12:00:00Z", f"f{number}": 1} for t in "ab"))
        job.killed_at(point)
    assert job.once() == 0, job.said()
    events = lines(job, "all.ndjson")
    by_id = defaultdict(list)
    for event in events:
        by_id[event["id"]].append(event["data"])
    assert all(data == same[0] for same in by_id.values() for data in same)
    for table in ("shop.a", "shop.b", "shop.copy"):
        data_by_snapshot = {
            same[0]["snapshot_id"]: same[0]
            for same in by_id.values()
            if "snapshot_id" in same[0] and same[0]["table"] == table
        }
        snapshots = job.catalog().load_table(table).metadata.snapshots
        assert set(data_by_snapshot) == {str(snapshot.snapshot_id) for snapshot in snapshots}
        assert sum(data["rows"] for data in data_by_snapshot.values()) == len(job.rows(table))
        batches = [event["data"]["batches"] for event in events if event["data"].get("snapshot_id") in data_by_snapshot]
        assert batches == sorted(batches)
    days = [data[0]["partition"] for data in by_id.values() if "partition" in data[0] and data[0]["table"] == "shop.a"]
    assert days == [f"2026-01-{day:02}" for day in range(1, len(POINTS))]
    types = {event["type"] for event in events}
    assert types == {"table.committed", "commit.complete", "partition.complete", "schema.changed", "rejects"}
    assert {event["subject"] for event in lines(job, "copy.ndjson")} == {"shop.copy"}
    dead = job.status("shop")["notify"]["http://127.0.0.1:9/"]
    assert (dead["sent"], dead["waiting"]) == (0, len(by_id))
