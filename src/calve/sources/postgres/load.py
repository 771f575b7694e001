"""Divides tables into chunks, and reads a chunk by COPY under the snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from calve.sources.database.pieces import ChunkRows
from calve.sources.database.stopped import INTERRUPTED, UnreadableError, unreadable
from calve.sources.database.table import DatabaseTable
from calve.sources.postgres.catalog.database import PostgresCatalog
from calve.sources.postgres.failure import explained
from calve.sources.postgres.protocol.quote import literal, quoted
from calve.sources.postgres.protocol.wire import PostgresConnection, connect
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.postgres.slot.snapshot import SnapshotName
from calve.state.folder import StateFolder

__all__ = ["chunks", "read_chunk"]

_CHUNK_PAGES = 4096
"""Pages of a chunk, about 32 MB: a task reads several, and a cut costs little."""
_STEP = "load"
_CHANGED = frozenset(("42703", "42P01", "3F000"))
"""Codes of errors for a column, table or schema that does not exist."""


def chunks(database: PostgresCatalog, tables: Iterable[DatabaseTable], page_bytes: int) -> list[dict[str, Any]]:
    """Divide tables into ranges of pages; the last one of a table is open-ended, because tables grow.

    Raises:
        ClosedError: The connection was lost.
        ServerError: The server refuses.
    """
    ranges = []
    for table in tables:
        for name, pages, file in database.leaves(table):
            starts = range(0, max(pages, 1), _CHUNK_PAGES)
            for start in starts:
                is_last = start == starts[-1]
                end = None if is_last else start + _CHUNK_PAGES
                size = max((pages if is_last else start + _CHUNK_PAGES) - start, 1) * page_bytes
                limits = {"start": start, "end": end}
                ranges.append({"table": table.oid, "from": name, "file": file, **limits, "bytes": size})
    return ranges


def read_chunk(
    settings: PostgresSettings, folder: StateFolder, table: DatabaseTable, chunk: dict[str, Any], name: str
) -> Iterator[ChunkRows]:
    """Yield the rows of a chunk as columns of texts.

    Raises:
        SourceError: The server does not answer, or refuses.
        UnreadableError: The table is not what it was when the load began.
    """
    snapshot = SnapshotName.read(folder)
    if table.appends and snapshot.until:
        raise UnreadableError(INTERRUPTED)
    with explained(settings, _STEP, f"to read {table.full_name}"), connect(settings.address, name) as connection:
        connection.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.query(f"SET TRANSACTION SNAPSHOT {literal(snapshot.name)}")
        with unreadable(_CHANGED):
            _lock(connection, chunk)
            for texts in connection.copy_out(_copy(table, chunk), len(table.columns)):
                yield ChunkRows(texts, snapshot.until > 0)


def _lock(connection: PostgresConnection, chunk: dict[str, Any]) -> None:
    """Keep the table as it is until the end of the session, and check that its rows are where they were.

    A table that an ALTER TABLE or TRUNCATE has rewritten looks empty to older snapshots, and VACUUM FULL moves rows.

    Raises:
        ServerError: It does not exist any more.
        UnreadableError: It was rewritten.
    """
    connection.query(f"LOCK TABLE ONLY {chunk['from']} IN ACCESS SHARE MODE")
    file = connection.query(f"SELECT pg_catalog.pg_relation_filenode({literal(chunk['from'])}::regclass)")[0][0]
    if "file" in chunk and int(file or 0) != chunk["file"]:
        raise UnreadableError("its rows were rewritten")


def _copy(table: DatabaseTable, chunk: dict[str, Any]) -> str:
    columns = ", ".join(quoted(column.name) for column in table.columns)
    limits = f"ctid >= '({chunk['start']},0)'::tid"
    if chunk["end"] is not None:
        limits += f" AND ctid < '({chunk['end']},0)'::tid"
    return f"COPY (SELECT {columns} FROM ONLY {chunk['from']} WHERE {limits}) TO STDOUT"
