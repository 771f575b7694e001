"""The table of a sink's dead letters: finds or creates it, checks it, and records its location for readers."""

from __future__ import annotations

import contextlib
import threading

from pyiceberg.schema import Schema

from calve.catalog.catalog import Catalog
from calve.catalog.sqlite import sqlite_file
from calve.dead_letters.table import LETTERS, PROPERTIES, LetterTable, note, note_name
from calve.errors import CalveError, NoTargetError, SchemaConflictError, WriteError
from calve.observe.log import Log
from calve.state.folder import StateFolder
from calve.state.values import encoded
from calve.table.loaded import Table
from calve.write.writer import check

__all__ = ["PARTITIONS", "LetterTarget", "check_letters"]

_STEP = "reject"
PARTITIONS = (("timestamp", "day"),)
"""So old entries can be deleted day by day, without rewriting a file."""


class LetterTarget:
    """The table of dead letters of one sink on the driver; `refresh` is called by any thread.

    Args:
        catalog: The sink's catalog.
        identifier: Namespace and name.
        folder: The pipeline's folder of dead letters, which gets a note about the table.
        log: Logs that the table was created.
    """

    def __init__(self, catalog: Catalog, identifier: str, folder: StateFolder, log: Log) -> None:
        self.identifier = identifier
        self._catalog = catalog
        self._folder = folder
        self._info = log.info
        self._lock = threading.Lock()
        self._found: Table | CalveError | None = None

    @property
    def table(self) -> Table:
        """The table, as it was last loaded.

        Raises:
            CalveError: It was dropped, or changed so that entries cannot be written.
        """
        with self._lock:
            table = self._found
        if isinstance(table, Table):
            return table
        raise table or NoTargetError(f"The table {self.identifier} was not opened", step=_STEP, target=self.identifier)

    @property
    def readable(self) -> LetterTable:
        """The table for reading its entries, with the secrets of its storage.

        Raises:
            CalveError: It was dropped or changed.
        """
        return _readable(self.table)

    def open(self) -> None:
        """Load the table, or create it.

        Raises:
            SchemaConflictError: It lacks a column of an entry, or has other required columns.
            UnsupportedError: It requires files that Calve cannot write.
        """
        table = self._catalog.load(self.identifier)
        if table is None:
            table = self._catalog.create(self.identifier, LETTERS.model_dump_json(), PARTITIONS, PROPERTIES)
            self._info(f"created the table {self.identifier} for dead letters")
        check_letters(table)
        with self._lock:
            self._found = table

    def refresh(self) -> None:
        """Load the table again, and record its location. Errors of the table are raised at its next use.

        Raises:
            SinkUnavailableError: The catalog does not answer.
        """
        table = self._catalog.load(self.identifier)
        state: Table | CalveError | None = table
        if table is None:
            hint = "It was dropped or renamed; restore it, or set another one in `dlq: {table: …}`"
            message = f"The table of dead letters {self.identifier} does not exist"
            state = NoTargetError(message, step=_STEP, target=self.identifier, hint=hint)
        else:
            try:
                check_letters(table)
            except CalveError as error:
                state = error
        with self._lock:
            self._found = state
        with contextlib.suppress(WriteError):  # recorded after the next commit, or when a run or a replay starts
            self.note()

    def note(self) -> None:
        """Record the location of the table, for `calve dlq`.

        Raises:
            WriteError: The disk refused.
        """
        with self._lock:
            if not isinstance(self._found, Table):
                return
            file = sqlite_file(self._catalog.properties)
            sqlite = (str(file.absolute()), self._catalog.name) if file else None
            readable, is_hadoop = _readable(self._found), self._catalog.properties.get("type") == "hadoop"
            name, content = note_name(self.identifier), note(readable, sqlite, is_hadoop)
            self._folder.put(name, encoded(content))


def _readable(table: Table) -> LetterTable:
    return LetterTable(table.metadata_location, table.identifier, table.io_properties)


def check_letters(table: Table) -> None:
    """Refuse a table to which entries cannot be written.

    Raises:
        SchemaConflictError: A column of `LETTERS` is missing or has another type, or another column is required.
        UnsupportedError: It requires files that Calve cannot write.
    """
    if complaint := _complaint(table.schema):
        raise SchemaConflictError(
            f"The table {table.identifier} cannot be a table of dead letters: {complaint}",
            step=_STEP,
            target=table.identifier,
            hint="Set a table that does not exist in `dlq: {table: …}`, and Calve creates it; or add such columns",
        )
    check(table, table.properties)


def _complaint(schema: Schema) -> str:
    fields_by_name = {field.name: field for field in schema.fields}
    for field in LETTERS.fields:
        column = fields_by_name.get(field.name)
        if column is None:
            return f"it has no column {field.name} ({field.field_type})"
        if column.field_type != field.field_type:
            return f"its column {field.name} is {column.field_type}, not {field.field_type}"
    required = [name for name, field in fields_by_name.items() if field.required]
    return f"its column {required[0]} is required" if required else ""
