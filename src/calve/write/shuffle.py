"""Collects small parts of partitions, which other tasks write together with theirs."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator, Sequence

import msgspec
import pyarrow as pa

from calve import structs
from calve.record.target import Role, RowStream, TableRef

__all__ = ["Shuffle", "opened"]

_LENGTH_BYTES = 4
_STREAM = structs.decoder(RowStream)


class Shuffle:
    """The rows that one task shuffles; runs on an executor.

    Args:
        buckets: How many tasks write them.
        limits: For each sink: smaller parts, in bytes, are shuffled.

    Attributes:
        buckets: How many tasks write them.
        parts: The number of parts that were shuffled.
    """

    def __init__(self, buckets: int, limits: Sequence[int]) -> None:
        self.parts = 0
        self.buckets = buckets
        self._limits = limits
        self._rows: dict[tuple[RowStream, int], list[pa.Table]] = {}
        self._messages: list[tuple[int, RowStream, bytes]] = []

    def limit(self, stream: RowStream) -> int:
        """Return the size in bytes from which the task itself writes a part of a table."""
        return self._limits[stream.sink]

    def add(self, stream: RowStream, partition: str, rows: list[pa.Table]) -> None:
        """Shuffle the rows of one partition; all tasks send the rows of a partition to the same task.

        Args:
            stream: The stream of the rows.
            partition: The partition's path.
            rows: Columns as in the table's files.
        """
        self.parts += 1
        bucket = zlib.crc32(msgspec.json.encode([stream, partition])) % self.buckets
        self._rows.setdefault((stream, bucket), []).extend(rows)

    def post(self, bucket: int, stream: RowStream, rows: pa.Table) -> None:
        """Send rows to one reduce task."""
        self._messages.append((bucket, stream, _packed(stream, rows)))

    def post_misfit(self) -> None:
        """Tell every task that a table must be created or evolved, so the pass over all changes is repeated."""
        for bucket in range(self.buckets):
            self.post(bucket, RowStream(0, "", Role.MISFIT), pa.table({}))

    def pack(self) -> None:
        """Serialize the rows, to free the larger tables that they are slices of."""
        while self._rows:
            (stream, bucket), tables = self._rows.popitem()
            self._messages.append((bucket, stream, _packed(stream, pa.concat_tables(tables))))

    def records(self, leaving_out: Collection[TableRef]) -> Iterator[tuple[int, bytes]]:
        """Yield each bucket with its messages, and forget them.

        Args:
            leaving_out: Tables whose rows must not be written.
        """
        self.pack()
        while self._messages:
            bucket, stream, message = self._messages.pop()
            if stream.target not in leaving_out:
                yield bucket, message


def opened(message: bytes) -> tuple[RowStream, pa.Table]:
    """Read the stream and the rows of a message."""
    end = _LENGTH_BYTES + int.from_bytes(message[:_LENGTH_BYTES], "big")
    stream = _STREAM.decode(message[_LENGTH_BYTES:end])
    with pa.ipc.open_stream(pa.py_buffer(message)[end:]) as reader:
        return stream, reader.read_all()


def _packed(stream: RowStream, rows: pa.Table) -> bytes:
    """Write rows as bytes: the length of the stream's JSON, the JSON, an Arrow stream."""
    name = msgspec.json.encode(stream)
    sink = pa.BufferOutputStream()
    sink.write(len(name).to_bytes(_LENGTH_BYTES, "big") + name)
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return bytes(sink.getvalue())
