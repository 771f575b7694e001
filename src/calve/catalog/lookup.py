"""Looks tables up in a catalog with PyIceberg, without a JVM. Servers and tables decide as little as in `trust`.

PyIceberg imports and calls what `py-io-impl` or `auth` name, whoever sets it: the server, or a property of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import Endpoints, RestCatalog, TableResponse
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io import FileIO, load_file_io

from calve.catalog.storage import for_executors
from calve.catalog.trust import Trust
from calve.catalog.variant_files import texts_for_variants

__all__ = ["FoundTable", "list_tables", "look_up"]


class FoundTable(NamedTuple):
    """Where the metadata of a table is, and the properties with which its files are read."""

    location: str
    storage: dict[str, str]


def look_up(properties: Mapping[str, str], identifier: str) -> FoundTable:
    """Return where a table is; raises what PyIceberg and the libraries of its catalogs raise.

    Raises:
        UnsupportedError: It is at a place that a table may not choose.
    """
    trust = Trust(properties.get("name", "iceberg"), properties)
    table = _catalog(properties).load_table(identifier)
    trust.check(identifier, table.metadata_location, {})
    return FoundTable(table.metadata_location, trust.storage(table.io.properties))


def list_tables(properties: Mapping[str, str]) -> list[str]:
    """Return the identifiers of all tables, sorted; raises what PyIceberg and the libraries of its catalogs raise."""
    catalog = _catalog(properties)
    namespaces = list(catalog.list_namespaces())
    for namespace in namespaces:  # it grows meanwhile
        namespaces += catalog.list_namespaces(namespace)
    return sorted(".".join(name) for namespace in namespaces for name in catalog.list_tables(namespace))


def _catalog(properties: Mapping[str, str]) -> Catalog:
    name = properties.get("name", "iceberg")
    if properties.get("type", "").lower() == "rest":
        return _Rest(name, **{**properties, **for_executors(properties)})
    return _without_table_properties({**properties, **for_executors(properties)})


def _without_table_properties(properties: dict[str, str]) -> Catalog:
    """Return a catalog that reads files with its own properties, and never with those of a table."""
    catalog = load_catalog("calve", **properties)

    def load(_: Any = None, location: str | None = None) -> FileIO:
        return load_file_io(properties, location)

    vars(catalog).update(_load_file_io=load)
    return catalog


class _Rest(RestCatalog):
    """A REST catalog whose server sets only what it may."""

    def __init__(self, name: str, **properties: str) -> None:
        self._trust = Trust(name, properties)
        super().__init__(name, **properties)
        self.uri = properties["uri"]

    def _create_session(self) -> Any:
        kept = self._trust.merged(self.properties)  # the answer of `/v1/config` is among them by now
        self.properties.clear()
        self.properties.update(kept)
        return super()._create_session()

    def load_table(self, identifier: Any) -> Any:
        """Return a table, with texts for variants, which PyIceberg does not parse."""
        path = self.url(Endpoints.load_table, prefixed=True, **self._split_identifier_for_path(identifier))
        answer = self._session.get(path)
        if answer.status_code == HTTPStatus.NOT_FOUND:
            raise NoSuchTableError(f"There is no table {identifier}")
        answer.raise_for_status()
        table = TableResponse.model_validate_json(texts_for_variants(answer.text))
        return self._response_to_table(self.identifier_to_tuple(identifier), table)

    def _response_to_table(self, identifier_tuple: Any, table_response: Any) -> Any:
        table_response.metadata.properties.clear()  # they would become properties of the storage
        return super()._response_to_table(identifier_tuple, table_response)

    def _load_file_io(self, properties: Any = None, location: str | None = None) -> FileIO:
        return load_file_io(self._trust.merged({**self.properties, **(properties or {})}), location)
