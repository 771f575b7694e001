"""What can be a key."""

from __future__ import annotations

import pytest

from calve.errors import SchemaConflictError
from calve.reduce.key import Key, identified
from calve.table.definition import schema_from_columns
from kit.tables import table_of

COLUMNS = [
    {"name": "id", "type": "long"},
    {"name": "v", "type": "variant"},
    {"name": "s", "type": "struct<v: variant, n: int>"},
    {"name": "d", "type": "double"},
    {"name": "l", "type": "list<long>"},
]
SCHEMA = schema_from_columns(COLUMNS)


@pytest.mark.parametrize(("name", "kind"), [("v", "variant"), ("s.v", "variant"), ("s", "struct")])
def test_a_column_that_is_no_primitive_is_no_key(name: str, kind: str) -> None:
    assert f"the column {name} of the table ns.t is a {kind}" in Key(table_of(SCHEMA), ["id", name]).fault
    if kind == "variant":
        with pytest.raises(SchemaConflictError, match="is a variant, which cannot be a key"):
            identified(SCHEMA, ["id", name])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("s", "the column s is a struct"),
        ("d", "the column d is a double, which cannot be a key"),
        ("l", "the column l is a list<long>, which"),
        ("l.element", "l.element cannot be a key: no part of a list or a map is one"),
    ],
)
def test_a_new_table_says_which_column_of_its_key_cannot_be_one(name: str, reason: str) -> None:
    with pytest.raises(SchemaConflictError) as refused:
        identified(SCHEMA, [name])
    assert str(refused.value).startswith(reason)


def test_a_table_with_a_variant_has_a_key_beside_it() -> None:
    key = Key(table_of(identified(SCHEMA, ["id", "s.n"])))
    assert (key.fault, key.names) == ("", ["id", "s.n"])
    assert key.arrow_schema.names == ["id", "s"]
    assert str(key.required.schema.find_type("s.v")) == "variant"
