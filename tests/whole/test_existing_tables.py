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
    job = calve(yaml(partition_by=["day(tz)"], table_properties={"a": "1"}))

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
    job.configure(yaml(partition_by=["day(ts)"], table_properties={"a": "1", "b": "2", "format-version": "3"}))
    changed = said(3)
    assert (
        "partition_by is only for new tables: shop.t is partitioned by day(tz), not by day(ts). ALTER TABLE" in changed
    )
    assert "of shop.t b is not set, not 2, format-version is 2, not 3. ALTER TABLE" in changed
    lakehouse = SqlCatalog("lakehouse", uri=f"sqlite:///{job.folder}/lakehouse/catalog.db")
    lakehouse.drop_table("shop.t")
    assert "shop.t, which earlier runs have written, was gone: it has no row from before now" in said(4)
    lakehouse.close()


@pytest.mark.parametrize("mode", ["equality-delete", "merge-on-read"])
def test_a_start_says_which_readers_cannot_read_the_table_and_how_to_choose(calve, mode) -> None:
    job = calve(yaml(upsert=True, identifier_columns=["id"], write_mode=mode))
    (job.folder / "in").mkdir(exist_ok=True)
    for number in range(2):
        (job.folder / "in" / f"{number}.ndjson").write_text('{"id": 1}\n')
        assert job.once() == 0, job.said()
    line = (
        "rows are changed by equality deletes, which Spark, Trino, Flink and DuckDB read, and PyIceberg and Snowflake "
        "do not; for these set write_mode: merge-on-read"
    )
    is_unread = mode == "equality-delete"
    assert job.said().count(line) == 2 * is_unread
    lakehouse = SqlCatalog("lakehouse", uri=f"sqlite:///{job.folder}/lakehouse/catalog.db")
    scan = lakehouse.load_table("shop.t").scan()
    if is_unread:
        with pytest.raises(ValueError, match="equality deletes"):
            scan.to_arrow()
    else:
        assert scan.to_arrow()["id"].to_pylist() == [1]
    lakehouse.close()
