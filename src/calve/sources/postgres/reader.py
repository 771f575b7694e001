"""The postgres source on executors: chunks by COPY, and messages of `pgoutput`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from calve.compiled import postgres as core
from calve.sources.database.attributes import OfTransaction
from calve.sources.database.change import Change, Row, Values
from calve.sources.database.changes import Decoded
from calve.sources.database.pieces import ChunkRows
from calve.sources.database.reader import DatabaseReader
from calve.sources.database.table import DatabaseTable
from calve.sources.postgres.attributes import OWN
from calve.sources.postgres.load import read_chunk
from calve.sources.postgres.protocol import pgoutput
from calve.sources.postgres.protocol.tuples import texts
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.postgres.values import typed_rows
from calve.state.location import state_folder_at

__all__ = ["PostgresReader"]


@dataclass(frozen=True)
class PostgresReader(DatabaseReader):
    """Reads splits: a chunk of a table under the snapshot, or a part of the log."""

    settings: PostgresSettings
    own: ClassVar[Mapping[str, OfTransaction]] = OWN
    oid_at: ClassVar[int] = 1

    def chunk(self, table: DatabaseTable, chunk: dict[str, Any]) -> Iterator[ChunkRows]:
        """See `DatabaseReader.chunk`."""
        return read_chunk(self.settings, state_folder_at(self.folder), table, chunk, f"calve {self.pipeline} load")

    def changes(self, message: bytes, tables: Mapping[int, DatabaseTable]) -> Iterator[Change]:
        """See `DatabaseReader.changes`."""
        yield pgoutput.packed_change(message)

    def decoded(self, table: DatabaseTable, messages: pa.Array) -> Decoded | None:
        """See `DatabaseReader.decoded`."""
        columns = core.rows(messages, [column.is_key for column in table.columns])
        return columns and Decoded(*columns)

    def unpacked(self, row: Row) -> Values:
        """See `DatabaseReader.unpacked`."""
        return pgoutput.unpacked(row) if isinstance(row, bytes) else row

    def values(self, table: DatabaseTable, rows: list[Row]) -> list[pa.Array]:
        """See `DatabaseReader.values`."""
        packed = [row if isinstance(row, bytes) else pgoutput.packed(row) for row in rows]
        return texts(packed, len(table.columns))

    def typed(self, table: DatabaseTable, values: list[pa.Array]) -> Iterator[tuple[int, pa.StructArray]]:
        """See `DatabaseReader.typed`."""
        return typed_rows(table.columns, values)

    def database_of(self, table: DatabaseTable) -> str:
        """See `DatabaseReader.database_of`."""
        return self.settings.database
