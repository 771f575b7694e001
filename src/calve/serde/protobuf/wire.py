"""Reads Protobuf's wire format (protobuf.dev, "Encoding"), field by field."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["ProtobufDecodeError", "Raw", "fields", "packed", "payload", "scalar", "varint"]

VARINT, FIXED64, LENGTH, START_GROUP, END_GROUP, FIXED32 = range(6)
_MOST_GROUPS = 100
_UNTIL_BITS = 64
_SHORT_BYTES = 5
_VARINTS = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "enum")
_FORMATS = {"double": "<d", "float": "<f", "fixed32": "<I", "fixed64": "<Q", "sfixed32": "<i", "sfixed64": "<q"}


class ProtobufDecodeError(Exception):
    """A value does not follow its schema.

    Attributes:
        path: The names of the fields around the fault.
    """

    def __init__(self, reason: str, path: tuple[str, ...] = ()) -> None:
        super().__init__(reason)
        self.path = path

    def __str__(self) -> str:
        where = f"field {'.'.join(self.path)}: " if self.path else ""
        return f"{where}{self.args[0]}"


class Raw(NamedTuple):
    """A field on the wire: its number, its wire type, and its value: a number, or bytes."""

    number: int
    wire: int
    value: int | bytes


def fields(data: bytes) -> Iterator[Raw]:
    """Yield the fields of a message in their order; groups are skipped.

    Raises:
        ProtobufDecodeError: The bytes are no message.
    """
    at = 0
    while at < len(data):
        number, wire, at = _tag(data, at)
        if wire == START_GROUP:
            at = _skipped_group(data, at, number)
            yield Raw(number, wire, b"")
        else:
            value, at = _value(data, at, wire)
            yield Raw(number, wire, value)


def packed(raw: Raw, kind: str) -> Iterator[Raw]:
    """Yield the values of a repeated scalar field, which may be packed into one."""
    if raw.wire != LENGTH or _wire(kind) == LENGTH:
        yield raw
        return
    data, at, wire = payload(raw), 0, _wire(kind)
    while at < len(data):
        value, at = _value(data, at, wire)
        yield Raw(raw.number, wire, value)


def payload(raw: Raw) -> bytes:
    """Return the bytes of a message."""
    if raw.wire != LENGTH or not isinstance(raw.value, bytes):
        raise ProtobufDecodeError(f"the wire type {raw.wire} instead of that of a message")
    return raw.value


def scalar(kind: str, raw: Raw) -> int | float | bool | str | bytes:
    """Return the value of a scalar field or an enum's number.

    Raises:
        ProtobufDecodeError: It has another wire type, or is a text that is not UTF-8.
    """
    if raw.wire != _wire(kind):
        raise ProtobufDecodeError(f"the wire type {raw.wire} instead of that of {kind}")
    if isinstance(raw.value, int):
        return _integer(kind, raw.value)
    if kind in _FORMATS:
        value: int | float = struct.unpack(_FORMATS[kind], raw.value)[0]
        return value
    if kind == "bytes":
        return raw.value
    try:
        return raw.value.decode()
    except UnicodeDecodeError:
        raise ProtobufDecodeError("a text that is not UTF-8") from None


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of at most 64 bits, and the position after it.

    Raises:
        ProtobufDecodeError: It does not end, or has more bits.
    """
    number = shift = 0
    while True:
        if at >= len(data):
            raise ProtobufDecodeError("a number without an end")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if number >> _UNTIL_BITS or (byte & 0x80 and shift >= _UNTIL_BITS):
            raise ProtobufDecodeError("a number of more than 64 bits")
        if not byte & 0x80:
            return number, at


def _wire(kind: str) -> int:
    if kind in _VARINTS:
        return VARINT
    if kind in _FORMATS:
        return FIXED64 if struct.calcsize(_FORMATS[kind]) == 8 else FIXED32
    return LENGTH


def _integer(kind: str, value: int) -> int | bool:
    """Return what the bits of a number mean; types of 32 bits ignore the others."""
    if kind == "bool":
        return value != 0
    bits = 32 if kind in ("int32", "uint32", "sint32", "enum") else 64
    value &= (1 << bits) - 1
    if kind in ("sint32", "sint64"):
        return (value >> 1) ^ -(value & 1)
    return value - (1 << bits) if kind in ("int32", "int64", "enum") and value >> (bits - 1) else value


def _tag(data: bytes, at: int) -> tuple[int, int, int]:
    tag, at = _short(data, at)
    if not tag >> 3:
        raise ProtobufDecodeError("a field number that Protobuf does not allow")
    return tag >> 3, tag & 7, at


def _short(data: bytes, at: int) -> tuple[int, int]:
    """Return a tag or a length: 32 bits in at most five bytes."""
    number, end = varint(data, at)
    if end - at > _SHORT_BYTES or number >> 32:
        raise ProtobufDecodeError("a tag or a length of more than 32 bits")
    return number, end


def _value(data: bytes, at: int, wire: int) -> tuple[int | bytes, int]:
    if wire == VARINT:
        return varint(data, at)
    if wire == LENGTH:
        size, at = _short(data, at)
    elif wire in (FIXED32, FIXED64):
        size = 8 if wire == FIXED64 else 4
    else:
        raise ProtobufDecodeError(f"an unexpected wire type, {wire}")
    if size > len(data) - at:
        raise ProtobufDecodeError("a value that ends too early")
    return data[at : at + size], at + size


def _skipped_group(data: bytes, at: int, number: int) -> int:
    """Return the position after a group."""
    waiting = [number]
    while waiting:
        number, wire, at = _tag(data, at)
        if wire == END_GROUP:
            if waiting.pop() != number:
                raise ProtobufDecodeError("the end of a group that is not open")
        elif wire == START_GROUP:
            waiting.append(number)
            if len(waiting) > _MOST_GROUPS:
                raise ProtobufDecodeError(f"groups that are nested more than {_MOST_GROUPS} levels deep")
        else:
            _, at = _value(data, at, wire)
    return at
