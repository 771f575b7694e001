"""A field that an event lacks has the default of its column (`write-default`); a null stays null."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from calve.columns.fields import Fields
from calve.convert.converter import Converter, ConvertOptions
from calve.event.columns import OPERATION, ORDER, TYPED
from calve.event.operation import Operation
from calve.reduce.key import Key
from calve.reduce.reducer import Reducer
from calve.table.loaded import Table

COLUMNS: list[tuple[str, Any, Any, Any]] = [
    ("b", "boolean", False, False),
    ("i", "int", -7, -7),
    ("l", "long", 2**63 - 1, 2**63 - 1),
    ("d", "double", 0.1, 0.1),
    ("dec", "decimal(9, 2)", "14.20", Decimal("14.20")),
    ("day", "date", "2017-11-16", dt.date(2017, 11, 16)),
    ("t", "time", "22:31:08.123456", dt.time(22, 31, 8, 123456)),
    ("ts", "timestamp", "2017-11-16T22:31:08.123456", dt.datetime(2017, 11, 16, 22, 31, 8, 123456)),
    ("tz", "timestamptz", "2017-11-16T22:31:08+00:00", dt.datetime(2017, 11, 16, 22, 31, 8, tzinfo=dt.UTC)),
    ("s", "string", 'é"\n', 'é"\n'),
    ("u", "uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")),
    ("f", "fixed[3]", "0001FF", b"\x00\x01\xff"),
    ("y", "binary", "000102ff", b"\x00\x01\x02\xff"),
]
"""Names, types, defaults as the specification's appendix D writes them, and what they mean."""


def field(number: int, name: str, kind: Any, default: Any = None, required: bool = False) -> dict[str, Any]:
    more = {} if default is None else {"write-default": default}
    return {"id": number, "name": name, "required": required, "type": kind, **more}


def table(*fields: dict[str, Any], keys: tuple[int, ...] = ()) -> Table:
    schema = {"type": "struct", "schema-id": 0, "fields": list(fields), "identifier-field-ids": list(keys)}
    return Table("ns.t", "u", "file:///t", json.dumps(schema), '{"spec-id":0,"fields":[]}', 3)


def rows(of: Table, *events: str, **options: Any) -> list[Any]:
    """Return the rows, and the codes of rejected events."""
    found = Converter(of, ConvertOptions(**options)).convert(pa.table({"event": [text.encode() for text in events]}))
    return [*found.rows.to_pylist(), *found.rejects["code"].to_pylist()]


def test_a_default_of_each_type_is_what_the_specification_says() -> None:
    of = table(field(1, "id", "int"), *(field(at, *column[:3]) for at, column in enumerate(COLUMNS, 2)))
    nulls = {"id": 2, **{name: None for name, *_ in COLUMNS}}
    assert rows(of, ' {"id":1} ', json.dumps(nulls)) == [{"id": 1, **{one[0]: one[3] for one in COLUMNS}}, nulls]


def test_only_a_missing_field_has_its_default_also_in_required_columns() -> None:
    of = table(field(1, "id", "int"), field(2, "r", "string", "x", required=True), field(3, "n", "int", 5))
    events = ['{"id":1}', '{"r":"given","n":null}', '{"id":2,"r":null}', '{"id":3,"n":"no"}', "{}", '{"z":1}', "[1]"]
    assert rows(of, *events) == [
        {"id": 1, "r": "x", "n": 5},
        {"id": None, "r": "given", "n": None},
        {"id": 3, "r": "x", "n": None},
        *("REQUIRED_MISSING", "NO_MATCHING_FIELDS", "NO_MATCHING_FIELDS", "MALFORMED"),
    ]


