"""Sources of databases on executors: chunks of tables, and changes of the log, as typed Arrow batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from calve.event.columns import SCHEMA, TYPED
from calve.event.typed import with_decimals_as_strings
from calve.event.typed_schema import declaration
from calve.sources.database.attributes import METADATA, OfTransaction
from calve.sources.database.change import Change, Row, Values
from calve.sources.database.changes import Changes, Decoded, by_table, effects
from calve.sources.database.epochs import read_epoch, read_epochs
from calve.sources.database.load_positions import loaded, note
from calve.sources.database.metadata import Stamps, columns
from calve.sources.database.pieces import ChunkRows
from calve.sources.database.stopped import UnreadableError, mark
from calve.sources.database.stream_position import StreamPosition
from calve.sources.database.table import DatabaseTable
from calve.sources.log import record
from calve.sources.log.records import records
from calve.sources.source import READ_BYTES, READ_ROWS, Split
from calve.state.location import state_folder_at

__all__ = ["DatabaseReader"]

_ROWS = READ_ROWS // 2
_BYTES = READ_BYTES // 4


@dataclass(frozen=True)
class DatabaseReader(ABC):
    """Reads splits: a chunk of a table, or a part of the log.

    Attributes:
        settings: The source's settings.
        folder: The source's folder, which every executor sees, or its URI.
        pipeline: The pipeline's name.
        metadata: The requested attributes; None: all.
    """

    settings: Any
    folder: str
    pipeline: str
    metadata: frozenset[str] | None = None
    own: ClassVar[Mapping[str, OfTransaction]]
    """The attributes that only this database has."""
    oid_at: ClassVar[int]
    """Where a message of the log has the number of its table."""

    @abstractmethod
    def chunk(self, table: DatabaseTable, chunk: dict[str, Any]) -> Iterator[ChunkRows]:
        """Yield the rows of a chunk as columns of texts.

        Raises:
            SourceError: The server does not answer, or refuses.
            UnreadableError: The table is not what it was when the load began.
        """

    @abstractmethod
    def changes(self, message: bytes, tables: Mapping[int, DatabaseTable]) -> Iterator[Change]:
        """Yield the changes of a message of the log."""

    def decoded(self, table: DatabaseTable, messages: pa.Array) -> Decoded | None:
        """Return the rows of messages of a table in one step; None: `changes` and `values` must."""
        return None

    def unpacked(self, row: Row) -> Values:
        """Return the values of a row of `changes`."""
        return list(row)

    @abstractmethod
    def values(self, table: DatabaseTable, rows: list[Row]) -> list[pa.Array]:
        """Return rows of changes as columns of texts, or of values of their type."""

    @abstractmethod
    def typed(self, table: DatabaseTable, values: list[pa.Array]) -> Iterator[tuple[int, pa.StructArray]]:
        """Yield rows as typed structs, and the position of the first row of each piece."""

    @abstractmethod
    def database_of(self, table: DatabaseTable) -> str:
        """Return the name of a table's database."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk, or the changes of a part of the log; those of each table are in order.

        Raises:
            SourceError: The log or the epoch is not there or damaged, or the server refuses.
        """
        if "chunk" in split.body:
            yield from self._load(split)
            return
        waiting: dict[int, Changes] = {}
        for head, body in records(state_folder_at(self.folder), split):
            self._add_messages(head, body, waiting)
            for oid in [oid for oid, buffer in waiting.items() if buffer.rows >= _ROWS or buffer.size_bytes >= _BYTES]:
                yield from self._of_changes(waiting.pop(oid), split)
        for changes in waiting.values():
            yield from self._of_changes(changes, split)

    def _load(self, split: Split) -> Iterator[pa.RecordBatch]:
        chunk = split.body["chunk"]
        table = read_epoch(self.folder, chunk.get("epoch", 0))[chunk["table"]]
        try:
            for piece in self.chunk(table, chunk):
                replaces = (piece.may_be_there or chunk.get("replaces", False)) and not table.appends
                stamps = Stamps.of_load(len(piece.values[0]), "update" if replaces else "insert")
                loaded_at = chunk.get("at", 0) if piece.at is None else piece.at
                if table.mirrors:
                    note(state_folder_at(self.folder), table.oid, loaded_at)
                yield from self._batches(table, piece.values, stamps, loaded_at)
        except UnreadableError as error:  # this table alone is stopped
            why = str(error) if table.appends else f"it changed during the load: {error}"
            mark(state_folder_at(self.folder), table.oid, why)

    def _add_messages(self, head: record.RecordHead, body: memoryview, waiting: dict[int, Changes]) -> None:
        """Add the messages of one entry of the log to those that wait."""
        tables = read_epoch(self.folder, StreamPosition.of(bytes(body[: head.key_bytes])).epoch)
        for oid, messages, transactions, numbers in by_table(head, body, self.oid_at):
            after = loaded(self.folder, oid) if tables[oid].mirrors else None
            waiting.setdefault(oid, Changes(tables[oid])).add(messages, transactions, numbers, after)

    def _of_changes(self, changes: Changes, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield changes, with the columns that the table has at the end of a batch of several epochs."""
        table = now = changes.table
        if "epochs" in split.body:
            now = read_epochs(self.folder, *split.body["epochs"])[table.oid]
        messages = pa.concat_arrays(changes.messages)
        is_fast = table.columns == now.columns and not table.appends
        decoded = self.decoded(table, messages) if is_fast else None
        for rows in self._exactly(table, now, messages) if decoded is None else (decoded,):
            yield from self._batches(now, rows.values, changes.stamps(rows, split.body["until"]))

    def _exactly(self, table: DatabaseTable, now: DatabaseTable, messages: pa.Array) -> Iterator[Decoded]:
        """Yield the rows of messages, read one after the other, as a table has them by now."""
        changed_rows: list[tuple[Row, int, int]] = []
        for number, message in enumerate(messages.to_pylist()):
            for change in self.changes(message, {table.oid: table}):
                changed_rows += [(row, number, kind) for kind, row in effects(change, table)]
            if len(changed_rows) >= _ROWS or number == len(messages) - 1:
                rows = [row for row, _, _ in changed_rows]
                of_rows = np.array([changed_row[1:] for changed_row in changed_rows], np.int64).reshape(-1, 2)
                if table.columns != now.columns:
                    rows = _fitted(table, now, [self.unpacked(row) for row in rows])
                yield Decoded(self.values(now, rows), of_rows[:, 0], of_rows[:, 1])
                changed_rows = []

    def _batches(
        self, table: DatabaseTable, values: list[pa.Array], stamps: Stamps, loaded_at: int = 0
    ) -> Iterator[pa.RecordBatch]:
        names = [name for name in {**METADATA, **self.own} if self.metadata is None or name in self.metadata]
        wanted = {name: self.own.get(name) for name in names}
        attributes = columns(wanted, table, self.database_of(table), stamps, values)
        declared = pa.array([declaration(table.arrow_schema)], pa.string())
        shared = {name: pa.repeat(value, len(stamps.types)) for name, value in table.merged.items()}
        if table.history:
            shared |= dict(zip(table.history, stamps.history(loaded_at), strict=True))
        for start, rows in self.typed(table, values):
            rows = _with_columns(rows, {name: array.slice(start, len(rows)) for name, array in shared.items()})
            codes = pa.repeat(pa.scalar(0, pa.int32()), len(rows))
            yield pa.record_batch(
                {
                    TYPED: with_decimals_as_strings(rows),
                    **{name: array.slice(start, len(rows)) for name, array in attributes.items()},
                    SCHEMA: pa.DictionaryArray.from_arrays(codes, declared),
                }
            )


def _with_columns(rows: pa.StructArray, more: Mapping[str, pa.Array]) -> pa.StructArray:
    """Return rows with more columns before their own."""
    if not more:
        return rows
    return pa.StructArray.from_arrays([*more.values(), *rows.flatten()], [*more, *(field.name for field in rows.type)])


def _fitted(table: DatabaseTable, now: DatabaseTable, rows: list[Values]) -> list[Row]:
    """Return rows of a table with the columns that it has later; new columns are NULL."""
    at = {column.number: index for index, column in enumerate(table.columns)}
    places = [at.get(column.number) for column in now.columns]
    return [[None if place is None else row[place] for place in places] for row in rows]
