"""The mysql source on executors: chunks by SELECT, and rows of the binary log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from calve.sources.database.attributes import OfTransaction
from calve.sources.database.change import Change, Row
from calve.sources.database.changes import Decoded
from calve.sources.database.pieces import ChunkRows
from calve.sources.database.reader import DatabaseReader
from calve.sources.database.table import DatabaseTable
from calve.sources.database.values import converted
from calve.sources.mysql.attributes import OWN
from calve.sources.mysql.load import read_chunk
from calve.sources.mysql.rows import log_rows
from calve.sources.mysql.settings import MysqlSettings
from calve.state.location import state_folder_at

__all__ = ["MysqlReader"]


@dataclass(frozen=True)
class MysqlReader(DatabaseReader):
    """Reads splits: a range of a table's keys, or a part of the log."""

    settings: MysqlSettings
    own: ClassVar[Mapping[str, OfTransaction]] = OWN
    oid_at: ClassVar[int] = 0

    def chunk(self, table: DatabaseTable, chunk: dict[str, Any]) -> Iterator[ChunkRows]:
        """See `DatabaseReader.chunk`."""
        folder = state_folder_at(self.folder)
        return read_chunk(self.settings, folder, table, chunk, f"calve {self.pipeline} load")

    def changes(self, message: bytes, tables: Mapping[int, DatabaseTable]) -> Iterator[Change]:
        """See `DatabaseReader.changes`."""
        return log_rows.changes(message, tables)

    def decoded(self, table: DatabaseTable, messages: pa.Array) -> Decoded | None:
        """See `DatabaseReader.decoded`."""
        return log_rows.decoded_rows(table, messages)

    def values(self, table: DatabaseTable, rows_of_table: list[Row]) -> list[pa.Array]:
        """See `DatabaseReader.values`."""
        return log_rows.arrays(table.columns, rows_of_table)

    def typed(self, table: DatabaseTable, values: list[pa.Array]) -> Iterator[tuple[int, pa.StructArray]]:
        """See `DatabaseReader.typed`."""
        arrays = [converted(column.kind, texts) for column, texts in zip(table.columns, values, strict=True)]
        yield 0, pa.StructArray.from_arrays(arrays, [column.field_name for column in table.columns])

    def database_of(self, table: DatabaseTable) -> str:
        """See `DatabaseReader.database_of`."""
        return table.schema
