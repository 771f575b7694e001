"""Small parts of partitions, kept back from a task's own files to be written together with those of other tasks."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

__all__ = ["Outbox", "opened"]

_LENGTH_BYTES = 4


class Outbox:
    """What one task hands on; runs on an executor.

    Args:
        buckets: How many tasks write it.
        limits: By sink: parts of less bytes are handed on.

    Attributes:
        parts: How many it took.
    """

    def __init__(self, buckets: int, limits: Sequence[int]) -> None:
        self.parts = 0
        self._buckets = buckets
        self._limits = limits
        self._held: dict[tuple[Any, int], list[pa.Table]] = {}
        self._messages: list[tuple[int, Any, bytes]] = []

    def limit(self, key: tuple[Any, ...]) -> int:
        """Say of how many bytes a part of a table is written by the task itself."""
        sink: int = key[0]
        return self._limits[sink]

    def add(self, key: tuple[Any, ...], partition: str, rows: list[pa.Table]) -> None:
        """Hand on the rows of one partition; all tasks send those of a partition to the same one.

        Args:
            key: Of the table: the number of the sink, the name, and more that JSON has.
            partition: The partition's path.
            rows: Columns as the table's files have them.
        """
        self.parts += 1
        bucket = zlib.crc32(msgspec.json.encode([key, partition])) % self._buckets
        self._held.setdefault((key, bucket), []).extend(rows)

    def post(self, bucket: int, key: tuple[Any, ...], rows: pa.Table) -> None:
        """Hand on rows to one task."""
        self._messages.append((bucket, key, _packed(key, rows)))

    def pack(self) -> None:
        """Let go of the rows that it was given; what they were cut out of may be much larger."""
        while self._held:
            (key, bucket), tables = self._held.popitem()
            self._messages.append((bucket, key, _packed(key, pa.concat_tables(tables))))

    def records(self, leaving_out: set[Any]) -> Iterator[tuple[int, bytes]]:
        """Yield each bucket with messages for it, and forget them.

        Args:
            leaving_out: Tables, by sink and name, whose rows are not to be written.
        """
        self.pack()
        while self._messages:
            bucket, key, message = self._messages.pop()
            if key[:2] not in leaving_out:
                yield bucket, message


def opened(message: bytes) -> tuple[tuple[Any, ...], pa.Table]:
    """Give the key and the rows of a message."""
    end = _LENGTH_BYTES + int.from_bytes(message[:_LENGTH_BYTES], "big")
    key = tuple(msgspec.json.decode(message[_LENGTH_BYTES:end]))
    with pa.ipc.open_stream(pa.py_buffer(message)[end:]) as stream:
        return key, stream.read_all()


def _packed(key: tuple[Any, ...], rows: pa.Table) -> bytes:
    """Give a key and rows as bytes: the length of the key's JSON, the JSON, an Arrow stream."""
    name = msgspec.json.encode(key)
    sink = pa.BufferOutputStream()
    sink.write(len(name).to_bytes(_LENGTH_BYTES, "big") + name)
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    return bytes(sink.getvalue())
