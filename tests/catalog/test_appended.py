"""Which changes of rows need no Spark, and that they are all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from calve.catalog.appended import appended_lines
from calve.errors import PositionLostError


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """Ids in two snapshots of a new table."""
    catalog = SqlCatalog("lakehouse", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("shop")
    created = catalog.create_table("shop.t", pa.schema([("id", pa.int64()), ("word", pa.string())]))
    created.append(_rows((1, "a|b"), (2, None)))
    created.append(_rows((3, "")))
    yield created
    catalog.close()


def _rows(*rows: tuple[int, str | None]) -> pa.Table:
    return pa.Table.from_pylist([{"id": number, "word": word} for number, word in rows])


def _ids(lines: Iterator[str] | None) -> list[int]:
    assert lines is not None
    return [json.loads(line)["event"]["id"] for line in lines]


def test_added_rows_are_read_between_snapshots(table: Table) -> None:
    first, second = (snapshot.snapshot_id for snapshot in table.metadata.snapshots)
    assert _ids(appended_lines(table, "main", None, None)) == [1, 2, 3]
    assert _ids(appended_lines(table, "main", None, first)) == [1, 2]
    assert _ids(appended_lines(table, "main", first, None)) == [3]
    assert _ids(appended_lines(table, "main", second, None)) == []
    with pytest.raises(PositionLostError):
        appended_lines(table, "main", 5, None)


def test_ids_of_documents_are_unique(table: Table) -> None:
    changes = map(json.loads, appended_lines(table, "main", None, None, ["word", "id"]) or ())
    assert [change["metadata"]["document_id"] for change in changes] == [r"a\|b|1", r"\N|2", "|3"]
    assert [
        json.loads(line)["metadata"]["document_id"]
        for line in appended_lines(table, "main", None, None, ["word"]) or ()
    ] == [r"a\|b", r"\N", r"\E"]


def test_other_changes_and_keys_are_left_to_spark(table: Table) -> None:
    assert appended_lines(table, "other", None, None) is None
    assert appended_lines(table, "main", None, None, ["nothing"]) is None
    before = table.current_snapshot()
    assert before
    table.delete(EqualTo("id", 1))
    assert appended_lines(table, "main", None, None) is None
    assert _ids(appended_lines(table, "main", None, before.snapshot_id)) == [1, 2, 3]
