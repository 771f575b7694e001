"""The same pipelines on a REST catalog with its tables in S3: `catalog:` changes and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg.catalog import load_catalog

from kit.running import Calve
from services.objects import ObjectStore

pytestmark = [pytest.mark.spark, pytest.mark.services]

SINK = {"table_identifier": "lake_${/kind}.events", "auto_create": True, "schema_evolution": True}
EVENTS = [{"id": number, "kind": ("a", "b")[number % 2], "at": "2026-03-04T05:06:07Z"} for number in range(1000)]
KEYED = {"auto_create": True, "identifier_columns": ["id"]}
ROWS = KEYED | {
    "table_identifier": "lake.rows",
    "operation": "${/op}",
    "write_mode": "equality-delete",
    "exclude_keys": ["op"],
    "dlq": {"table": "ops.dead"},
}
COPY = KEYED | {"operation": '${getMetadata("iceberg_operation")}'}
LATER = [("update", 1, "y"), ("delete", 2, None), ("insert", 20, "x"), ("update", 3, "y")]


def test_a_rest_catalog_on_s3_works_with_nothing_changed_but_the_catalog(object_store: ObjectStore, calve) -> None:
    here = _run(calve, {}, "here")
    local = {kind: here.rows(f"lake_{kind}.events") for kind in "ab"}
    theirs = object_store.rest_catalog()
    there = _run(calve, {"catalog": theirs}, "there", _follow(theirs, ["rows"]))
    there.configure(json.dumps(_pipelines({"catalog": theirs}) | _follow(theirs, ["copy"])))
    assert there.once() == 0, there.said()[-2000:]  # and adds nothing to the tables of events
    catalog = load_catalog("theirs", **theirs)
    for kind in "ab":
        table = catalog.load_table(f"lake_{kind}.events")
        assert table.location().startswith("s3://")
        rows = table.scan().to_arrow()
        assert rows.sort_by("id").to_pylist() == local[kind].sort_by("id").to_pylist()
        assert [each["id"] for each in rows.sort_by("id").to_pylist()] == [
            each["id"] for each in EVENTS if each["kind"] == kind
        ]
    assert [each["event"] for each in there.dead_letters("orders")] == ["no JSON"]
    flags = [word for key, value in theirs.items() for word in ("--catalog", f"{key}={value}")]
    listed = json.loads(_said(there, "tables", "--json", *flags))["tables"]
    assert {"lake_a.events", "lake_b.events"} <= {each["table"] for each in listed}
    shown = _said(there, "show", "lake_a.events", "--columns", "id", "--limit", "0", "--json", *flags)
    ids = sorted(json.loads(line)["id"] for line in shown.splitlines())
    assert ids == [each["id"] for each in EVENTS if each["kind"] == "a"]
    assert json.loads(_said(there, "sql", "SELECT count(*) AS n FROM lake_b.events", "--json", *flags)) == {"n": 500}
    _changes_reach_the_mirror_beside_maintenance(there, theirs)


def test_a_warehouse_that_is_missing_stops_the_pipeline_and_rejects_nothing(object_store: ObjectStore, calve) -> None:
    """The catalog says of each table that its namespace is missing; that is not the fault of the events."""
    theirs = object_store.rest_catalog() | {"warehouse": "s3://elsewhere/"}
    sink = {"table_identifier": "out.${/kind}", "auto_create": True, "catalog": theirs}
    job = calve(json.dumps({"p": {"source": {"file": {"path": "in.ndjson"}}, "sink": [{"iceberg": sink}]}}))
    (job.folder / "in.ndjson").write_text('{"kind": "a"}\n')
    ended = job.call("run", "pipelines.yaml", "--once", "--give-up-after", "1s", "--metrics-port", "0")
    assert ended.exit_code == 1
    assert "correct `warehouse` in `catalog:`" in ended.output
    assert not job.dead_letters("p")


def _changes_reach_the_mirror_beside_maintenance(there: Calve, theirs: dict[str, str]) -> None:
    """A load, then changes whose snapshots are expired by then; the rejects of the table are sent again."""
    flags = [word for key, value in theirs.items() for word in ("--catalog", f"{key}={value}")]
    _change(there, "rows-2.ndjson", LATER)
    there.configure(json.dumps(_follow(theirs, ["rows"])))
    assert there.once() == 0, there.said()[-2000:]
    [kept] = json.loads(_said(there, "maintain", "lake.rows", "--older-than", "0s", "--force", "--json", *flags))[
        "tables"
    ]
    assert (kept["before"]["equality_delete_files"], kept["after"]["equality_delete_files"]) == (1, 0)
    there.configure(json.dumps(_follow(theirs, ["rows", "copy"])))
    assert there.once() == 0, there.said()[-2000:]
    catalog = load_catalog("theirs", **theirs)
    wanted = {key: "x" for key in range(10) if key != 2} | {1: "y", 3: "y", 20: "x"}
    for name in ("lake.rows", "lake.copy"):
        found = catalog.load_table(name).scan().to_arrow().to_pylist()
        assert sorted((row["id"], row["city"]) for row in found) == sorted(wanted.items())
    summaries = [one.summary for one in catalog.load_table("lake.copy").snapshots()]
    assert int(summaries[-1]["total-position-deletes"] or 0) == 3
    assert not any(one["spark.app.id"] for one in summaries)  # no MERGE has found them
    assert "1 event sent, 0 now in tables, 1 rejected again" in _said(
        there, "dlq", "replay", "pipelines.yaml", "--pipeline", "rows"
    )
    [listed] = json.loads(_said(there, "dlq", "list", "--pipeline", "rows", "--json", *flags))["pipelines"]
    assert (listed["entries"], listed["replayed"], listed["tables"]) == (1, 1, ["ops.dead"])


def _said(job: Calve, *arguments: str) -> str:
    done = job.call(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def _pipelines(catalog: dict[str, Any]) -> dict[str, Any]:
    return {"orders": {"source": {"file": {"path": "events.ndjson"}}, "sink": [{"iceberg": SINK | catalog}]}}


def _follow(theirs: dict[str, str], names: list[str]) -> dict[str, Any]:
    """A table with changes, and one that follows it."""
    table = {"iceberg": {"catalog": theirs, "tables": [{"table_name": "lake.rows"}]}}
    rows = {"source": {"file": {"path": "rows-*.ndjson"}}, "sink": [{"iceberg": ROWS | {"catalog": theirs}}]}
    copy = {"source": table, "sink": [{"iceberg": COPY | {"table_identifier": "lake.copy", "catalog": theirs}}]}
    return {name: {"rows": rows, "copy": copy}[name] for name in names}


def _change(job: Calve, file: str, changes: list[tuple[str, int, str | None]]) -> None:
    lines = [json.dumps({"op": word, "id": key, "city": city}) for word, key, city in changes]
    (job.folder / file).write_text("\n".join([*lines, *(["no JSON"] if file.endswith("-1.ndjson") else [])]) + "\n")


def _run(calve, catalog: dict[str, Any], name: str, more: dict[str, Any] | None = None) -> Calve:
    job: Calve = calve(json.dumps(_pipelines(catalog) | (more or {})), name)
    _change(job, "rows-1.ndjson", [("insert", key, "x") for key in range(10)])
    lines = [json.dumps(each) for each in EVENTS]
    (job.folder / "events.ndjson").write_text("\n".join([*lines[:500], "no JSON", *lines[500:]]) + "\n")
    assert job.once() == 0, job.said()[-2000:]
    return job
