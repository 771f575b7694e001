"""Sources of databases on executors: chunks of tables, and changes of the log, as typed Arrow batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from calve.errors import SourceError
from calve.event.columns import SCHEMA, TYPED
from calve.event.declared import declaration
from calve.event.typed import with_decimals_as_strings
from calve.sources.database.attributes import METADATA, OfTransaction
from calve.sources.database.change import DELETE, INSERT, Change, Row, Values
from calve.sources.database.epochs import read_epoch, read_epochs
from calve.sources.database.metadata import Stamps, columns
from calve.sources.database.stopped import UnreadableError, mark
from calve.sources.database.stream_position import StreamPosition, Transaction, unpack_runs
from calve.sources.database.table import Table
from calve.sources.log import record
from calve.sources.log.records import records
from calve.sources.source import READ_BYTES, READ_ROWS, Split

__all__ = ["DatabaseReader"]

_INSERT, _UPDATE, _DELETE = "insert", "update", "delete"
_ROWS = READ_ROWS // 2
_BYTES = READ_BYTES // 4


@dataclass
class _Changes:
    """Changes of one table that become one batch."""

    table: Table
    rows: list[Row] = field(default_factory=list)
    stamps: Stamps = field(default_factory=Stamps)
    size: int = 0

    def add(self, row: Row, operation: str, word: str, transaction: Transaction) -> None:
        self.rows.append(row)
        self.stamps.operations.append(operation)
        self.stamps.words.append(word)
        self.stamps.transactions.append(transaction)


@dataclass(frozen=True)
class DatabaseReader(ABC):
    """Reads splits: a chunk of a table, or a part of the log.

    Attributes:
        settings: The source's settings.
        folder: The source's folder, which every executor sees.
        pipeline: The pipeline's name.
        metadata: The requested attributes; None: all.
    """

    settings: Any
    folder: str
    pipeline: str
    metadata: frozenset[str] | None = None
    own: ClassVar[Mapping[str, OfTransaction]]
    """The attributes that only this database has."""

    @abstractmethod
    def chunk(self, table: Table, chunk: dict[str, Any]) -> Iterator[tuple[bool, list[pa.Array]]]:
        """Yield the rows of a chunk as columns of texts, and whether they may be in the target already.

        Raises:
            SourceError: The server does not answer, or refuses.
            UnreadableError: The table is not what it was when the load began.
        """

    @abstractmethod
    def changes(self, message: bytes, tables: Mapping[int, Table]) -> Iterator[Change]:
        """Yield the changes of a message of the log."""

    def unpacked(self, row: Row) -> Values:
        """Return the values of a row of `changes`."""
        return list(row)

    @abstractmethod
    def values(self, table: Table, rows: list[Row]) -> list[pa.Array]:
        """Return rows of changes as columns of texts, or of values of their type."""

    @abstractmethod
    def typed(self, table: Table, values: list[pa.Array]) -> Iterator[tuple[int, pa.StructArray]]:
        """Yield rows as typed structs, and the position of the first row of each piece."""

    @abstractmethod
    def database_of(self, table: Table) -> str:
        """Return the name of a table's database."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk, or the changes of a part of the log; those of each table are in order.

        Raises:
            SourceError: The log or the epoch is not there or damaged, or the server refuses.
        """
        if "chunk" in split.body:
            yield from self._load(split)
            return
        waiting: dict[int, _Changes] = {}
        for head, body in records(Path(self.folder), split):
            self._decode(head, body, split.body["until"], waiting)
            for changes in [each for each in waiting.values() if len(each.rows) >= _ROWS or each.size >= _BYTES]:
                yield from self._of_changes(waiting.pop(changes.table.oid), split)
        for changes in waiting.values():
            yield from self._of_changes(changes, split)

    def _load(self, split: Split) -> Iterator[pa.RecordBatch]:
        chunk = split.body["chunk"]
        table = read_epoch(self.folder, chunk.get("epoch", 0))[chunk["table"]]
        try:
            for may_be_there, texts in self.chunk(table, chunk):
                replaces = may_be_there or chunk.get("replaces", False)
                stamps = Stamps.of_load(len(texts[0]), _UPDATE if replaces else _INSERT)
                yield from self._batches(table, texts, stamps)
        except UnreadableError as error:  # this table alone is stopped
            mark(Path(self.folder), table.oid, f"it changed during the load: {error}")

    def _decode(self, head: record.Head, body: memoryview, until: int, waiting: dict[int, _Changes]) -> None:
        """Add the changes of one entry of the log to those that wait."""
        tables = read_epoch(self.folder, StreamPosition.of(bytes(body[: head.key_bytes])).epoch)
        for message, transaction in _messages(head, body):
            for change in self.changes(message, tables):
                if change.oid not in waiting:
                    waiting[change.oid] = _Changes(tables[change.oid])
                _add(waiting[change.oid], change, transaction, until)
                waiting[change.oid].size += len(message)

    def _of_changes(self, changes: _Changes, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield changes, with the columns that the table has at the end of a batch of several epochs."""
        table, rows = changes.table, changes.rows
        if "epochs" in split.body:
            now = read_epochs(self.folder, *split.body["epochs"])[table.oid]
            if table.columns != now.columns:
                rows = _fitted(table, now, [self.unpacked(row) for row in rows])
            table = now
        return self._batches(table, self.values(table, rows), changes.stamps)

    def _batches(self, table: Table, values: list[pa.Array], stamps: Stamps) -> Iterator[pa.RecordBatch]:
        names = [name for name in {**METADATA, **self.own} if self.metadata is None or name in self.metadata]
        wanted = {name: self.own.get(name) for name in names}
        attributes = columns(wanted, table, self.database_of(table), stamps, values)
        declared = pa.array([declaration(table.arrow_schema)], pa.string())
        for start, rows in self.typed(table, values):
            codes = pa.repeat(pa.scalar(0, pa.int32()), len(rows))
            yield pa.record_batch(
                {
                    TYPED: with_decimals_as_strings(rows),
                    **{name: found.slice(start, len(rows)) for name, found in attributes.items()},
                    SCHEMA: pa.DictionaryArray.from_arrays(codes, declared),
                }
            )


