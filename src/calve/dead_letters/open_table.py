"""The table that a sink's rejects go to: found or made, looked at, and noted down for those who read it."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from pyiceberg.schema import Schema

from calve import durable
from calve.catalog.catalog import Catalog
from calve.catalog.sqlite import sqlite_file
from calve.dead_letters.table import LETTERS, PROPERTIES, LetterTable, note, note_name
from calve.errors import CalveError, NoTargetError, SchemaConflictError, WriteError
from calve.observe.log import Log
from calve.table.loaded import Table
from calve.write.writer import check

__all__ = ["PARTITIONS", "LetterTarget", "check_letters"]

_STEP = "reject"
PARTITIONS = (("timestamp", "day"),)
"""Old entries can then be deleted a day at a time, without a file being written anew."""


class LetterTarget:
    """The table of dead letters of one sink on the driver; `refresh` is called by any thread.

    Args:
        catalog: The sink's catalog.
        identifier: Namespace and name.
        folder: The pipeline's folder of dead letters, where the table is noted down.
        log: Tells the operator that it was made.
    """

    def __init__(self, catalog: Catalog, identifier: str, folder: Path, log: Log) -> None:
        self.identifier = identifier
        self._catalog = catalog
        self._folder = folder
        self._say = log.info
        self._lock = threading.Lock()
        self._found: Table | CalveError | None = None

    @property
    def table(self) -> Table:
        """The table as it was last seen.

        Raises:
            CalveError: It was dropped or changed so that entries cannot be written to it.
        """
        with self._lock:
            found = self._found
        if isinstance(found, Table):
            return found
        raise found or NoTargetError(f"The table {self.identifier} was not opened", step=_STEP, target=self.identifier)

    @property
    def place(self) -> LetterTable:
        """The table as those who read its entries find it, secrets of its storage included.

        Raises:
            CalveError: It was dropped or changed.
        """
        return _place(self.table)

    def open(self) -> None:
        """Find the table, or make it.

        Raises:
            SchemaConflictError: It lacks a column of an entry, or has others that must have a value.
            UnsupportedError: It asks for files that Calve cannot write.
        """
        found = self._catalog.load(self.identifier)
        if found is None:
            found = self._catalog.create(self.identifier, LETTERS.model_dump_json(), PARTITIONS, PROPERTIES)
            self._say(f"created the table {self.identifier} for dead letters")
        check_letters(found)
        with self._lock:
            self._found = found

    def refresh(self) -> None:
        """Look at the table again, and note down where it is; what is wrong with it is told when it is next used.

        Raises:
            SinkUnavailableError: The catalog does not answer.
        """
        table = self._catalog.load(self.identifier)
        found: Table | CalveError | None = table
        if table is None:
            hint = "It was dropped or renamed; bring it back, or name another one as `dlq: {table: …}`"
            message = f"The table of dead letters {self.identifier} does not exist"
            found = NoTargetError(message, step=_STEP, target=self.identifier, hint=hint)
        else:
            try:
                check_letters(table)
            except CalveError as error:
                found = error
        with self._lock:
            self._found = found
        with contextlib.suppress(WriteError):  # noted after the next commit, or when a run or a replay starts
            self.note()

    def note(self) -> None:
        """Write down where the table is, for `calve dlq`.

        Raises:
            WriteError: The disk refuses.
        """
        with self._lock:
            if not isinstance(self._found, Table):
                return
            file = sqlite_file(self._catalog.properties)
            sqlite = (str(file.absolute()), self._catalog.name) if file else None
            durable.make_folder(self._folder)
            told, is_hadoop = _place(self._found), self._catalog.properties.get("type") == "hadoop"
            durable.replace(self._folder / note_name(self.identifier), note(told, sqlite, is_hadoop))


def _place(table: Table) -> LetterTable:
    return LetterTable(table.metadata_location, table.identifier, table.io_properties)


def check_letters(table: Table) -> None:
    """Refuse a table that entries cannot be written to.

    Raises:
        SchemaConflictError: A column of `LETTERS` is missing or of another type; or another one must have a value.
        UnsupportedError: It asks for files that Calve cannot write.
    """
    if complaint := _complaint(table.schema):
        raise SchemaConflictError(
            f"The table {table.identifier} is no table of dead letters: {complaint}",
            step=_STEP,
            target=table.identifier,
            hint="Name one that does not exist as `dlq: {table: …}`, and it is made; or give this one such columns",
        )
    check(table, table.properties)


def _complaint(schema: Schema) -> str:
    found = {field.name: field for field in schema.fields}
    for field in LETTERS.fields:
        own = found.get(field.name)
        if own is None:
            return f"it has no column {field.name} ({field.field_type})"
        if own.field_type != field.field_type:
            return f"its column {field.name} is {own.field_type}, not {field.field_type}"
    required = [name for name, field in found.items() if field.required]
    return f"its column {required[0]} must have a value" if required else ""
