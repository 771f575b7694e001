"""Sinks that write some fields of an event (`include_keys`, `exclude_keys`)."""

from __future__ import annotations

import pytest

from running import Calve

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
