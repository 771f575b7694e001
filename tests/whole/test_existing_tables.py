"""Options that an existing table does not follow, and a table that is gone, are said; nothing of it is silent."""

from __future__ import annotations

import json

import pytest
from pyiceberg.catalog.sql import SqlCatalog

pytestmark = pytest.mark.spark


def yaml(**options) -> str:
    sink = {"table_identifier": "shop.t", "auto_create": True, **options}
    return json.dumps({"shop": {"source": {"file": {"path": "in/*.ndjson"}}, "sink": [{"iceberg": sink}]}})


def test_options_that_an_existing_table_does_not_follow_and_a_table_that_is_gone_are_said(calve) -> None:
    job = calve(yaml(partition_by=["day(tz)"], sort_by=["id desc"], table_properties={"a": "1"}))

    def said(number: int) -> str:
        """Return what a run says that reads one more event."""
        (job.folder / "in").mkdir(exist_ok=True)
        (job.folder / "in" / f"{number}.ndjson").write_text(f'{{"id": {number}, "ts": "2026-01-01T00:00:00Z"}}\n')
        before = len(job.said())
        assert job.once() == 0, job.said()
        return job.said()[before:]

    first = said(1)
    assert "no event has tz of partition_by; shop.t has the column all the same, a timestamptz" in first
    assert "only for new tables" not in first
    assert "only for new tables" not in said(2)
    properties = {"a": "1", "b": "2", "format-version": "3"}
    job.configure(yaml(partition_by=["day(ts)"], sort_by=["id"], table_properties=properties))
    changed = said(3)
    assert (
        "partition_by is only for new tables: shop.t is partitioned by day(tz), not by day(ts). ALTER TABLE" in changed
    )
    assert "sort_by is only for new tables: shop.t is sorted by id desc, not by id asc. ALTER TABLE" in changed
    assert "of shop.t b is not set, not 2, format-version is 2, not 3. ALTER TABLE" in changed
    lakehouse = SqlCatalog("lakehouse", uri=f"sqlite:///{job.folder}/lakehouse/catalog.db")
    lakehouse.drop_table("shop.t")
    assert "shop.t, which earlier runs have written, was gone: it has no row from before now" in said(4)
    lakehouse.close()


def test_a_pipeline_of_the_old_default_says_once_what_changes_and_goes_on_exactly(calve) -> None:
    old, new = (
        yaml(upsert=True, identifier_columns=["id"], **more) for more in ({"write_mode": "equality-delete"}, {})
    )
    job = calve(old)
    (job.folder / "in").mkdir(exist_ok=True)
    unread = (
        "rows are changed by equality deletes, which Spark, Trino, Flink and DuckDB read, and PyIceberg and Snowflake "
        "do not; for these remove write_mode: equality-delete"
    )
    changed = "rows of equality deletes. From now on its rows are deleted by position"

    def feed(number: int) -> None:
        rows = "".join(f'{{"id": {key}, "n": {number}}}\n' for key in (number, 1, 9))
        (job.folder / "in" / f"{number}.ndjson").write_text(rows)

    def runs(number: int) -> int:
        feed(number)
        return int(job.once())

    assert [runs(number) for number in range(2)] == [0, 0], job.said()
    feed(2)
    job.killed_at("pipeline.after-stage")
    assert (job.said().count(unread), job.said().count(changed)) == (3, 0)
    lakehouse = SqlCatalog("lakehouse", uri=f"sqlite:///{job.folder}/lakehouse/catalog.db")
    with pytest.raises(ValueError, match="equality deletes"):
        lakehouse.load_table("shop.t").scan().to_arrow()
    job.configure(new)
    assert [runs(number) for number in (3, 4)] == [0, 0], job.said()
    assert (job.said().count(unread), job.said().count(changed)) == (3, 1)
    rows = lakehouse.load_table("shop.t").scan().to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["n"]) for row in rows] == [(0, 0), (1, 4), (2, 2), (3, 3), (4, 4), (9, 4)]
    lakehouse.close()
