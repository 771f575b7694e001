"""From segments of the log to Arrow batches, without touching an event. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa

from calve.arrays import pack_texts
from calve.sources.log.record import RecordHead
from calve.sources.log.records import records
from calve.sources.source import EVENT, READ_BYTES, READ_ROWS, Split
from calve.state.location import state_folder_at

__all__ = ["HEADERS", "HttpReader"]

HEADERS = "headers"
"""Metadata column with the kept request headers: a struct of strings, one field for each of `metadata_headers`."""


@dataclass
class _Gathered:
    """Records that will become one batch."""

    rows: int = 0
    size: int = 0
    lengths: list[memoryview] = field(default_factory=list)
    data: list[memoryview] = field(default_factory=list)
    headers: list[tuple[bytes, int]] = field(default_factory=list)

    def fits(self, head: RecordHead) -> bool:
        return not self.rows or (self.rows + head.rows <= READ_ROWS and self.size + head.data_bytes <= READ_BYTES)

    def add(self, head: RecordHead, body: memoryview) -> None:
        events = len(body) - head.data_bytes
        lengths = events - 4 * head.rows
        self.rows += head.rows
        self.size += head.data_bytes
        self.lengths.append(body[lengths:events])
        self.data.append(body[events:])
        self.headers.append((bytes(body[head.key_bytes : lengths]), head.rows))

    def struct(self, names: tuple[str, ...]) -> pa.StructArray:
        """Return the headers of each row's request."""
        decoded = [(msgspec.json.decode(text) if text else {}, rows) for text, rows in self.headers]
        columns = [
            pa.concat_arrays([pa.repeat(pa.scalar(headers.get(name), pa.string()), rows) for headers, rows in decoded])
            for name in names
        ]
        return pa.StructArray.from_arrays(columns, list(names))


@dataclass(frozen=True)
class HttpReader:
    """Reads splits of the log in a folder that every executor sees, or on an object store.

    Attributes:
        headers: Names of the request headers that become a column, in lower case; none: no column.
    """

    folder: str
    headers: tuple[str, ...] = ()

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the events of a split in the order in which they were accepted.

        Raises:
            SourceError: The log is not there or damaged.
        """
        gathered = _Gathered()
        for head, body in records(state_folder_at(self.folder), split):
            if not gathered.fits(head):
                yield from self._batches(gathered)
                gathered = _Gathered()
            gathered.add(head, body)
        if gathered.rows:
            yield from self._batches(gathered)

    def _batches(self, gathered: _Gathered) -> Iterator[pa.RecordBatch]:
        offsets = np.zeros(gathered.rows + 1, np.int32)
        np.cumsum(np.frombuffer(b"".join(gathered.lengths), np.int32), out=offsets[1:])
        columns: dict[str, pa.Array] = {EVENT: pack_texts(offsets, b"".join(gathered.data))}
        if self.headers:
            columns[HEADERS] = gathered.struct(self.headers)
        batch = pa.RecordBatch.from_pydict(columns)
        for start in range(0, batch.num_rows, READ_ROWS):
            yield batch.slice(start, READ_ROWS)
