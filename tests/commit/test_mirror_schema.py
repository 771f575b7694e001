"""Columns that the source of a mirror has dropped: kept, made optional or removed, and said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calve.catalog.catalog import Catalog, embedded
from calve.commit.mirror_schema import follow, noted
from calve.engine import session
from calve.sources.source import SourceTable

pytestmark = pytest.mark.spark
COLUMNS = {"id": "long", "must": "string", "part": "string", "sorted": "long", "more": "long"}


def source(*lacks: str, name: str = "t") -> SourceTable:
    fields = [
        {"id": number, "name": column, "required": column in ("id", "must"), "type": kind}
        for number, (column, kind) in enumerate(COLUMNS.items(), 1)
        if column not in lacks
    ]
    schema = {"type": "struct", "schema-id": 0, "fields": fields, "identifier-field-ids": [] if "id" in lacks else [1]}
    return SourceTable(name, "u", json.dumps(schema))


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    folder: Path = tmp_path_factory.mktemp("lake")
    return Catalog(session.start(), embedded(folder))


def mirror(catalog: Catalog, name: str, *sources: SourceTable) -> None:
    catalog.create(
        name,
        source().schema_json,
        [("part", "identity")],
        dict(map(noted, sources or [source()])),
        sort_fields=[("sorted", "asc")],
    )


def columns(catalog: Catalog, name: str) -> dict[str, bool]:
    table = catalog.load(name)
    assert table is not None
    return {field.name: field.required for field in table.schema.fields}


def lines(catalog: Catalog, name: str, of: SourceTable, *how: Any) -> str:
    return "\n".join(follow(catalog, name, of, *how))


def test_a_column_that_the_source_dropped_is_kept_freed_or_removed_and_that_is_said(catalog: Catalog) -> None:
    for how in ("keep", "optional", "drop"):
        mirror(catalog, f"n.{how}")
    assert "must stays" in (said := lines(catalog, "n.keep", source("must", "more"), (), False, "keep"))
    assert "must stays, although the source dropped it; as it is required, rows without it are rejected" in said
    assert columns(catalog, "n.keep") == dict.fromkeys(COLUMNS, False) | {"id": True, "must": True}
    assert "rejected" not in lines(catalog, "n.optional", source("must", "more"))
    assert columns(catalog, "n.optional") == dict.fromkeys(COLUMNS, False) | {"id": True}
    said = lines(catalog, "n.drop", source("must", "more"), (), False, "drop")
    assert "must was removed, because the source dropped it" in said
    assert columns(catalog, "n.drop").keys() == COLUMNS.keys() - {"must", "more"}


def test_what_needs_a_dropped_column_or_has_it_keeps_it_without_making_its_rows_invalid(catalog: Catalog) -> None:
    mirror(catalog, "n.needed", source(), source("more", name="other"))
    gone = source("id", "must", "part", "sorted", "more")
    said = lines(catalog, "n.needed", gone, ["more"], False, "drop")
    assert columns(catalog, "n.needed") == dict.fromkeys(COLUMNS, False) | {"id": True}
    for column, why in {"must": "other has it", "more": "rows are found by it", "part": "other has it"}.items():
        assert f"{column} stays, although the source dropped it, because it cannot be removed ({why})" in said
    mirror(catalog, "n.parts")
    said = lines(catalog, "n.parts", gone, (), False, "drop")
    assert columns(catalog, "n.parts") == {"id": True, "part": False, "sorted": False}
    for column in ("id", "part", "sorted"):
        assert f"{column} stays, although the source dropped it, because it cannot be removed (" in said


def test_a_column_that_an_event_from_before_added_once_more_is_not_removed_again(catalog: Catalog) -> None:
    mirror(catalog, "n.late")
    follow(catalog, "n.late", source("more"), on_dropped="drop")
    catalog.load_java("n.late").updateSchema().addColumn("more", _long(catalog)).commit()
    assert follow(catalog, "n.late", source("more"), on_dropped="drop") == []
    assert "must was removed" in lines(catalog, "n.late", source("more", "must"), (), False, "drop")
    assert columns(catalog, "n.late").keys() == COLUMNS.keys() - {"must"}


def _long(catalog: Catalog) -> Any:
    return catalog.schema(source().schema_json).findType("id")
