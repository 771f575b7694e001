"""Structs that are absent and have required fields."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calve.columns.fields import Fields
from calve.convert.converter import Converter, ConvertOptions
from calve.table.definition import schema_from_columns
from kit.tables import plain_rows, table_of

TYPE = (
    "struct<x: int required, u: uuid required, y: struct<z: boolean required, w: string> required, m: map<string, int>>"
)


@pytest.mark.parametrize("left_out", [frozenset(), frozenset({"s", "l"})], ids=["absent", "left out"])
@pytest.mark.parametrize("events", [['{"a":1}'], ['{"a":"2"}'], ['{"a":1}', '{"a":"2"}', '{"a":3,"l":[null]}']])
def test_an_absent_struct_with_required_fields_is_null_in_the_file(tmp_path, events, left_out):
    columns = [{"name": "a", "type": "int"}, {"name": "s", "type": TYPE}, {"name": "l", "type": f"list<{TYPE}>"}]
    converter = Converter(table_of(schema_from_columns(columns)), ConvertOptions(fields=Fields(exclude=left_out)))
    found = converter.convert(pa.table({"event": pa.array([event.encode() for event in events])})).rows
    for rows in (found, found.take(list(reversed(range(len(found)))))):  # as a partition takes them
        pq.write_table(rows, tmp_path / "f.parquet")
        assert repr(plain_rows(pq.read_table(tmp_path / "f.parquet"))) == repr(plain_rows(rows))
    assert found["s"].null_count == len(found)
