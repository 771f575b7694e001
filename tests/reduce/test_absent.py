"""Updates that lack columns add up within a batch, and leave to the commit only what the batch does not tell."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.columns.fields import Fields
from calve.convert.converter import ConvertOptions
from calve.event.operation import Operation
from calve.reduce.key import ABSENT, EVENTS, Key
from calve.reduce.net import Net
from calve.reduce.reducer import Reducer
from calve.table.loaded import Table
from kit.examples import examples
from reduce.test_net import SPEC, events

NAMES = {1: "id", 2: "note", 3: "value", 4: "more"}
FIELDS = [{"id": number, "name": name, "required": name == "value", "type": "string"} for number, name in NAMES.items()]
SCHEMA = {"type": "struct", "schema-id": 0, "fields": FIELDS}
LACKED = st.sets(st.sampled_from(["note", "value", "more"]))
STEP = st.tuples(st.sampled_from(list(Operation)[:3]), st.sampled_from("ab"), LACKED, st.booleans())


def reducer(options: ConvertOptions | None = None, upsert: bool = False) -> Reducer:
    table = Table("db.t", "uuid", "/nowhere", json.dumps(SCHEMA), json.dumps(SPEC))
    return Reducer(table, Key(table, ["id"]), options or ConvertOptions(), upsert, keep=True)


def applied(net: Net, rows: dict[str, dict[str, Any]]) -> None:
    """Do to rows what a commit does."""
    for key in net.deletes.to_pylist():
        rows.pop(key["id"], None)
    for row in net.partial.to_pylist() if net.partial else []:
        old = rows.get(row["id"], {})
        kept = {NAMES[number]: old.get(NAMES[number]) for number in row.pop(ABSENT)}
        del row[EVENTS]
        rows[row["id"]] = {**row, **kept}
    for row in net.rows.to_pylist():
        assert row["id"] not in rows
        rows[row["id"]] = row


@settings(max_examples=examples(20))
@given(st.lists(st.lists(st.lists(STEP, max_size=6), max_size=3), max_size=4), st.booleans())
def test_batches_of_updates_that_lack_columns_leave_what_a_dictionary_holds(batches, upsert) -> None:
    oracle: dict[str, dict[str, Any]] = {}
    rows: dict[str, dict[str, Any]] = {}
    count = 0
    for batch in batches:
        reduced = reducer(upsert=upsert)
        for part in batch:
            taken = []
            for operation, key, lacked, null in part:
                if operation is Operation.INSERT and key in oracle and not upsert:
                    operation = Operation.UPDATE
                if operation is not Operation.UPDATE or key not in oracle:
                    lacked = lacked - {"value"}
                told = {"note": None if null else f"n{count}", "value": f"v{count}", "more": f"m{count}"}
                event = {"id": key, **{name: value for name, value in told.items() if name not in lacked}}
                taken.append((operation, event))
                count += 1
                old = oracle.pop(key, {}) if operation is Operation.UPDATE else oracle.pop(key, {}) and {}
                if operation is not Operation.DELETE:
                    oracle[key] = {**dict.fromkeys(NAMES.values()), **old, **event}
            assert len(reduced.convert(events(*taken, start=count - len(taken))).rejects) == 0
        applied(reduced.net(), rows)
    assert rows == oracle


def test_a_required_column_may_be_absent_in_an_update_but_neither_null_nor_in_an_insert() -> None:
    reduced = reducer()
    taken = reduced.convert(
        events(
            (Operation.UPDATE, {"id": "a"}),
            (Operation.UPDATE, {"id": "b", "value": None}),
            (Operation.INSERT, {"id": "c"}),
            (Operation.UPDATE, {"value": "v"}),
            (Operation.INSERT, {"id": "d", "value": "v"}),
        )
    )
    told = {one["row"]: (one["code"], one["field"], one["reason"]) for one in taken.rejects.to_pylist()}
    assert told == {
        1: ("REQUIRED_MISSING", "value", "a required field is null"),
        2: ("REQUIRED_MISSING", "value", "a required field is missing"),
        3: ("NO_KEY", "id", "the identifier column id has no value"),
    }
    net = reduced.net()
    assert net.partial is not None
    [row] = net.partial.to_pylist()
    assert told_events(row) == [{"id": "a"}]
    assert row == {"id": "a", "note": None, "value": None, "more": None, ABSENT: [2, 3, 4]}
    assert [row["id"] for row in net.rows.to_pylist()] == ["d"]
    assert len(net.deletes) == 0


def test_an_update_after_a_delete_has_nothing_to_keep() -> None:
    reduced = reducer()
    reduced.convert(
        events(
            (Operation.UPDATE, {"id": "a", "note": "old", "value": "old", "more": "old"}),
            (Operation.DELETE, {"id": "a"}),
            (Operation.UPDATE, {"id": "a", "value": "new"}),
            (Operation.DELETE, {"id": "b"}),
            (Operation.UPDATE, {"id": "b", "more": "new"}),
        )
    )
    net = reduced.net()
    assert net.rows.to_pylist() == [{"id": "a", "note": None, "value": "new", "more": None}]
    assert net.partial is not None
    [row] = net.partial.to_pylist()
    assert told_events(row) == [{"id": "b", "more": "new"}]
    assert row == {"id": "b", "note": None, "value": None, "more": "new", ABSENT: [3]}
    assert sorted(one["id"] for one in net.deletes.to_pylist()) == ["a", "b"]


def told_events(row: dict[str, Any]) -> list[Any]:
    """Take the events out of a row that could become dead letters."""
    entries = [json.loads(line) for line in row.pop(EVENTS)]
    assert {(entry["code"], entry["field"]) for entry in entries} <= {("REQUIRED_MISSING", "value")}
    return [json.loads(entry["event"]) for entry in entries]


def test_all_events_of_a_row_that_may_be_none_are_told_and_of_no_other_row() -> None:
    reduced = reducer()
    lacking = [{"id": "a", "note": "1"}, {"id": "b"}, {"id": "c"}, {"id": "a"}, {"id": "a", "more": "2"}]
    other = [{"id": "b", "value": "v"}, {"id": "d", "value": "v"}]
    reduced.convert(events(*((Operation.UPDATE, event) for event in lacking)))
    reduced.convert(events((Operation.DELETE, {"id": "c"}), *((Operation.UPDATE, event) for event in other), start=5))
    partial = reduced.net().partial
    assert partial is not None
    found = {row["id"]: told_events(row) for row in partial.to_pylist()}
    assert found == {"a": [lacking[0], lacking[3], lacking[4]], "b": [], "d": []}


@pytest.mark.parametrize(
    ("options", "event", "absent"),
    [
        (ConvertOptions(), {"value": "v", "NOTE": "n"}, ["note", "more"]),
        (ConvertOptions(case_insensitive=True), {"value": "v", "NOTE": "n"}, ["more"]),
        (ConvertOptions(case_insensitive=True), {"Value": "v", "nOtE": None}, ["more"]),
        (ConvertOptions(fields=Fields(exclude=frozenset(["note"]))), {"value": "v", "note": "n"}, ["note", "more"]),
        (ConvertOptions(), {"value": "v", "note": {"more": 1}}, ["more"]),
    ],
)
def test_absent_is_what_no_field_was_matched_to(options: ConvertOptions, event: Any, absent: list[str]) -> None:
    reduced = reducer(options)
    assert len(reduced.convert(events((Operation.UPDATE, {"id": "a", **event}))).rejects) == 0
    net = reduced.net()
    assert net.partial is not None
    assert [NAMES[number] for number in net.partial.to_pylist()[0][ABSENT]] == absent