def test_fields_of_structs_have_defaults_at_any_depth() -> None:
    inner = {"type": "struct", "fields": [field(5, "x", "int", 1), field(6, "y", "string")]}
    listed = {"type": "list", "element-id": 7, "element-required": False, "element": inner}
    mapped = {"type": "map", "key-id": 8, "key": "string", "value-id": 9, "value-required": False, "value": inner}
    listed = json.loads(json.dumps(listed).replace('"id": 5', '"id": 15').replace('"id": 6', '"id": 16'))
    mapped = json.loads(json.dumps(mapped).replace('"id": 5', '"id": 25').replace('"id": 6', '"id": 26'))
    of = table(field(1, "s", inner), field(2, "l", listed), field(3, "m", mapped), field(4, "n", "int", 3))
    found = rows(of, '{"s":{"y":"a"},"l":[{},null,{"x":null}],"m":{"k":{"y":"b"}}}', '{"s":null}', '{"n":1.0,"s":{}}')
    assert found == [
        {"s": {"x": 1, "y": "a"}, "l": [{"x": 1, "y": None}, None, {"x": None, "y": None}],
         "m": [("k", {"x": 1, "y": "b"})], "n": 3},
        {"s": None, "l": None, "m": None, "n": 3},
        {"s": {"x": 1, "y": None}, "l": None, "m": None, "n": 1},
    ]  # fmt: skip


def test_a_field_is_there_in_any_case_and_with_half_a_surrogate_pair() -> None:
    of = table(field(1, "id", "int"), field(2, "n", "int", 5))
    assert rows(of, '{"id":1,"N":2}', case_insensitive=True) == [{"id": 1, "n": 2}]
    assert rows(of, '{"id":1,"N":2}') == [{"id": 1, "n": 5}]
    assert rows(of, '{"id":1,"z":"\\udcff"}') == [{"id": 1, "n": 5}]
    assert rows(of, '{"id":1,"id":2}') == [{"id": 2, "n": 5}]


def test_columns_of_metadata_and_fields_that_are_not_written_have_none() -> None:
    of = table(field(1, "id", "int"), field(2, "n", "int", 5))
    assert rows(of, '{"id":1}', fields=Fields(exclude=frozenset(["n"]))) == [{"id": 1, "n": None}]
    events = pa.table({"event": [b'{"id":1}'], "at": pa.array([None], pa.int32())})
    found = Converter(of, ConvertOptions(metadata=(("n", "at"),))).convert(events)
    assert found.rows.to_pylist() == [{"id": 1, "n": None}]


@pytest.mark.parametrize("kind", ["int", "long"])
def test_rows_of_a_typed_source_have_defaults_of_columns_that_it_lacks(kind: str) -> None:
    of = table(field(1, "id", kind), field(2, "n", "int", 5))
    for given, n in (({"id": [1, 2]}, [5, 5]), ({"id": [1, 2], "n": pa.array([None, 1], pa.int32())}, [None, 1])):
        typed = pa.table({TYPED: pa.table(given).to_struct_array().combine_chunks()})
        assert Converter(of).convert(typed).rows["n"].to_pylist() == n


@pytest.mark.parametrize("keep", [False, True])
def test_an_update_that_keeps_what_it_lacks_has_no_defaults_and_a_key_never_has(keep: bool) -> None:
    of = table(field(1, "id", "int", 9, required=True), field(2, "n", "int", 5), field(3, "s", "string"), keys=(1,))
    reducer = Reducer(of, Key(of, ["id"]), ConvertOptions(), upsert=False, keep=keep)
    texts = ['{"id":1,"s":"a"}', '{"id":2,"s":"b"}', '{"s":"c"}', '{"id":3}']
    operations = [Operation.INSERT, Operation.UPDATE, Operation.INSERT, Operation.DELETE]
    events = pa.table({"event": [text.encode() for text in texts], ORDER: range(4)})
    events = events.append_column(OPERATION, pa.array(map(int, operations), pa.int8()))
    found = reducer.convert(events.append_column("json", events["event"].cast(pa.string())))
    assert found.rejects["code"].to_pylist() == ["NO_KEY"]
    assert {row["id"]: row["n"] for row in found.rows.to_pylist()} == {1: 5, 2: None if keep else 5}
