"""Checks that tables can be created and written, without creating one."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from calve.catalog.diagnose import disk_explained
from calve.durable import local_path, try_folder
from calve.engine.java.errors import java_errors

if TYPE_CHECKING:
    from calve.catalog.catalog import Catalog

__all__ = ["Storage", "try_storing"]

_SCHEMA = json.dumps(
    {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
)


class Storage(NamedTuple):
    """Where a table would be stored, what its writers' FileIO gets, and Java's FileIO."""

    location: str
    io_properties: dict[str, str]
    io: Any

    def delete(self, path: str) -> None:
        """Delete a file.

        Raises:
            CalveError: It cannot be deleted.
        """
        with java_errors("try the storage", self.location):
            self.io.deleteFile(path)


def try_storing(
    catalog: Catalog, namespace: str, properties: Mapping[str, str] | None = None, location: str | None = None
) -> Storage:
    """Check that a table could be created in a namespace and its files written; nothing remains of it.

    Args:
        catalog: The catalog.
        namespace: An existing namespace.
        properties: The properties of new tables.
        location: Where they are stored; None: the catalog decides.

    Raises:
        CalveError: It could not be created or written.
    """
    name = f"calve_probe_{uuid.uuid4().hex}"
    with disk_explained(location or catalog.warehouse), java_errors("try the storage", catalog.name):
        builder = catalog.table_builder(f"{namespace}.{name}", catalog.schema(_SCHEMA), properties, location)
        staged = builder.createTransaction().table()
        location_uri = str(staged.location())
        catalog.trust.check(namespace, location_uri, {})
        if (folder := local_path(location_uri)) is not None:
            try_folder(folder)
        else:
            _write_and_delete(staged.io(), f"{location_uri}/metadata/{name}.metadata.json")
        return Storage(location_uri, catalog.io_properties(staged), staged.io())


def _write_and_delete(io: Any, path: str) -> None:
    stream = io.newOutputFile(path).createOrOverwrite()
    stream.write(0)
    stream.close()
    io.deleteFile(path)
