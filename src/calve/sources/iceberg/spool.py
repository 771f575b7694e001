"""Files of changes in the state folder, so that a batch can be read again, even if the table has changed.

A spool is a folder of Parquet files with rows and metadata attributes, ordered by file name; the changes of one key are
in one file or in the right order. Rows are structs, `_typed`; if Parquet cannot store their types, they are JSON text,
`event`. A spool is complete or does not exist.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import parquet

from calve.durable import read, refused, replace, sync
from calve.errors import SourceError
from calve.event.columns import EVENT, TYPED
from calve.sources.source import SourceTable
from calve.stop_point import reach

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ABOUT", "Part", "Spools", "row_bytes", "write_parquet"]

_PART_ROWS = 100_000
_UNFINISHED = ".unfinished"
ABOUT = "table.json"
_EXACT = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
}
"""Spark's options to write all timestamps and dates to Parquet unchanged."""


@dataclass(frozen=True)
class Part:
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
    """The spools of one source; runs on the driver.

    Args:
        folder: `<state>/<pipeline>/iceberg`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def write(self, name: str, events: DataFrame, table: SourceTable) -> None:
        """Write events of a table to a new spool; durable on return.

        Raises:
            WriteError: The disk refused.
        """
        unfinished = self._folder / f"{name}{_UNFINISHED}"
        try:
            write_parquet(events, unfinished)
            for part in unfinished.glob("part-*"):
                sync(part)
            replace(unfinished / ABOUT, asdict(table))
            reach("spool.before-publish")
            unfinished.rename(self._folder / name)
            sync(self._folder)
        except OSError as error:
            raise refused(unfinished, error) from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def table(self, name: str) -> SourceTable | None:
        """Return the table of a spool; None if the spool no longer exists."""
        about = read(self._folder / name / ABOUT)
        return None if about is None else SourceTable(**about)

    def parts(self, name: str, after: str = "") -> list[Part]:
        """Return the files of a spool after one of them.

        Raises:
            SourceError: The spool no longer exists.
        """
        folder = self._folder / name
        if not folder.is_dir():
            hint = "Restore the state folder; or use a new --state, which reads the table from its start"
            raise SourceError(f"The changes in {folder} no longer exist", step="read", target=name, hint=hint)
        files = sorted(file for file in folder.glob("part-*") if file.name > after)
        return [Part(name, file.name, size) for file in files if (size := row_bytes(file, file.name))]

    def remove(self, parts: Iterable[tuple[str, str]], kept: Collection[str]) -> None:
        """Remove files that are no longer needed, and empty spools unless they are in `kept`."""
        spools = set()
        for spool, name in parts:
            (self._folder / spool / name).unlink(missing_ok=True)
            spools.add(spool)
        self.drop(spool for spool in spools - set(kept) if not any((self._folder / spool).glob("part-*")))

    def drop(self, spools: Iterable[str]) -> None:
        """Remove spools."""
        for spool in spools:
            shutil.rmtree(self._folder / spool, ignore_errors=True)

    def keep_only(self, spools: Collection[str]) -> None:
        """Remove the spools of a killed run."""
        self.drop(folder.name for folder in self._folder.glob("*/") if folder.name not in spools)


def write_parquet(events: DataFrame, folder: Path) -> None:
    """Write events to Parquet files in a local folder, with all values unchanged; no file is without rows."""
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
    for part in folder.glob("part-*"):  # Spark writes one for the first partition in any case
        if not row_bytes(part, part.name):
            part.unlink()


def row_bytes(file: Path | pa.BufferReader, name: str) -> int:
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
