"""The iceberg source on executors: reads files of changes, which the driver wrote, as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet
from pyiceberg.io import load_file_io

from calve import structs
from calve.errors import SourceError, SourceUnavailableError
from calve.event.columns import EVENT, SCHEMA, TYPED
from calve.event.typed import with_decimals_as_strings
from calve.sources.iceberg.metadata import METADATA, ORIGIN
from calve.sources.iceberg.row_schema import declaration
from calve.sources.iceberg.spool import ABOUT, Spools
from calve.sources.source import READ_BYTES, READ_ROWS, SourceTable, Split
from calve.state.location import state_folder_at

__all__ = ["IcebergReader"]

_HINT = "Restore the state, which has the uncommitted changes"


@dataclass(frozen=True)
class IcebergReader:
    """Reads files of spools; pickled into the tasks.

    Columns: `_typed` or `event`, as in the spool, `_schema`, and the requested ones of `METADATA`.

    Attributes:
        folder: The folder of the spools.
        metadata: The requested attributes; None: all.
        storage: The properties of a FileIO, if the folder is on an object store.
    """

    folder: str
    metadata: frozenset[str] | None = None
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one file in order."""
        names = [name for name in METADATA if self.metadata is None or name in {*self.metadata, ORIGIN}]
        try:
            file, table = self._open(split.body["spool"], split.body["part"])
            declared = pa.array([declaration(table.schema_json)] if table else [], pa.string())
            with parquet.ParquetFile(file, memory_map=isinstance(file, Path)) as opened:
                rows = max(1, opened.metadata.num_rows)
                fitting = READ_BYTES * rows // max(split.size_bytes, 1)
                row = TYPED if TYPED in opened.schema_arrow.names else EVENT
                for batch in opened.iter_batches(max(1, min(READ_ROWS, fitting)), columns=[row, *names]):
                    codes = pa.repeat(pa.scalar(0 if table else None, pa.int32()), len(batch))
                    columns = {
                        row: batch[row].cast(pa.binary()) if row == EVENT else with_decimals_as_strings(batch[row]),
                        **{name: batch[name].cast(METADATA[name]) for name in names},
                        SCHEMA: pa.DictionaryArray.from_arrays(codes, declared),
                    }
                    yield pa.record_batch(columns)
        except (OSError, pa.ArrowInvalid) as error:
            name = "/".join((self.folder, split.body["spool"], split.body["part"]))
            raise SourceError(f"{name} cannot be read: {error}", step="read", target=name, hint=_HINT) from error

    def _open(self, spool: str, part: str) -> tuple[Path | pa.BufferReader, SourceTable | None]:
        """Return a file of a spool, and the spool's table.

        Raises:
            SourceUnavailableError: The store does not answer.
        """
        if "://" not in self.folder:
            return Path(self.folder, spool, part), Spools(state_folder_at(self.folder)).table(spool)
        about = structs.decode(self._content(f"{spool}/{ABOUT}"), SourceTable)
        return pa.BufferReader(self._content(f"{spool}/{part}")), about

    def _content(self, name: str) -> bytes:
        location = f"{self.folder}/{name}"
        try:
            with load_file_io(dict(self.storage), location).new_input(location).open(seekable=False) as stream:
                return stream.read()
        except FileNotFoundError:
            raise
        except OSError as error:
            hint = "Check the store, and the keys of the executors; Calve tries again"
            raise SourceUnavailableError(
                f"{location} cannot be read: {error}", step="read", target=location, hint=hint
            ) from error
