"""The reference decoder: one value at a time, with reasons.

It decodes what the compiled core leaves, and everything without the core.
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from calve.serde.avro.plan import SKIPPED, DecodeStep
from calve.serde.avro.schema import EXACT

__all__ = ["MOST_EMPTY", "AvroDecodeError", "decode", "decode_next"]

MOST_EMPTY = 1 << 16
"""The most elements of an array of which each takes no byte; a hostile value could have any number."""
_UUID = re.compile(r"[0-9a-fA-F]{8}(-?)[0-9a-fA-F]{4}\1[0-9a-fA-F]{4}\1[0-9a-fA-F]{4}\1[0-9a-fA-F]{12}")
_INT_BITS, _LONG_BITS = 32, 64
_READERS = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}


class AvroDecodeError(Exception):
    """The bytes are no value of the schema; the message is the reason."""


def decode(value: bytes, start: int, step: DecodeStep, kind: pa.StructType) -> dict[str, Any]:
    """Return a value as a row that `pa.array` takes.

    Args:
        value: The bytes.
        start: Where the value begins.
        step: What to do with it.
        kind: The type of the row.

    Raises:
        AvroDecodeError: It does not follow the schema.
    """
    row, end = decode_next(value, start, step, kind)
    if end < len(value):
        raise AvroDecodeError(f"the value has {len(value) - end} bytes more than its schema")
    return row


def decode_next(data: bytes, start: int, step: DecodeStep, kind: pa.StructType) -> tuple[dict[str, Any], int]:
    """Return a value as `decode` does, and where it ends; other bytes may follow.

    Raises:
        AvroDecodeError: It does not follow the schema.
    """
    source = _Bytes(data, start)
    try:
        return _read(source, step, kind), source.at
    except RecursionError:
        raise AvroDecodeError("nested too deeply") from None


class _Bytes:
    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def read(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise AvroDecodeError("the value ends early")
        self.at += size
        return self.data[self.at - size : self.at]

    def long(self, bits: int = _LONG_BITS) -> int:
        zigzag = 0
        for shift in range(0, bits, 7):
            byte = self.read(1)[0]
            zigzag |= (byte & 0x7F) << shift
            if byte < 0x80:
                if zigzag >> bits:
                    break
                return (zigzag >> 1) ^ -(zigzag & 1)
        raise AvroDecodeError(f"a number has more than {bits} bits")

    def sized(self) -> bytes:
        return self.read(self.long())


def _read(data: _Bytes, step: DecodeStep, kind: pa.DataType | None) -> Any:
    """Read a piece of a value for a column of a type; None: read over it."""
    match step.name:
        case "record":
            return _record(data, step, kind)
        case "union":
            number = data.long()
            if not 0 <= number < len(step.parts):
                raise AvroDecodeError(f"a union has no branch {number}")
            return _read(data, step.parts[number], kind)
        case "branch":
            field = None if kind is None else kind[step.numbers[0]]
            value = _read(data, step.parts[0], field and field.type)
            return None if field is None else {field.name: value}
        case "array":
            item = None if kind is None else kind.value_type
            return [value for _ in _blocks(data) for value in [_read(data, step.parts[0], item)]]
        case "map":
            item = None if kind is None else kind.item_type
            return [(_text(data.sized()), _read(data, step.parts[0], item)) for _ in _blocks(data)]
        case "default":
            return _read(_Bytes(bytes.fromhex(step.text)), step.parts[0], kind)
    return _scalar(data, step, kind)


def _record(data: _Bytes, step: DecodeStep, kind: pa.StructType | None) -> dict[str, Any]:
    row = {}
    for number, part in zip(step.numbers, step.parts, strict=True):
        if number == SKIPPED or kind is None:
            _read(data, part, None)
        else:
            row[kind[number].name] = _read(data, part, kind[number].type)
    return row


def _blocks(data: _Bytes) -> Iterator[None]:
    """Yield once for each element of an array or a map, which come in blocks."""
    empty = 0
    while count := data.long():
        if count < 0:
            count = -count
            data.long()  # the block's size in bytes
        for _ in range(count):
            before = data.at
            yield
            empty += data.at == before
            if empty > MOST_EMPTY:
                raise AvroDecodeError(f"an array has more than {MOST_EMPTY:,} elements without bytes")


def _scalar(data: _Bytes, step: DecodeStep, kind: pa.DataType | None) -> Any:
    match step.name:
        case "null":
            return None
        case "boolean":
            return _boolean(data)
        case "int" | "long":
            return _number(data.long(_INT_BITS if step.name == "int" else _LONG_BITS), step, kind)
        case "float" | "double":
            value: float = _READERS[step.name].unpack(data.read(_READERS[step.name].size))[0]
            return value
        case "string" | "bytes":
            found_bytes = data.sized()
            return _text(found_bytes) if kind == pa.large_string() else found_bytes
        case "fixed":
            return data.read(step.numbers[0])
        case "enum":
            return _symbol(data.long(), step.symbols)
        case "decimal" | "decimal-fixed":
            is_fixed = step.name == "decimal-fixed"
            return _decimal(data.read(step.numbers[2]) if is_fixed else data.sized(), *step.numbers[:2])
        case "uuid":
            return _uuid(data.sized())
    raise AvroDecodeError(step.text)


def _boolean(data: _Bytes) -> bool:
    byte = data.read(1)[0]
    if byte > 1:
        raise AvroDecodeError(f"a boolean is {byte}")
    return byte == 1


def _number(value: int, step: DecodeStep, kind: pa.DataType | None) -> Any:
    if step.numbers and not 0 <= value < step.numbers[0]:
        raise AvroDecodeError("a time of day is not within a day")
    if kind not in (pa.float32(), pa.float64()):
        return value
    number = np.array([value], np.int64).astype(np.float32)[0] if kind == pa.float32() else float(value)
    if int(number) != value:
        raise AvroDecodeError(
            f"{value} has more digits than a {'float' if kind == pa.float32() else 'double'} can hold"
        )
    return number


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise AvroDecodeError("a text is not UTF-8") from None


def _symbol(number: int, symbols: Sequence[str]) -> str:
    if not 0 <= number < len(symbols):
        raise AvroDecodeError(f"an enum has no symbol {number}")
    if not symbols[number]:
        raise AvroDecodeError("a symbol of an enum is none of the chosen version")
    return symbols[number]


def _decimal(data: bytes, precision: int, scale: int) -> Decimal:
    value = int.from_bytes(data, "big", signed=True)
    if not data or abs(value) >= 10**precision:
        raise AvroDecodeError(f"a decimal has no digits, or more than {precision}")
    return Decimal(value).scaleb(-scale, EXACT)


def _uuid(data: bytes) -> bytes:
    text = _text(data)
    if not _UUID.fullmatch(text):
        raise AvroDecodeError("a text is no UUID")
    return uuid.UUID(text).bytes
