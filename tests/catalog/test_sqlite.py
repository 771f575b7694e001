from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from calve.catalog.sqlite import SqliteCatalog, sqlite_file
from calve.errors import SinkUnavailableError

NAMED = {"name": "lakehouse"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A catalog with the table a.b.c."""
    catalog = SqlCatalog("lakehouse", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=str(tmp_path))
    catalog.create_namespace("a.b")
    catalog.create_table("a.b.c", schema=pa.schema([("x", pa.int64())]), properties={"owner": "me"})
    return tmp_path / "catalog.db"


def test_a_table_is_what_its_metadata_says(file: Path) -> None:
    table = SqliteCatalog(file, NAMED).load("a.b.c")
    assert table is not None
    loaded = SqlCatalog("lakehouse", uri=f"sqlite:///{file}").load_table("a.b.c")
    assert (table.uuid, table.location) == (str(loaded.metadata.table_uuid), loaded.location())
    assert (table.schema, table.spec, table.sort_order) == (loaded.schema(), loaded.spec(), loaded.sort_order())
    assert (table.format_version, table.properties["owner"]) == (2, "me")


def test_what_is_not_a_table_of_this_catalog_is_none_and_no_file_is_made(file: Path, tmp_path: Path) -> None:
    assert SqliteCatalog(file, NAMED).load("a.b.d") is None
    assert SqliteCatalog(file, {"name": "other"}).load("a.b.c") is None
    nowhere = tmp_path / "nowhere" / "catalog.db"
    assert SqliteCatalog(nowhere, NAMED).load("a.b.c") is None
    assert not nowhere.parent.exists()
    sqlite3.connect(tmp_path / "empty.db").close()
    assert SqliteCatalog(tmp_path / "empty.db", NAMED).load("a.b.c") is None


def test_a_view_is_no_table(file: Path) -> None:
    with sqlite3.connect(file) as database:
        database.execute("UPDATE iceberg_tables SET iceberg_type = 'VIEW'")
    assert SqliteCatalog(file, NAMED).load("a.b.c") is None


def test_a_table_of_version_1_without_lists_is_read(file: Path, tmp_path: Path) -> None:
    schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}]}
    old = {"format-version": 1, "location": "/t/", "schema": schema, "partition-spec": []}
    (tmp_path / "old.metadata.json").write_text(json.dumps(old))
    with sqlite3.connect(file) as database:
        database.execute("UPDATE iceberg_tables SET metadata_location = ?", (f"{tmp_path}/old.metadata.json",))
    table = SqliteCatalog(file, NAMED).load("a.b.c")
    assert table is not None
    assert (table.location, table.schema.column_names, table.spec.fields) == ("/t", ["x"], ())


def test_what_cannot_be_read_is_an_error_of_the_sink(file: Path, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database, but long enough to be taken for one" * 20)
    with pytest.raises(SinkUnavailableError, match="cannot be read"):
        SqliteCatalog(tmp_path / "text.db", NAMED).load("a.b.c")
    with sqlite3.connect(file) as database:
        database.execute("UPDATE iceberg_tables SET metadata_location = '/nowhere/x.metadata.json'")
    with pytest.raises(SinkUnavailableError, match=r"metadata of the table a\.b\.c"):
        SqliteCatalog(file, NAMED).load("a.b.c")


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("jdbc:sqlite:/a/b.db", Path("/a/b.db")),
        ("jdbc:sqlite:b.db", Path("b.db")),
        ("jdbc:sqlite::memory:", None),
        ("jdbc:sqlite:file:b.db?mode=ro", None),
        ("jdbc:postgresql://localhost/b", None),
    ],
)
def test_only_a_plain_path_is_a_file(uri: str, path: Path | None) -> None:
    assert sqlite_file({"type": "jdbc", "uri": uri}) == path
    assert sqlite_file({"type": "rest", "uri": uri}) is None
