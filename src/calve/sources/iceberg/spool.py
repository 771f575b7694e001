"""Files of changes in the state, so that a batch can be read again, even if the table has changed.

    iceberg/<spool>/part-….parquet
    iceberg/<spool>/sizes.json       the size of the rows of each file; a spool of an older version may have none
    iceberg/<spool>/table.json       appears last; without it there is no spool

A spool is a folder of Parquet files with rows and metadata attributes, ordered by file name; the changes of one key are
in one file or in the right order. Rows are structs, `_typed`; if Parquet cannot store their types, they are JSON text,
`event`. A spool is complete or does not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet

from calve.errors import SourceError
from calve.event.columns import EVENT, TYPED
from calve.sources.source import SourceTable
from calve.state import durable, values
from calve.state.folder import StateFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ABOUT", "SpoolPart", "Spools"]

_PART_ROWS = 100_000
_SIZES = "sizes.json"
ABOUT = "table.json"
_EXACT = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
"""Spark's options to write all timestamps and dates to Parquet unchanged."""


@dataclass(frozen=True)
class SpoolPart:
    """One file of a spool.

    Attributes:
        spool: The folder's name.
        name: The file's name.
        size_bytes: The size of its rows, before compression.
    """

    spool: str
    name: str
    size_bytes: int


class Spools:
    """The spools of one source; `table` also runs on executors.

    Args:
        folder: `<state>/<pipeline>/iceberg`, local or on an object store.
    """

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder.absolute()
        self._known: dict[str, _Content] = {}

    def write(self, name: str, events: DataFrame, table: SourceTable) -> None:
        """Write events of a table to a new spool; durable on return.

        Raises:
            WriteError: The local disk is full, or the store does not answer.
        """
        with self._folder.building(name, last=ABOUT) as folder:
            durable.replace(folder / _SIZES, values.encoded(_write_parquet(events, folder)))
            durable.replace(folder / ABOUT, values.encoded(asdict(table)))

    def table(self, name: str) -> SourceTable | None:
        """Return the table of a spool; None if the spool no longer exists."""
        content = self._content(name)
        return content.table if content else None

    def parts(self, name: str, after: str = "") -> list[SpoolPart]:
        """Return the files of a spool after one of them.

        Raises:
            SourceError: The spool no longer exists.
        """
        content = self._content(name)
        if content is None:
            hint = "Restore the state; or use a new --state, which reads the table from its start"
            raise SourceError(f"The changes in {self._folder / name} are gone", step="read", target=name, hint=hint)
        return [SpoolPart(name, part, size) for part, size in sorted(content.parts.items()) if part > after and size]

    def remove(self, parts: Iterable[tuple[str, str]], kept: Collection[str]) -> None:
        """Remove files that are no longer needed, and empty spools unless they are in `kept`."""
        spools = set()
        for spool, name in parts:
            (self._folder / spool).remove([name])
            spools.add(spool)
        self.drop(spool for spool in spools - set(kept) if not _part_names(self._folder / spool))

    def drop(self, spools: Iterable[str]) -> None:
        """Remove spools."""
        for spool in spools:
            self._known.pop(spool, None)
            (self._folder / spool).remove([ABOUT])
            (self._folder / spool).clear()

    def keep_only(self, spools: Collection[str]) -> None:
        """Remove the spools of a killed run."""
        self.drop(set(self._folder.folders()) - set(spools))

    def _content(self, name: str) -> _Content | None:
        if name not in self._known:
            folder = self._folder / name
            table = values.read_as(folder, ABOUT, SourceTable)
            if table is None:
                return None
            sizes = values.read_as(folder, _SIZES, dict[str, int])
            self._known[name] = _Content(table, _sizes(folder) if sizes is None else sizes)
        return self._known[name]


@dataclass(frozen=True)
class _Content:
    """What a spool has: its table, and the size of the rows of each file."""

    table: SourceTable
    parts: dict[str, int]


def _part_names(folder: StateFolder) -> list[str]:
    return [name for name in folder.names() if name.startswith("part-")]


def _sizes(folder: StateFolder) -> dict[str, int]:
    files = {name: folder.get(name) for name in _part_names(folder)}
    return {name: _row_bytes(pa.BufferReader(file.content), name) for name, file in files.items() if file}


def _write_parquet(events: DataFrame, folder: Path) -> dict[str, int]:
    """Write events to Parquet files in a local folder, with all values unchanged; return the size of each one's rows.

    No file is without rows.
    """
    others = [column for column in events.columns if column not in (EVENT, TYPED)]
    options = {
        "maxRecordsPerFile": str(_PART_ROWS),
        "compression": "zstd",
        "parquet.enable.dictionary": "false",
        **{f"parquet.enable.dictionary#{column}": "true" for column in others},
    }
    for setting, value in _EXACT.items():
        events.sparkSession.conf.set(setting, value)
    events.write.mode("overwrite").options(**options).parquet(f"file://{folder}")
    sizes = {part.name: _row_bytes(part, part.name) for part in folder.glob("part-*")}
    for name in [name for name, size in sizes.items() if not size]:  # Spark writes the first partition in any case
        (folder / name).unlink()
        del sizes[name]
    return sizes


def _row_bytes(file: Path | pa.BufferReader, name: str) -> int:
    """Return the size of the rows of a file, before compression.

    Raises:
        SourceError: It cannot be read.
    """
    try:
        metadata = parquet.read_metadata(file)
    except (OSError, pa.ArrowInvalid) as error:
        raise SourceError(f"{name} cannot be read: {error}", step="read", target=name) from error
    paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
    columns = [number for number, path in enumerate(paths) if path.partition(".")[0] in (EVENT, TYPED)]
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return sum(group.column(number).total_uncompressed_size for group in groups for number in columns)
