"""The layout of the log on disk: the head of a segment, and its records, one for each entry.

A record is `head | key | headers | lengths (uint32 each) | the events' bytes`. The lengths stand apart from the bytes,
so that a reader makes one Arrow array of many records by two joins and one cumulative sum, without touching an event.

The magic bytes never occur in UTF-8 (it has no 0xFC and 0xFE) nor in lengths (every fourth byte is small), so no client
can forge a record inside a record of texts; those of OpenTelemetry are binary.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

__all__ = [
    "MAX_EVENTS_BYTES",
    "SEGMENT_HEAD_BYTES",
    "BadRecordError",
    "RecordEvents",
    "RecordHead",
    "check_body",
    "durable_after",
    "pack",
    "packed_bytes",
    "parse_head",
    "parse_segment_head",
    "segment_head",
]

MAX_EVENTS_BYTES = 1 << 30
"""Bytes of one entry's events; below 2^31 with a batch before it, so that Arrow's 32-bit offsets hold."""

_SEGMENT_MAGIC = b"calve http log 1"
_SEGMENT = struct.Struct("<16sQ4xI")
SEGMENT_HEAD_BYTES = _SEGMENT.size

MAGIC = b"\xfc\xca\xf1\xfe"
_FIXED = struct.Struct("<IIIIIQQ")
_PREFIX = struct.Struct("<4sI")
HEAD_BYTES = _PREFIX.size + _FIXED.size


class BadRecordError(ValueError):
    """There is no valid record at an offset; the message has the reason. Internal: the caller handles it."""


@dataclass(frozen=True)
class RecordEvents:
    """The events of one entry, split but not decoded."""

    rows: int
    lengths: bytes
    data: bytes


@dataclass(frozen=True)
class RecordHead:
    """The head of a record.

    Attributes:
        durable: The durable end of the log when this was written; everything before it has been acknowledged.
        time_ms: When the entry was accepted, in epoch milliseconds.
    """

    body_crc: int
    rows: int
    key_bytes: int
    headers_bytes: int
    data_bytes: int
    durable: int
    time_ms: int

    @property
    def size(self) -> int:
        """The size of the complete record."""
        return HEAD_BYTES + self.key_bytes + self.headers_bytes + 4 * self.rows + self.data_bytes


def segment_head(previous_end: int) -> bytes:
    """Build the head of a segment; `previous_end` is where the segment before it ends."""
    return _SEGMENT.pack(_SEGMENT_MAGIC, previous_end, zlib.crc32(_SEGMENT_MAGIC + previous_end.to_bytes(8, "little")))


def parse_segment_head(data: bytes) -> int:
    """Return the previous segment's end.

    Raises:
        BadRecordError: This is not the head of a segment.
    """
    if len(data) != SEGMENT_HEAD_BYTES or data != segment_head(_SEGMENT.unpack(data)[1]):
        raise BadRecordError("the head of the segment is damaged")
    return int(_SEGMENT.unpack(data)[1])


def pack(events: RecordEvents, key: bytes, headers: bytes, durable: int, time_ms: int) -> list[bytes]:
    """Build a record as pieces to be joined."""
    crc = 0
    for part in (key, headers, events.lengths, events.data):
        crc = zlib.crc32(part, crc)
    fixed = _FIXED.pack(crc, events.rows, len(key), len(headers), len(events.data), durable, time_ms)
    return [_PREFIX.pack(MAGIC, zlib.crc32(fixed)), fixed, key, headers, events.lengths, events.data]


def packed_bytes(events: RecordEvents, key: bytes, headers: bytes) -> int:
    """Return the size of a record before it is built."""
    return HEAD_BYTES + len(key) + len(headers) + len(events.lengths) + len(events.data)


def parse_head(buffer: Any, offset: int, end: int) -> RecordHead:
    """Parse the head of the record at an offset, and check that the record ends before `end`.

    Raises:
        BadRecordError: There is no complete, valid head.
    """
    if end - offset < HEAD_BYTES:
        raise BadRecordError("the record is cut off")
    head = _valid_head(buffer, offset, end)
    if head is None:
        raise BadRecordError("the head of a record is damaged")
    if head.size > end - offset:
        raise BadRecordError("the record is cut off")
    return head


def _valid_head(buffer: Any, offset: int, end: int) -> RecordHead | None:
    """Return a head, whose record may be cut off; None: there is none."""
    if end - offset < HEAD_BYTES:
        return None
    magic, crc = _PREFIX.unpack_from(buffer, offset)
    fixed = bytes(buffer[offset + _PREFIX.size : offset + HEAD_BYTES])
    return RecordHead(*_FIXED.unpack(fixed)) if magic == MAGIC and crc == zlib.crc32(fixed) else None


def check_body(buffer: Any, offset: int, head: RecordHead) -> None:
    """Check that a record's body is unchanged.

    Raises:
        BadRecordError: It is damaged.
    """
    if zlib.crc32(buffer[offset + HEAD_BYTES : offset + head.size]) != head.body_crc:
        raise BadRecordError("the checksum of a record does not fit its bytes")


def durable_after(buffer: Any, offset: int, end: int) -> bool:
    """Return whether a later record proves that the bytes at an offset had reached the disk.

    If so, a bad record there is damage; if not, it is an incomplete, unacknowledged write before a crash. A client may
    send what looks like a record, so the insides of records that follow each other are not searched.
    """
    at = offset
    while (head := _valid_head(buffer, at, end)) is not None:
        if at > offset and _proves(head, end - at, offset):
            return True
        at += head.size
    at = buffer.find(MAGIC, at, end)
    while at >= 0:
        head = _valid_head(buffer, at, end)
        if head is not None and _proves(head, end - at, offset):
            return True
        at = buffer.find(MAGIC, at + 1, end)
    return False


def _proves(head: RecordHead, room: int, offset: int) -> bool:
    return head.size <= room and head.durable > offset
