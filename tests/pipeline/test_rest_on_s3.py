"""The same pipeline on a REST catalog with its tables in S3: `catalog:` changes and nothing else."""

from __future__ import annotations

import json

import pytest
from pyiceberg.catalog import load_catalog

from running import Calve
from services.objects import ObjectStore

pytestmark = [pytest.mark.spark, pytest.mark.services]

SINK = {"table_identifier": "lake_${/kind}.events", "auto_create": True, "schema_evolution": True}
EVENTS = [{"id": number, "kind": ("a", "b")[number % 2], "at": "2026-03-04T05:06:07Z"} for number in range(1000)]


def test_a_rest_catalog_on_s3_works_with_nothing_changed_but_the_catalog(object_store: ObjectStore, calve) -> None:
    here = _run(calve, {}, "here")
    local = {kind: here.rows(f"lake_{kind}.events") for kind in "ab"}
    there = _run(calve, {"catalog": object_store.rest_catalog()}, "there")
    assert there.once() == 0  # and adds nothing
    catalog = load_catalog("theirs", **object_store.rest_catalog())
    for kind in "ab":
        table = catalog.load_table(f"lake_{kind}.events")
        assert table.location().startswith("s3://")
        rows = table.scan().to_arrow()
        assert rows.sort_by("id").to_pylist() == local[kind].sort_by("id").to_pylist()
        assert [each["id"] for each in rows.sort_by("id").to_pylist()] == [
            each["id"] for each in EVENTS if each["kind"] == kind
        ]
    assert [each["event"] for each in there.dead_letters("orders")] == ["no JSON"]


def _run(calve, catalog: dict[str, object], name: str) -> Calve:
    source = {"file": {"path": "events.ndjson"}}
    job: Calve = calve(json.dumps({"orders": {"source": source, "sink": [{"iceberg": SINK | catalog}]}}), name)
    lines = [json.dumps(each) for each in EVENTS]
    (job.folder / "events.ndjson").write_text("\n".join([*lines[:500], "no JSON", *lines[500:]]) + "\n")
    assert job.once() == 0, job.said()[-2000:]
    return job
