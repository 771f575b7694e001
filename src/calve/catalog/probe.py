"""Checks that the files of a table can be written, without creating it."""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from typing import Any, NamedTuple

from calve.engine.java.errors import JAVA_ERRORS, java_errors
from calve.state.durable import local_path, try_folder

__all__ = ["SCHEMA", "TableStorage", "has_staged_files", "try_storing"]

SCHEMA = json.dumps(
    {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}
)
"""The schema of a table that is tried."""


_BUCKET = re.compile(r"s3[an]?://[^/]+")


class TableStorage(NamedTuple):
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


def has_staged_files(location: str, name: str, io: Any) -> bool:
    """Return whether the server keeps files of a table whose creation was only begun, as SeaweedFS does.

    No client may delete them, but the server does once the table was created and dropped.

    Args:
        location: The location of the table.
        name: Its name, which no other table has.
        io: Java's FileIO of the table.
    """
    bucket = _BUCKET.match(location)
    if bucket is None:
        return False
    with contextlib.suppress(*JAVA_ERRORS):  # other servers need not permit to list there
        staged = io.listPrefix(f"{bucket[0]}/.iceberg_staged/").iterator()
        while staged.hasNext():
            if f"/{name}/" in str(staged.next().location()):
                return True
    return False


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
