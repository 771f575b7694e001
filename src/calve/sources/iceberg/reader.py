"""The iceberg source on executors: a file of changes that the driver wrote down becomes Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from calve.errors import SourceError
from calve.event.columns import EVENT, SCHEMA
from calve.sources.iceberg.declared import declaration
from calve.sources.iceberg.spool import Spools
from calve.sources.source import READ_BYTES, READ_ROWS, Split

__all__ = ["METADATA", "ORIGIN", "IcebergReader"]

METADATA = {
    "iceberg_operation": pa.string(),
    "iceberg_table_name": pa.string(),
    "iceberg_snapshot_id": pa.int64(),
    "iceberg_sequence_number": pa.int64(),
    "iceberg_commit_timestamp": pa.string(),
    "document_id": pa.string(),
    "bulk_action": pa.string(),
}
"""The metadata attributes of a change, and their types."""
ORIGIN = "iceberg_table_name"
"""What tells apart the parts of the source that are read in their own order; always there."""


@dataclass(frozen=True)
class IcebergReader:
    """Reads files of spools; pickled into the tasks.

    Columns: `event`, `_schema`, and of `METADATA` those that are wanted.

    Attributes:
        folder: Where the spools are.
        metadata: The attributes that are wanted; None: all.
    """

    folder: str
    metadata: frozenset[str] | None = None

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one file in order."""
        names = [name for name in METADATA if self.metadata is None or name in {*self.metadata, ORIGIN}]
        schema = pa.schema([(EVENT, pa.binary()), *((name, METADATA[name]) for name in names)])
        file = Path(self.folder, split.body["spool"], split.body["part"])
        table = Spools(Path(self.folder)).table(split.body["spool"])
        declared = pa.array([declaration(table.schema_json)] if table else [], pa.string())
        try:
            with parquet.ParquetFile(file, memory_map=True) as opened:
                rows = max(1, opened.metadata.num_rows)
                fitting = READ_BYTES * rows // max(split.size_bytes, 1)
                for batch in opened.iter_batches(max(1, min(READ_ROWS, fitting)), columns=[EVENT, *names]):
                    events = pa.Table.from_batches([batch]).select(schema.names).cast(schema)
                    codes = pa.repeat(pa.scalar(0 if table else None, pa.int32()), len(events))
                    told = pa.DictionaryArray.from_arrays(codes, declared)
                    yield from events.append_column(SCHEMA, told).to_batches()
        except (OSError, pa.ArrowInvalid) as error:
            hint = "Put the state folder back as it was; changes that are not committed are kept there"
            raise SourceError(f"{file} cannot be read: {error}", step="read", target=str(file), hint=hint) from error
