"""The net effect of a batch leaves a table as its operations, one by one, would leave a dictionary."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.convert.converter import ConvertOptions
from calve.event.columns import EVENT, OPERATION, ORDER
from calve.event.operation import Operation
from calve.reduce.key import Key
from calve.reduce.reducer import Reducer
from calve.table.loaded import Table
from kit.examples import examples

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "string"},
        {
            "id": 2,
            "name": "in",
            "required": False,
            "type": {
                "type": "struct",
                "fields": [
                    {"id": 3, "name": "n", "required": False, "type": "decimal(9, 2)"},
                    {"id": 4, "name": "rest", "required": False, "type": "long"},
                ],
            },
        },
        {"id": 5, "name": "value", "required": True, "type": "long"},
    ],
}
SPEC = {"spec-id": 0, "fields": []}
BY_ID = [{"name": "id", "source-id": 1, "field-id": 1000, "transform": "bucket[4]"}]
BY_VALUE = [{"name": "value", "source-id": 5, "field-id": 1000, "transform": "identity"}]


def table(**more: Any) -> Table:
    return Table("db.t", "uuid", "/nowhere", json.dumps(SCHEMA), json.dumps(SPEC), **more)


def reducer(columns: list[str], upsert: bool = False) -> Reducer:
    return Reducer(table(), Key(table(), columns), ConvertOptions(), upsert)


def events(*changes: tuple[Operation, dict[str, Any]], start: int = 0) -> pa.Table:
    return pa.table(
        {
            EVENT: pa.array([json.dumps(event).encode() for _, event in changes], pa.binary()),
            OPERATION: pa.array([operation for operation, _ in changes], pa.int8()),
            ORDER: pa.array(range(start, start + len(changes)), pa.int64()),
        }
    )


KEYS = st.tuples(st.sampled_from(["a", "ä|\\'", ""]), st.sampled_from(["1.00", "2.50"]))
STEP = st.tuples(st.sampled_from([Operation.INSERT, Operation.UPDATE, Operation.DELETE]), KEYS)


@settings(max_examples=examples(20))
@given(st.lists(st.lists(st.lists(STEP, max_size=6), max_size=4), max_size=4), st.booleans())
def test_batches_of_any_operations_leave_what_a_dictionary_holds(batches, upsert) -> None:
    oracle: dict[tuple[str, str], int] = {}
    rows: dict[tuple[str, str], list[int]] = {}
    count = 0
    for batch in batches:
        reduced = reducer(["id", "in.n"], upsert)
        for part in batch:
            taken = []
            for operation, key in part:
                if operation is Operation.INSERT and key in oracle and not upsert:
                    operation = Operation.UPDATE  # a second row of one key is not what a key is for
                taken.append((operation, event(key, count)))
                if operation is Operation.DELETE:
                    oracle.pop(key, None)
                else:
                    oracle[key] = count
                count += 1
            assert len(reduced.convert(events(*taken, start=count - len(taken))).rejects) == 0
        net = reduced.net()
        assert len(net.deletes) == len({key_of(row) for row in net.deletes.to_pylist()})
        for row in net.deletes.to_pylist():
            rows.pop(key_of(row), None)
        for row in net.rows.to_pylist():
            rows.setdefault(key_of(row), []).append(row["value"])
    assert rows == {key: [value] for key, value in oracle.items()}


def event(key: tuple[str, str], value: int) -> dict[str, Any]:
    return {"id": key[0], "in": {"n": key[1], "rest": 7}, "value": value}


def key_of(row: dict[str, Any]) -> tuple[str, str]:
    return row["id"], str(row["in"]["n"])


def test_a_row_that_is_inserted_and_deleted_in_a_batch_leaves_nothing() -> None:
    reduced = reducer(["id"])
    reduced.convert(events((Operation.INSERT, {"id": "a", "value": 1}), (Operation.DELETE, {"id": "a"})))
    net = reduced.net()
    assert (len(net.rows), len(net.deletes)) == (0, 0)


def test_a_delete_needs_nothing_but_the_key_and_an_update_needs_it_all() -> None:
    reduced = reducer(["id"])
    taken = reduced.convert(events((Operation.DELETE, {"id": "a"}), (Operation.UPDATE, {"id": "b"})))
    assert [(one["row"], one["code"], one["field"]) for one in taken.rejects.to_pylist()] == [
        (1, "REQUIRED_MISSING", "value")
    ]
    assert reduced.net().deletes.to_pylist() == [{"id": "a"}]


def test_an_event_without_its_key_is_rejected_and_disturbs_no_other() -> None:
    reduced = reducer(["id"])
    taken = reduced.convert(
        events(
            (Operation.DELETE, {"id": None}),
            (Operation.INSERT, {"id": "a", "value": 1}),
            (Operation.DELETE, {"value": 1}),
            (Operation.UPDATE, {"value": 1}),
        )
    )
    assert sorted((one["row"], one["code"], one["field"]) for one in taken.rejects.to_pylist()) == [
        (0, "NO_KEY", "id"),
        (2, "NO_KEY", "id"),
        (3, "NO_KEY", "id"),
    ]
    assert [row["id"] for row in reduced.net().rows.to_pylist()] == ["a"]


def test_a_delete_is_written_into_a_partition_only_if_the_key_tells_it() -> None:
    by_id = table(unpartitioned_spec_id=3)
    by_id = Table(**{**vars_of(by_id), "spec_json": json.dumps({"spec-id": 2, "fields": BY_ID})})
    assert Key(by_id, ["id"]).deletes.spec.spec_id == 2
    by_value = Table(**{**vars_of(by_id), "spec_json": json.dumps({"spec-id": 2, "fields": BY_VALUE})})
    assert Key(by_value, ["id"]).deletes.spec.spec_id == 3
    evolved = Table(**{**vars_of(by_id), "has_other_specs": True})
    assert Key(evolved, ["id"]).deletes.spec.spec_id == 3


def vars_of(one: Table) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def test_a_key_that_the_table_lacks_is_named() -> None:
    assert not Key(table(), ["nope"])
    assert "nope" in Key(table(), ["nope"]).fault
    assert "identifier fields" in Key(table()).fault
