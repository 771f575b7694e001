"""Events of a table without a key become rows, and deletes of whole rows; an UPDATE alone says not which row it is of."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.convert.converter import ConvertOptions
from calve.event.operation import Operation
from calve.reduce.full_rows import COPIES, COPIES_ID, DeletedRows, FullRows, full_row_ids
from convert.test_typed import rows_of
from kit.tables import table_of
from reduce.test_typed_changes import changed


def test_inserts_are_rows_and_deletes_are_whole_rows_without_metadata_and_updates_are_rejected() -> None:
    kinds = {"id": iceberg.LongType(), "x": iceberg.DoubleType(), "at": iceberg.LongType()}
    fields = [
        iceberg.NestedField(number, name, kind, required=False) for number, (name, kind) in enumerate(kinds.items(), 1)
    ]
    table = table_of(Schema(*fields))
    deletes = DeletedRows(table, frozenset(["at"]))
    changes = FullRows(table, ConvertOptions(), deletes)
    columns = pa.table({"id": [1, 2, 3, 4], "x": [0.5, None, 1, None], "at": [7, 7, 7, 7]})
    words = [Operation.DELETE, Operation.INSERT, Operation.UPDATE, Operation.DELETE]
    converted = changes.convert(changed(rows_of(columns), words))
    assert converted.rows.to_pylist() == [{"id": 2, "x": None, "at": 7}]
    assert converted.row.to_pylist() == [1, 0, 3]
    [reject] = converted.rejects.to_pylist()
    assert (reject["row"], reject["code"]) == (2, "NO_KEY")
    gone = changes.deleted()
    assert gone is not None
    assert gone.to_pylist() == [{"id": 1, "x": 0.5, COPIES: 1}, {"id": 4, "x": None, COPIES: 1}]
    assert deletes.ids == [1, 2, COPIES_ID]
    assert full_row_ids(deletes.ids) == [1, 2]
    assert full_row_ids([1]) == []
    assert FullRows(table, ConvertOptions(), deletes).deleted() is None
