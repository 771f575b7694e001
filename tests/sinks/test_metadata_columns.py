"""Metadata columns: which ones a table gets, what they hold, and what no field of an event can do to them."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.columns.evolve import NewColumn
from calve.columns.fields import Fields
from calve.compiled import events as core
from calve.convert.converter import Converter, ConvertOptions
from calve.event.columns import EVENT, ORDER
from calve.event.operation import Operation
from calve.reduce.key import ABSENT, Key
from calve.reduce.reducer import Reducer
from calve.sinks.iceberg.metadata_columns import BatchMetadata, MetadataColumns
from convert.events import Maker
from kit.tables import plain_rows, table_of

NAMES = {"_topic": "kafka_topic", "_offset": "kafka_offset", "_at": "ingestion_time", "_batch": "batch"}
COLUMNS = MetadataColumns(NAMES, {"kafka_topic": pa.string(), "kafka_offset": pa.int64()})
FIRST = iceberg.NestedField(1, "id", iceberg.LongType(), required=False)
OPTIONS = ConvertOptions(look_for_unknown=True, metadata=tuple(NAMES.items()), fields=Fields(exclude=frozenset(NAMES)))
TENTHS = 17_900_000_015


def batch(*events: Any, **more: Any) -> pa.Table:
    numbers = range(100, 100 + len(events))
    rows = {EVENT: pa.array([json.dumps(each).encode() for each in events], pa.binary()), **more}
    rows |= {"kafka_topic": ["t"] * len(events), "kafka_offset": pa.array(numbers, pa.int64())}
    return BatchMetadata(7, TENTHS).add_to(pa.table(rows), frozenset(NAMES.values()))


def schema(*fields: iceberg.NestedField) -> Schema:
    return COLUMNS.complete(Schema(FIRST, *fields))


def test_a_table_gets_the_columns_that_it_lacks_with_the_types_of_the_metadata() -> None:
    assert [f"{each.field_id} {each.name} {each.field_type}" for each in schema().fields] == [
        "1 id long",
        "2 _topic string",
        "3 _offset long",
        "4 _at timestamptz",
        "5 _batch long",
    ]
    there = iceberg.NestedField(9, "_topic", iceberg.StringType(), required=False)
    assert COLUMNS.lacking(Schema(FIRST, there)).add == [
        NewColumn((), "_offset", "long"),
        NewColumn((), "_at", "timestamptz"),
        NewColumn((), "_batch", "long"),
    ]
    assert COLUMNS.lacking(schema()).add == []
    assert COLUMNS.complete(schema()) is not None
    assert COLUMNS.fault(schema()) is None


def test_a_field_whose_name_differs_by_case_gives_way_to_the_metadata() -> None:
    found = schema(iceberg.NestedField(2, "_TOPIC", iceberg.LongType(), required=False))
    assert found.column_names == ["id", *NAMES]


@pytest.mark.parametrize(
    ("kind", "required", "fault"),
    [
        (iceberg.LongType(), False, None),
        (iceberg.StringType(), False, None),
        (iceberg.IntegerType(), False, "its column _offset is a int, and the metadata kafka_offset a long"),
        (iceberg.LongType(), True, "its column _offset is required, and an event may lack the metadata kafka_offset"),
    ],
)
def test_a_column_that_cannot_get_its_metadata_is_named(kind, required, fault) -> None:
    one = iceberg.NestedField(2, "_offset", kind, required=required)
    assert COLUMNS.fault(schema(one)) == fault


def test_a_table_without_a_column_is_named() -> None:
    assert COLUMNS.fault(Schema(FIRST)) == "it has no column _topic for the metadata kafka_topic"


@pytest.mark.parametrize("with_core", [True, False])
def test_rows_have_the_metadata_of_their_events_and_no_field_of_that_name(monkeypatch, with_core) -> None:
    if not with_core:
        monkeypatch.setattr(core, "load", lambda: None)
    late = [iceberg.NestedField(2, "name", iceberg.StringType(), required=False)]
    events = batch({"id": 1, "_topic": "mine"}, {"id": "no", "name": "b"}, [], {"name": "c", "_offset": {"a": 1}})
    found = Converter(table_of(schema(*late)), OPTIONS).convert(events)
    assert found.row.to_pylist() == [0, 1, 3]
    rows = found.rows.to_pylist()
    assert [(row["id"], row["name"], row["_topic"], row["_offset"]) for row in rows] == [
        (1, None, "t", 100),
        (None, "b", "t", 101),
        (None, "c", "t", 103),
    ]
    assert {(row["_at"].isoformat(), row["_batch"]) for row in rows} == {("2026-09-21T14:13:21.500000+00:00", 7)}
    assert found.unknown is None or not found.unknown.root.fields


def test_a_string_column_holds_a_number_as_text_and_missing_metadata_is_null() -> None:
    text = iceberg.NestedField(2, "_offset", iceberg.StringType(), required=False)
    events = batch({"id": 1}).drop_columns(["kafka_topic"])
    assert Converter(table_of(schema(text)), OPTIONS).convert(events).rows.to_pylist()[0]["_offset"] == "100"
    assert Converter(table_of(schema()), OPTIONS).convert(events).rows["_topic"].to_pylist() == [None]


def test_random_events_become_the_rows_that_they_become_without_metadata_columns() -> None:
    for seed in range(10):
        maker = Maker(random.Random(seed))
        plain = maker.schema()
        events = [maker.event(plain) for _ in range(50)]
        rows = pa.table({EVENT: pa.array(events, pa.binary()), "kafka_offset": pa.array(range(50), pa.int64())})
        columns = MetadataColumns({"meta_": "kafka_offset"}, {"kafka_offset": pa.int64()})
        options = ConvertOptions(metadata=(("meta_", "kafka_offset"),), fields=Fields(exclude=frozenset({"meta_"})))
        found = Converter(table_of(columns.complete(plain)), options).convert(rows)
        alone = Converter(table_of(plain), ConvertOptions(fields=options.fields)).convert(rows)
        assert repr(plain_rows(found.rows.drop_columns(["meta_"]))) == repr(plain_rows(alone.rows))
        assert found.rows["meta_"].to_pylist() == found.row.to_pylist() == alone.row.to_pylist()
        assert (found.rejects, found.nulled) == (alone.rejects, alone.nulled)


@pytest.mark.parametrize("keep", [True, False])
def test_changed_rows_have_the_metadata_of_their_last_change_also_where_columns_are_kept(keep) -> None:
    table = table_of(schema(iceberg.NestedField(2, "name", iceberg.StringType(), required=False)))
    reducer = Reducer(table, Key(table, ["id"]), OPTIONS, upsert=False, keep=keep)
    operations = [Operation.UPDATE, Operation.UPDATE, Operation.DELETE, Operation.UPDATE]
    more = {"_operation": pa.array(operations, pa.int8()), ORDER: pa.array(np.arange(4))}
    reducer.convert(batch({"id": 1, "name": "a"}, {"id": 2}, {"id": 3}, {"id": 1}, **more))
    net = reducer.net()
    rows = {row["id"]: row for part in (net.rows, net.partial) if part is not None for row in part.to_pylist()}
    assert {number: (row["_offset"], row["_batch"]) for number, row in rows.items()} == {1: (103, 7), 2: (101, 7)}
    assert rows[1]["name"] == ("a" if keep else None)
    names = {each.field_id: each.name for each in table.schema.fields}
    assert {names[number] for row in rows.values() for number in row.get(ABSENT) or ()} <= {"name"}
