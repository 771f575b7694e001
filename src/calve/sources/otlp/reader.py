"""From segments of the log to rows of signals. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.compiled import otlp
from calve.errors import SourceError
from calve.event.columns import SCHEMA, TYPED
from calve.event.typed_schema import declaration
from calve.sources.http.reader import HEADERS
from calve.sources.log.records import records
from calve.sources.otlp.settings import SIGNAL
from calve.sources.otlp.tables import TABLES, column_of
from calve.sources.source import READ_BYTES, READ_ROWS, Split
from calve.state.location import state_folder_at

__all__ = ["OtlpReader", "promoted"]

_OWN = {"traces": "span_attributes", "logs": "log_attributes", "metrics": "attributes"}
_JOINED_BYTES = 16 << 20
"""Requests are decoded together up to this length: their rows then fill a buffer of the task, and are not copied."""


@dataclass(frozen=True)
class OtlpReader:
    """Reads splits of the log: `_typed` and `_schema`, and the metadata `signal` and perhaps `headers`.

    Attributes:
        headers: Names of the request headers that become a column, in lower case; none: no column.
        promote: Attributes that get a column.
    """

    folder: str
    headers: tuple[str, ...] = ()
    promote: tuple[str, ...] = ()

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split in the order in which they were accepted.

        Raises:
            SourceError: The log is not there or damaged.
        """
        for kept, requests in self._joined(split):
            headers = msgspec.json.decode(kept)
            signal, start = headers[f":{SIGNAL}"], 0
            while True:
                part = otlp.decode(signal, requests, TABLES[signal], start, (READ_ROWS, READ_BYTES))
                if part is None:
                    raise _undecodable(self.folder, split)
                if part.counts.rows:
                    yield self._batch(signal, promoted(signal, part.batch, self.promote), headers)
                if not part.counts.has_more:
                    break
                start = part.counts.records

    def _joined(self, split: Split) -> Iterator[tuple[bytes, bytes]]:
        """Yield requests that follow each other with the same headers, joined, which is one request of Protobuf."""
        kept, bodies, size = b"", list[memoryview](), 0
        for head, body in records(state_folder_at(self.folder), split):
            own = bytes(body[head.key_bytes : head.key_bytes + head.headers_bytes])
            if bodies and (own != kept or size + head.data_bytes > _JOINED_BYTES):
                yield kept, b"".join(bodies)
                bodies, size = [], 0
            kept, size = own, size + head.data_bytes
            bodies.append(body[len(body) - head.data_bytes :])
        if bodies:
            yield kept, b"".join(bodies)

    def _batch(self, signal: str, rows: pa.RecordBatch, headers: dict[str, str]) -> pa.RecordBatch:
        codes = pa.array(np.zeros(len(rows), np.int32))
        columns: dict[str, pa.Array] = {
            TYPED: rows.to_struct_array(),
            SCHEMA: pa.DictionaryArray.from_arrays(codes, pa.array([declaration(rows.schema)])),
            SIGNAL: pa.repeat(pa.scalar(signal), len(rows)),
        }
        if self.headers:
            kind = pa.struct([(name, pa.string()) for name in self.headers])
            own = {name: headers.get(name) for name in self.headers}
            columns[HEADERS] = pa.repeat(pa.scalar(own, kind), len(rows))
        return pa.record_batch(columns)


def _undecodable(folder: str, split: Split) -> SourceError:
    return SourceError(
        f"a request in {folder}/{split.body['file']} cannot be decoded, although it was checked when it arrived",
        step="read",
        target=folder,
        hint="Run the version of Calve that accepted it, and report this",
    )


def promoted(signal: str, rows: pa.RecordBatch, attributes: Sequence[str]) -> pa.RecordBatch:
    """Add columns of attributes to rows: the value of the record's own, or else of its scope, or its resource."""
    for attribute in attributes:
        if (name := column_of(attribute)) not in rows.schema.names:
            maps = (rows[place] for place in (_OWN[signal], "scope_attributes", "resource_attributes"))
            values = [pc.map_lookup(column, pa.scalar(attribute, pa.large_string()), "last") for column in maps]
            rows = rows.append_column(name, pc.coalesce(*values))
    return rows
