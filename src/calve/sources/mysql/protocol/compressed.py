"""Decompresses what the binary log has compressed: transactions of MySQL, statements, rows and values of MariaDB.

https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1Transaction__payload__event.html;
https://mariadb.com/kb/en/compressing-events-to-reduce-size-of-the-binary-log/
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import pyarrow as pa

from calve.sources.mysql.protocol.wire import read_length

__all__ = ["inflated", "inflated_value", "payload"]

_END, _ALGORITHM = 0, 2
_ZSTD, _NONE = 0, 255
_LENGTH_AT, _HEAD_BYTES = 9, 19
_ZLIB, _RAW = 8, 8
"""The method of a value, and the bit of one without the head of zlib."""


def payload(body: bytes) -> Iterator[bytes]:
    """Yield the events of a transaction that MySQL has compressed, which have no checksums.

    Raises:
        ValueError: They are compressed in an unknown way, or damaged.
    """
    algorithm, at = _ZSTD, 0
    while True:
        field, at = read_length(body, at)
        if field == _END:
            break
        size, at = read_length(body, at)
        if field == _ALGORITHM:
            algorithm, _ = read_length(body, at)
        at += size
    if algorithm not in (_ZSTD, _NONE):
        raise ValueError(f"an unknown compression {algorithm}")
    stream = pa.input_stream(pa.BufferReader(body[at:]), compression="zstd" if algorithm == _ZSTD else None)
    try:
        while head := stream.read(_HEAD_BYTES):
            (size,) = struct.unpack_from("<I", head, _LENGTH_AT)
            yield head + stream.read(size - _HEAD_BYTES)
    except (OSError, struct.error) as error:
        raise ValueError(str(error)) from error


def inflated(data: bytes) -> bytes:
    """Return a statement or rows of MariaDB: a byte with the size of the length, the length, and what zlib made.

    Raises:
        ValueError: They are compressed in an unknown way, or damaged.
    """
    if data[:1] and data[0] & 0x70:
        raise ValueError(f"an unknown compression {data[0] >> 4 & 7}")
    return _decompressed(data[1 + (data[:1] or b"\0")[0] % 8 :], zlib.MAX_WBITS)


def inflated_value(data: bytes) -> bytes:
    """Return a value of a COMPRESSED column of MariaDB: a byte with its method, its length, and what zlib made.

    Raises:
        ValueError: It is compressed in an unknown way, or damaged.
    """
    if not data or not data[0] >> 4:
        return data[1:]
    if data[0] >> 4 != _ZLIB:
        raise ValueError(f"an unknown compression {data[0] >> 4} of a value")
    return _decompressed(data[1 + data[0] % 8 :], -zlib.MAX_WBITS if data[0] & _RAW else zlib.MAX_WBITS)


def _decompressed(data: bytes, form: int) -> bytes:
    try:
        return zlib.decompress(data, form)
    except zlib.error as error:
        raise ValueError(str(error)) from error
