"""A required column that the schema of an event lacks can become optional; one that only a value lacks stays."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from calve.columns.evolve import plan_evolution
from calve.columns.evolved import evolved
from calve.convert.converter import Converter, ConvertOptions
from calve.event.columns import EVENT, SCHEMA
from calve.event.envelope.schema import Field, text_of
from calve.table.definition import schema_from_columns
from calve.table.loaded import Table
from kit.tables import table_of

FREES = ConvertOptions(look_for_unknown=True, frees_columns=True)


def table(key: bool = False) -> Table:
    columns = [{"name": name, "type": "long", "required": name != "more"} for name in ("id", "must", "more")]
    schema = schema_from_columns(columns)
    ids = [schema.find_field("must").field_id] if key else []
    return table_of(schema.model_copy(update={"identifier_field_ids": ids}))


def events(*pairs: tuple[str, str | None]) -> pa.Table:
    def declared(names: str) -> str:
        return text_of(Field("", "struct", fields=tuple(Field(name, "int64") for name in names.split())))

    schemas = pa.array(
        [None if names is None else declared(names) for _, names in pairs], pa.string()
    ).dictionary_encode()
    return pa.table({EVENT: pa.array([text.encode() for text, _ in pairs], pa.binary()), SCHEMA: schemas})


def absent(of: Table, options: ConvertOptions, *pairs: tuple[str, str | None]) -> frozenset[str]:
    unknown = Converter(of, options).convert(events(*pairs)).unknown
    return unknown.absent if unknown else frozenset()


@pytest.mark.parametrize(
    ("text", "names", "freed"),
    [
        ('{"id":1}', "id", {"must"}),
        ('{"id":1}', "id must", set()),  # the schema has it: the value is a fault
        ('{"id":1}', None, set()),  # no schema says anything
        ('{"id":1,"must":2}', "id", set()),  # a processor has added it
        ('{"id":1,"must":null}', "id MUST", {"must"}),
    ],
)
def test_only_a_column_that_a_schema_lacks_and_a_row_needs_becomes_optional(text, names, freed) -> None:
    assert absent(table(), FREES, (text, names)) == freed
    assert absent(table(), replace(FREES, frees_columns=False), (text, names)) == set()
    assert absent(table(key=True), FREES, (text, names)) == set()
    if names == "id MUST":
        assert absent(table(), replace(FREES, case_insensitive=True), (text, names)) == set()


def test_the_events_are_written_when_the_column_is_optional() -> None:
    rows = events(('{"id":1,"more":5}', "id more"), ('{"id":2,"must":3}', "id must"))
    converted = Converter(table(), FREES).convert(rows)
    assert [reject["code"] for reject in converted.rejects.to_pylist()] == ["REQUIRED_MISSING"]
    assert converted.unknown is not None
    plan = plan_evolution(table(), converted.unknown.root, free=converted.unknown.absent)
    assert (plan.free, plan.add, plan.widen) == (["must"], [], [])
    again = Converter(evolved(table(), plan)[0], FREES).convert(rows)
    assert again.rows.select(["id", "must"]).to_pylist() == [{"id": 1, "must": None}, {"id": 2, "must": 3}]
    assert (again.unknown, len(again.rejects)) == (None, 0)
