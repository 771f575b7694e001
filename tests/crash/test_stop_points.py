"""Wherever on the path the driver or a worker dies: after a restart every row and every dead letter is there once."""

from __future__ import annotations

import json
from collections import Counter

import pytest

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
        metadata_columns: {_source: file_path, _row: file_row, _batch: batch}
    - iceberg:
        table_identifier: shop.points
        auto_create: true
        commit_interval: 100ms
        schema: {columns: [{name: id, type: long}, {name: name, type: string, required: true}]}
        dlq: {table: ops.dead}
"""
TABLES = 3
EVENTS = 60
NAMELESS = 20
"""Each such event lacks the name that `shop.points` wants."""
POINTS = (
    "catalog.after-create:4",
    "task.in-write:2",
    "catalog.after-evolve",
    "pipeline.after-stage",
    "pipeline.after-publish",
    "commit.after-swap:2",
    "commit.after-table:2",
    "pipeline.after-acknowledge",
)
OF_PROCESSES = ("catalog.after-create:4", "task.in-write:2", "commit.after-swap:2")
"""At these a process is killed; at the others its folder is left as if. `make crash` kills processes at all of them."""


@pytest.mark.crash
@pytest.mark.spark
def test_every_row_and_every_reject_is_there_once_and_sent_again_once_wherever_the_process_died(doomed):
    calve = doomed(YAML)
    for number, point in enumerate(POINTS):
        calve.feed(number, _events(number), f'{{"bad": {number}', f"[{number}]")
        (calve.dies_at if point in OF_PROCESSES else calve.killed_at)(point)
    assert calve.once() == 0, calve.said()[-1500:]
    _check(calve, len(POINTS))
    _check_again(calve, len(POINTS))


def _events(number):
    """60 events for three tables, with a new field in each file."""
    ids = range(number * EVENTS, (number + 1) * EVENTS)
    named = [{} if each % NAMELESS == 0 else {"name": "x"} for each in ids]
    return [{"id": each, "t": each % TABLES, f"f{number}": each % EVENTS} | name for each, name in zip(ids, named)]


def _check(calve, files):
    found = Counter()
    for number in range(TABLES):
        rows = calve.rows(f"points.t{number}").to_pylist()
        found.update(row["id"] for row in rows)
        assert all(row[f"f{row['id'] // EVENTS}"] == row["id"] % EVENTS == row["_row"] - 1 for row in rows)
        assert len({(row["_source"], row["_batch"]) for row in rows}) == len({row["_source"] for row in rows}) == files
    assert found == Counter(range(files * EVENTS))
    rejected = Counter(entry["event"] for entry in calve.dead_letters("points"))
    expected = [text for n in range(files) for text in (f'{{"bad": {n}', f"[{n}]")]
    assert rejected == Counter(expected)
    nameless = Counter(range(0, files * EVENTS, NAMELESS))
    assert Counter(calve.rows("shop.points")["id"].to_pylist()) == found - nameless
    assert Counter(json.loads(row["event"])["id"] for row in calve.rows("ops.dead").to_pylist()) == nameless
    tables = calve.status("points")["tables"]
    assert tables["ops.dead"]["rows"] == nameless.total()
    assert tables["shop.points"]["rejects"] == {"REQUIRED_MISSING": nameless.total()}


def _check_again(calve, files):
    """Mended, the table takes what it refused; the replay is killed once, too."""
    with calve.catalog().load_table("shop.points").update_schema() as update:
        update.make_column_optional("name")
    calve.killed_at("commit.after-swap", "dlq", "replay", "pipelines.yaml")
    done = calve.call("dlq", "replay", "pipelines.yaml")
    nameless, broken = files * EVENTS // NAMELESS, 2 * files
    assert f"{nameless} now in tables, {broken} rejected again" in done.stdout, done.stdout + done.stderr
    assert Counter(calve.rows("shop.points")["id"].to_pylist()) == Counter(range(files * EVENTS))
    assert f"{broken} dead letters, {nameless + broken} more replayed" in calve.call("dlq", "list").stdout
