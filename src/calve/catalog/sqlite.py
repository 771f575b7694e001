"""The tables of a JDBC catalog on SQLite, read without a JVM and without ever writing to it."""

from __future__ import annotations

import contextlib
import gzip
import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyiceberg.io import load_file_io

from calve.catalog.storage import for_executors
from calve.errors import SinkUnavailableError
from calve.table.loaded import Table

__all__ = ["SqliteCatalog", "embedded", "sqlite_file"]

_STEP = "catalog"
_URI = "jdbc:sqlite:"
_LIST = "SELECT * FROM iceberg_tables WHERE catalog_name = ?"
_FIND = "SELECT * FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"


def embedded(folder: Path) -> dict[str, str]:
    """Return the properties of the embedded catalog: JDBC on SQLite, readable by PyIceberg, DuckDB and Spark."""
    warehouse = folder.absolute()
    return {
        "name": "lakehouse",
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{warehouse / 'catalog.db'}",
        "warehouse": str(warehouse),
        "jdbc.schema-version": "V1",
        "jdbc.busy_timeout": "60000",  # writers wait for each other's lock on the file instead of failing
    }


def sqlite_file(properties: Mapping[str, str]) -> Path | None:
    """Return the file of a JDBC catalog on SQLite; None for other catalogs, and for a URI with more than a path."""
    uri = properties.get("uri", "")
    path = uri.removeprefix(_URI)
    is_path = uri.startswith(_URI) and path and "?" not in path and not path.startswith(("file:", ":"))
    return Path(path) if is_path and properties.get("type", "").lower() == "jdbc" else None


class SqliteCatalog:
    """Looks tables up as Iceberg's `JdbcCatalog` does; a missing file is a catalog without tables.

    Args:
        file: The database.
        properties: The catalog's properties, with `name`.
    """

    def __init__(self, file: Path, properties: Mapping[str, str]) -> None:
        self._file = file
        self._name = properties.get("name", "iceberg")
        self._io_properties = for_executors({key: value for key, value in properties.items() if key != "name"})

    def identifiers(self) -> list[str]:
        """Return the identifiers of all tables, sorted.

        Raises:
            SinkUnavailableError: The database cannot be read.
        """
        rows = self._select(_LIST, (self._name,), "")
        return sorted(f"{row['table_namespace']}.{row['table_name']}" for row in rows if not _is_view(row))

    def location(self, identifier: str) -> str | None:
        """Return where the metadata of a table is, or None if it does not exist.

        Raises:
            SinkUnavailableError: The database cannot be read.
        """
        namespace, _, name = identifier.rpartition(".")
        rows = self._select(_FIND, (self._name, namespace, name), identifier)
        return str(rows[0]["metadata_location"]) if rows and not _is_view(rows[0]) else None

    def load(self, identifier: str) -> Table | None:
        """Return the current state of a table, or None if it does not exist.

        Raises:
            SinkUnavailableError: The database or the table's metadata cannot be read.
        """
        location = self.location(identifier)
        return _table(identifier, self._metadata(identifier, location), self._io_properties) if location else None

    def _select(self, query: str, values: tuple[str, ...], identifier: str) -> list[sqlite3.Row]:
        if not self._file.is_file():
            return []
        try:
            with contextlib.closing(sqlite3.connect(f"{self._file.absolute().as_uri()}?mode=ro", uri=True)) as database:
                database.row_factory = sqlite3.Row
                if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'iceberg_tables'").fetchone():
                    return []
                return database.execute(query, values).fetchall()
        except sqlite3.Error as error:
            hint = "Check that it is an Iceberg catalog and readable"
            message = f"The catalog {self._file} cannot be read: {error}"
            raise SinkUnavailableError(message, step=_STEP, target=identifier, hint=hint) from error

    def _metadata(self, identifier: str, location: str) -> dict[str, Any]:
        try:
            with load_file_io(self._io_properties, location).new_input(location).open() as file:
                text = file.read()
            plain = gzip.decompress(text) if location.endswith(".gz.metadata.json") else text
            metadata: dict[str, Any] = json.loads(plain)
        except (OSError, ValueError) as error:
            hint = "Check that the table's files exist where the catalog lists them"
            message = f"The metadata of the table {identifier} cannot be read: {error}"
            raise SinkUnavailableError(message, step=_STEP, target=identifier, hint=hint) from error
        return metadata


def _is_view(row: sqlite3.Row) -> bool:
    return "iceberg_type" in row.keys() and row["iceberg_type"] == "VIEW"  # noqa: SIM118


def _table(identifier: str, metadata: dict[str, Any], io_properties: dict[str, str]) -> Table:
    """Describe a table by its metadata file (Iceberg specification, appendix C; version 1 may lack the lists)."""
    schemas = metadata.get("schemas") or [metadata["schema"]]
    specs = metadata.get("partition-specs") or [{"spec-id": 0, "fields": metadata["partition-spec"]}]
    schema_id, spec_id = metadata.get("current-schema-id"), metadata.get("default-spec-id", 0)
    schema = next((entry for entry in schemas if entry.get("schema-id") == schema_id), schemas[-1])
    spec = next((entry for entry in specs if entry["spec-id"] == spec_id), specs[-1])
    orders, order_id = metadata.get("sort-orders", []), metadata.get("default-sort-order-id", 0)
    order = next((entry for entry in orders if entry["order-id"] == order_id), {"order-id": 0, "fields": []})
    return Table(
        identifier=identifier,
        uuid=metadata.get("table-uuid", ""),
        location=metadata["location"].rstrip("/"),
        schema_json=json.dumps(schema),
        spec_json=json.dumps(spec),
        format_version=metadata["format-version"],
        properties=metadata.get("properties", {}),
        io_properties=io_properties,
        sort_order_json=json.dumps(order),
    )