def _messages(head: record.Head, body: memoryview) -> Iterator[tuple[bytes, Transaction]]:
    """Yield the messages of an entry of the log, each with its transaction."""
    at = len(body) - head.data_bytes
    lengths = body[at - 4 * head.rows : at].cast("I")
    number = 0
    for run in unpack_runs(bytes(body[head.key_bytes : head.key_bytes + head.headers_bytes])):
        for length in lengths[number : number + run.count]:
            yield bytes(body[at : at + length]), run.transaction
            at += length
        number += run.count


def _add(changes: _Changes, change: Change, transaction: Transaction, until: int) -> None:
    """Add what a change means for rows with a key.

    An insert up to `until` may already have been loaded, so it replaces. A new key is a delete of the old row.
    """
    keys = changes.table.keys
    if change.kind == DELETE:
        changes.add(_only(change.old, keys), _DELETE, _DELETE, transaction)
        return
    if change.new is None:
        raise SourceError("a change without a row", step="read", target=changes.table.full_name)
    if change.kind == INSERT:
        changes.add(change.new, _UPDATE if transaction.commit <= until else _INSERT, _INSERT, transaction)
        return
    if change.old is not None and any(change.old[index] != change.new[index] for index in keys):
        changes.add(_only(change.old, keys), _DELETE, _UPDATE, transaction)
    changes.add(change.new, _UPDATE, _UPDATE, transaction)


def _fitted(table: Table, now: Table, rows: list[Values]) -> list[Row]:
    """Return rows of a table with the columns that it has later; new columns are NULL."""
    at = {column.number: index for index, column in enumerate(table.columns)}
    places = [at.get(column.number) for column in now.columns]
    return [[None if place is None else row[place] for place in places] for row in rows]


def _only(row: Row | None, keys: tuple[int, ...]) -> Row:
    """Return a row with its key alone."""
    if isinstance(row, bytes):
        return row
    values = row or []
    return [value if index in keys else None for index, value in enumerate(values)]
