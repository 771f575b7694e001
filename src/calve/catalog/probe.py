"""Checks that the files of a table can be written, without creating it."""

from __future__ import annotations

import json
import uuid
from typing import Any, NamedTuple

from calve.engine.java.errors import java_errors
from calve.state.durable import local_path, try_folder

__all__ = ["SCHEMA", "Storage", "try_storing"]

SCHEMA = json.dumps(
    {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
)
"""The schema of a table that is tried."""


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


def try_storing(location: str, io: Any) -> None:
    """Check that files can be written below the location of a table; nothing remains of it.

    Args:
        location: The location.
        io: Java's FileIO of the table; raises what py4j raises.

    Raises:
        CalveError: A local folder cannot be made or written.
    """
    if (folder := local_path(location)) is not None:
        try_folder(folder)
        return
    path = f"{location}/metadata/calve_probe_{uuid.uuid4().hex}.metadata.json"
    stream = io.newOutputFile(path).createOrOverwrite()
    stream.write(0)
    stream.close()
    io.deleteFile(path)
