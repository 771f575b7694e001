"""Sinks that write some fields of an event (`include_keys`, `exclude_keys`)."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import Row

from kit.running import Calve

pytestmark = pytest.mark.spark

YAML = """
keys:
  source: {file: {path: events.ndjson}}
  route:
    - known: /secret != null
  sink:
    - iceberg:
        table_identifier: few.${/kind}
        auto_create: true
        schema_evolution: true
        routes: [known]
        include_keys: [id, new]
        commit_interval: 200ms
    - iceberg:
        table_identifier: most.all
        auto_create: true
        schema: {columns: [{name: id, type: long, required: true}, {name: secret, type: string}]}
        schema_evolution: true
        exclude_keys: [secret]
"""
EVENTS = (
    '{"id": 1, "kind": "a", "secret": {"x": 1}}',
    '{"id": 2, "kind": "a", "new": 1.5, "secret": 5}',
    '{"kind" : "a", "secret": "only here"}',
    '{"id": 3, "kind": "b"}',
)


def test_routes_table_names_and_dead_letters_know_the_fields_that_are_not_written(calve) -> None:
    job: Calve = calve(YAML)
    (job.folder / "events.ndjson").write_text("\n".join(EVENTS) + "\n")
    assert job.once() == 0, job.said()
    few, most = job.rows("few.a"), job.rows("most.all")
    assert few.sort_by("id").to_pylist() == [{"id": 1, "new": None}, {"id": 2, "new": 1.5}]
    assert job.tables("few") == ["few.a"]
    assert most.sort_by("id").to_pylist() == [
        {"id": 1, "secret": None, "kind": "a", "new": None},
        {"id": 2, "secret": None, "kind": "a", "new": 1.5},
        {"id": 3, "secret": None, "kind": "b", "new": None},
    ]
    rejects = {(each["table"], each["code"], each["field"], each["event"]) for each in job.dead_letters("keys")}
    assert rejects == {
        ("few.a", "NO_MATCHING_FIELDS", "", EVENTS[2]),
        ("most.all", "REQUIRED_MISSING", "id", EVENTS[2]),
    }


DOTTED = """
dotted:
  source: {file: {path: "in/*.ndjson"}}
  sink:
    - iceberg:
        table_identifier: lake.merged
        auto_create: true
        schema_evolution: true
        operation: "${/op}"
        identifier_columns: [user.id]
        write_mode: merge-on-read
        partial_updates: keep
        partition_by: ["truncate(1, user.kind)"]
    - iceberg:
        table_identifier: lake.deleted
        auto_create: true
        operation: "${/op}"
        identifier_columns: [user.id]
        write_mode: equality-delete
        partition_by: ["bucket(2, user.id)"]
"""


def test_names_with_dots_are_keys_partitions_and_columns_in_every_write_mode(calve) -> None:
    job: Calve = calve(DOTTED)
    (job.folder / "in").mkdir()
    rows = [{"user.id": n, "user.kind": "ab"[n % 2], "user.name": f"n{n}", "op": "c"} for n in range(6)]
    (job.folder / "in" / "0.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert job.once() == 0, job.said()
    changes = [
        {"user.id": 1, "user.name": "new", "op": "u"},
        {"user.id": 2, "op": "d"},
        {"user.id": 9, "user.name": "first", "user.kind": "a", "op": "u"},
    ]
    (job.folder / "in" / "1.ndjson").write_text("".join(json.dumps(row) + "\n" for row in changes))
    assert job.once() == 0, job.said()
    names = {0: "n0", 1: "new", 3: "n3", 4: "n4", 5: "n5", 9: "first"}
    for table in ("lake.merged", "lake.deleted"):
        found = {
            row["user.id"]: (row["user.name"], row["user.kind"])
            for row in map(Row.asDict, job.shared_spark().table(f"lakehouse.{table}").collect())
        }
        assert {key: name for key, (name, _) in found.items()} == names
        assert found[1][1] == ("b" if table == "lake.merged" else None)
    assert not list(job.dead_letters("dotted"))
