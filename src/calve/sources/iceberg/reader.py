"""The iceberg source on executors: reads files of changes, which the driver wrote, as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from calve.errors import SourceError
from calve.event.columns import EVENT, SCHEMA, TYPED
from calve.event.typed import with_decimals_as_strings
from calve.sources.iceberg.declared import declaration
from calve.sources.iceberg.metadata import METADATA, ORIGIN
from calve.sources.iceberg.spool import Spools
from calve.sources.source import READ_BYTES, READ_ROWS, Split

__all__ = ["IcebergReader"]


@dataclass(frozen=True)
class IcebergReader:
    """Reads files of spools; pickled into the tasks.

    Columns: `_typed` or `event`, as in the spool, `_schema`, and the requested ones of `METADATA`.

    Attributes:
        folder: The folder of the spools.
        metadata: The requested attributes; None: all.
    """

    folder: str
    metadata: frozenset[str] | None = None

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one file in order."""
        names = [name for name in METADATA if self.metadata is None or name in {*self.metadata, ORIGIN}]
        file = Path(self.folder, split.body["spool"], split.body["part"])
        table = Spools(Path(self.folder)).table(split.body["spool"])
        declared = pa.array([declaration(table.schema_json)] if table else [], pa.string())
        try:
            with parquet.ParquetFile(file, memory_map=True) as opened:
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
            hint = "Restore the state folder, which has the uncommitted changes"
            raise SourceError(f"{file} cannot be read: {error}", step="read", target=str(file), hint=hint) from error
