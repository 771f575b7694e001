from __future__ import annotations

import pytest

from calve.columns.evolve import Evolution, NewColumn
from calve.errors import NoTargetError, SchemaConflictError
from calve.operate.dry_run_catalog import DryRunCatalog
from calve.table.ddl import widen_column
from calve.table.definition import schema_from_columns
from calve.table.loaded import Table

STRUCT = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]}
LIST = {"type": "list", "element-id": 1, "element": STRUCT, "element-required": False}
MAP = {"type": "map", "key-id": 1, "key": "string", "value-id": 1, "value": STRUCT, "value-required": False}


@pytest.fixture
def rehearsal() -> DryRunCatalog:
    return DryRunCatalog("lakehouse", {}, lambda identifier: None)


def make(rehearsal: DryRunCatalog, *types: str, **properties: str) -> Table:
    columns = [{"name": f"c{number}", "type": kind} for number, kind in enumerate(types)]
    return rehearsal.create("a.b", schema_from_columns(columns).model_dump_json(), properties=properties)


def test_columns_are_added_at_any_depth_with_ids_of_their_own(rehearsal: DryRunCatalog) -> None:
    make(rehearsal, "struct<x: long>", "list<struct<x: long>>", "map<string, struct<x: long>>")
    places = [("c0",), ("c1", "element"), ("c2", "value"), ()]
    add = [
        NewColumn(place, f"n{number}", kind)
        for place in places
        for number, kind in enumerate(("int", STRUCT, LIST, MAP))
    ]
    evolved = rehearsal.evolve("a.b", Evolution(add=add))
    for place in places:
        assert str(evolved.schema.find_type(".".join((*place, "n3", "value", "x")))) == "long"
    ids = sorted(evolved.schema.field_ids)
    assert ids == list(range(1, len(ids) + 1))
    assert rehearsal.load("a.b") == evolved
    assert rehearsal.added["a.b"] == add


def test_a_table_of_version_two_has_no_variant(rehearsal: DryRunCatalog) -> None:
    with pytest.raises(SchemaConflictError, match="variant is only supported in 3"):
        make(rehearsal, "struct<v: variant>")
    table = make(rehearsal, "struct<v: variant>", "unknown", **{"format-version": "3"})
    assert str(table.schema.find_type("c0.v")) == "variant"


def test_a_column_that_is_there_by_now_is_not_added_again(rehearsal: DryRunCatalog) -> None:
    make(rehearsal, "long")
    rehearsal.evolve("a.b", Evolution(add=[NewColumn((), "c0", "string"), NewColumn((), "c1", "string")]))
    assert rehearsal.added["a.b"] == [NewColumn((), "c1", "string")]


def test_types_that_the_format_version_does_not_have_are_refused(rehearsal: DryRunCatalog) -> None:
    with pytest.raises(SchemaConflictError, match="cannot have such columns"):
        make(rehearsal, "timestamp_ns")
    assert rehearsal.load("a.b") is None
    assert make(rehearsal, "timestamp_ns", **{"format-version": "3"}).format_version == 3


def test_a_table_that_is_not_there_cannot_evolve(rehearsal: DryRunCatalog) -> None:
    with pytest.raises(NoTargetError):
        rehearsal.evolve("a.b", Evolution())


def test_columns_are_widened_and_told_apart_from_those_that_are_added(rehearsal: DryRunCatalog) -> None:
    make(rehearsal, "int", "decimal(9,2)")
    evolved = rehearsal.evolve(
        "a.b", Evolution(add=[NewColumn((), "n", "int")], widen=[("c0", "long"), ("c1", "decimal(12, 2)")])
    )
    assert [str(field.field_type) for field in evolved.schema.fields] == ["long", "decimal(12, 2)", "int"]
    assert rehearsal.added["a.b"] == [NewColumn((), "n", "int")]
    statements = [widen_column("x.a.b", *one) for one in rehearsal.widened["a.b"]]
    assert statements == [
        "ALTER TABLE x.a.b ALTER COLUMN c0 TYPE bigint;",
        "ALTER TABLE x.a.b ALTER COLUMN c1 TYPE decimal(12, 2);",
    ]


def test_columns_are_widened_at_any_depth(rehearsal: DryRunCatalog) -> None:
    make(rehearsal, "list<struct<n: int, m: map<int, float>>>")
    evolved = rehearsal.evolve("a.b", Evolution(widen=[("c0.element.n", "long"), ("c0.element.m.value", "double")]))
    found = [str(evolved.schema.find_type(f"c0.element.{name}")) for name in ("n", "m.key", "m.value")]
    assert found == ["long", "int", "double"]
