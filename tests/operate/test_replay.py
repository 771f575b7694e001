"""Dead letters that are sent again: into the table once, and told."""

from __future__ import annotations

import json

import pytest
from click.testing import Result

from kit.running import Calve

pytestmark = pytest.mark.spark

ONE = """
orders:
  source:
    file: {path: "in/*.ndjson"}
  sink:
    - iceberg:
        table_identifier: '%s'
        auto_create: %s
        dlq: rejected
        schema: {columns: [{name: id, type: long}, {name: name, type: string, required: %s}]}
"""
TWO = """
orders:
  source:
    file: {path: "in/*.ndjson"}
  sink:
    - iceberg: {table_identifier: '${getMetadata("file_path")=="x"}.a', auto_create: true}
    - iceberg: {table_identifier: "shop.row_${getMetadata(\\"file_row\\")}", auto_create: %s}
"""


def feed(calve: Calve, *events: object) -> None:
    (calve.folder / "in").mkdir()
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    (calve.folder / "in" / "1.ndjson").write_text("\n".join(lines) + "\n")


def replay(calve: Calve, *more: str) -> Result:
    return calve.call("dlq", "replay", "pipelines.yaml", "--give-up-after", "3s", *more)


def test_a_reject_is_in_the_table_once_when_the_table_was_mended_and_one_that_is_still_bad_is_a_new_reject(calve):
    job = calve(ONE % ("shop.orders", "true", "true"))
    feed(job, {"id": 1, "name": "x"}, {"id": 2}, {"id": 3}, "no JSON")
    assert job.once() == 0, job.said()
    assert job.rows("shop.orders")["id"].to_pylist() == [1]
    with job.catalog().load_table("shop.orders").update_schema() as update:
        update.make_column_optional("name")
    done = replay(job, "--code", "REQUIRED_MISSING")
    assert done.exit_code == 0, done.stderr
    assert "orders: 2 events sent, 2 now in tables, 0 rejected again" in done.stdout
    assert "dead letters sent again: 2 events, 2 rows (shop.orders 2), 0 rejected again" in job.call("status").stdout
    done = replay(job)
    assert "orders: 1 event sent, 0 now in tables, 1 rejected again" in done.stdout
    [again] = (job.folder / "rejected").glob("orders.replay-*.ndjson")
    assert str(again) in done.stdout
    assert "orders: 1 dead letter, 3 more replayed" in job.call("dlq", "list").stdout
    assert "orders: 1 event sent, 0 now in tables, 1 rejected again" in replay(job).stdout
    assert "orders: 1 dead letter, 3 more replayed" in job.call("dlq", "list").stdout  # no further letter
    [again] = (job.folder / "rejected").glob("orders.replay-*.ndjson")
    entry = json.loads(again.read_text())
    assert entry["metadata"]["replays"] == 2
    assert (entry["pipeline"], entry["code"], entry["event"]) == ("orders", "MALFORMED", "no JSON")
    assert entry["metadata"]["file_row"] == 4
    assert entry["metadata"]["replayed_from"].startswith("orders.replay-")
    done = replay(job, "--table", "shop.orders", "--code", "REQUIRED_MISSING")
    assert (done.exit_code, done.stdout) == (0, "orders: nothing to replay\n")
    assert sorted(job.rows("shop.orders")["id"].to_pylist()) == [1, 2, 3]


def test_only_the_sink_that_rejected_an_event_gets_it_again_by_the_metadata_it_came_with(calve):
    job = calve(TWO % "false")
    feed(job, {"id": 1}, {"id": 2})
    assert job.once() == 0, job.said()
    assert job.rows("false.a").num_rows == 2
    job.configure(TWO % "true")
    done = replay(job)
    assert "orders: 2 events sent, 2 now in tables, 0 rejected again" in done.stdout, done.stderr
    assert [job.rows(f"shop.row_{row}").to_pylist() for row in (1, 2)] == [[{"id": 1}], [{"id": 2}]]
    assert job.rows("false.a").num_rows == 2
    assert replay(job).stdout == "orders: nothing to replay\n"
