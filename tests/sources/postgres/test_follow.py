from __future__ import annotations

import pytest

from calve.errors import SchemaConflictError
from calve.sources.database.table import Column, DatabaseTable
from calve.sources.postgres.catalog.follow import described, same
from calve.sources.postgres.protocol.pgoutput import Relation, RelationColumn

KINDS = {20: "long", 23: "int", 25: "string"}


def table(*columns: tuple[str, int, int], name: str = "t") -> DatabaseTable:
    made = (Column(one, number, KINDS[oid], "", oid, -1, number == 1) for one, number, oid in columns)
    return DatabaseTable("d", 7, "public", name, tuple(made))


def relation(*columns: tuple[str, int], name: str = "t") -> Relation:
    made = (RelationColumn(one, oid, -1, index == 0) for index, (one, oid) in enumerate(columns))
    return Relation(7, "public", name, "d", tuple(made))


def follow(now: Relation, known: DatabaseTable | None, current: DatabaseTable | None) -> dict[str, int]:
    found = described(now, known, current, lambda oid, modifier: KINDS[oid], "d")
    assert found.keys == (0,)
    return {column.name: column.number for column in found.columns}


KNOWN = table(("id", 1, 23), ("a", 2, 25))


def test_columns_keep_their_numbers_under_other_names() -> None:
    current = table(("id", 1, 23), ("b", 2, 25), ("c", 3, 25))
    assert follow(relation(("id", 23), ("b", 25), ("c", 25)), KNOWN, current) == {"id": 1, "b": 2, "c": 3}


def test_a_name_that_the_catalog_has_no_more_is_found_by_its_place() -> None:
    current = table(("id", 1, 23), ("later", 2, 25))
    assert follow(relation(("id", 23), ("between", 25)), KNOWN, current) == {"id": 1, "between": 2}


def test_a_table_that_is_gone_is_described_by_the_stream_alone() -> None:
    found = follow(relation(("id", 23), ("a", 25), ("new", 23)), KNOWN, None)
    assert found == {"id": 1, "a": 2, "new": 5001}


def test_widened_columns_follow_and_the_same_description_is_known_again() -> None:
    wider = relation(("id", 20), ("a", 25))
    assert not same(wider, KNOWN)
    found = described(wider, KNOWN, None, lambda oid, modifier: KINDS[oid], "d")
    assert [column.kind for column in found.columns] == ["long", "string"]
    assert same(wider, found)


@pytest.mark.parametrize(
    ("now", "current", "said"),
    [
        (relation(("id", 23), ("a", 23)), None, "the type of a changed from string to int"),
        (relation(("id", 23), ("a", 25), name="u"), None, "it is now called public.u"),
        (
            relation(("id", 23), ("a", 25)),
            DatabaseTable(
                "d",
                7,
                "public",
                "t",
                tuple(Column(c.name, c.number, c.kind, "", c.oid, -1, True) for c in KNOWN.columns),
            ),
            "its key has other columns now",
        ),
    ],
)
def test_what_iceberg_cannot_follow_is_an_error(now: Relation, current: DatabaseTable | None, said: str) -> None:
    with pytest.raises(SchemaConflictError, match=said):
        described(now, KNOWN, current, lambda oid, modifier: KINDS[oid], "d")
