"""Reads JSON values as MySQL stores them, and writes them as `CAST(… AS CHAR)` does.

https://dev.mysql.com/doc/dev/mysql-server/latest/json__binary_8h.html
"""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

from calve.sources.mysql.protocol.packed import date_time_text, decimal_text, double_text, time_text

__all__ = ["Members", "Value", "json_text", "parsed", "text_of"]

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_INTEGERS = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q"}
_DOUBLE, _STRING, _OPAQUE = 11, 12, 15
_LITERALS = {0: "null", 1: "true", 2: "false"}
_DATE, _TIME, _DATE_TIMES, _DECIMAL = 10, 11, (7, 12), 246
_INLINE = {_LITERAL, 5, 6}
_INLINE_LARGE = _INLINE | {7, 8}
_ENCODER = json.JSONEncoder(ensure_ascii=False)


class Members(list[tuple[str, Any]]):
    """The keys and values of an object, as they are stored."""


Value = str | Members | list[Any]
"""The text of a scalar, an object, or the values of an array."""


def json_text(data: bytes) -> str:
    """Return the text of a value; an empty one is a JSON null, as MySQL reads it.

    Raises:
        ValueError: It is no value.
    """
    return text_of(parsed(data))


def parsed(data: bytes) -> Value:
    """Return a value with the texts of its scalars.

    Raises:
        ValueError: It is no value.
    """
    return _value(data[0], data, 1) if data else "null"


def text_of(value: Value) -> str:
    """Return the text of a value."""
    if isinstance(value, str):
        return value
    if isinstance(value, Members):
        return f"{{{', '.join(f'{_quoted(key)}: {text_of(member)}' for key, member in value)}}}"
    return f"[{', '.join(map(text_of, value))}]"


def _value(kind: int, data: bytes, at: int) -> Value:
    if kind <= _LARGE_ARRAY:
        return _container(kind, data[at:])
    if kind == _LITERAL:
        return _LITERALS[data[at]]
    if form := _INTEGERS.get(kind):
        return str(struct.unpack_from(form, data, at)[0])
    if kind == _DOUBLE:
        text = double_text(struct.unpack_from("<d", data, at)[0])
        return text if set(text) & set(".e") else text + ".0"
    if kind == _STRING:
        size, at = _length(data, at)
        return _quoted(data[at : at + size].decode())
    if kind == _OPAQUE:
        size, start = _length(data, at + 1)
        return _opaque(data[at], data[start : start + size])
    raise ValueError(f"a JSON value of an unknown kind {kind}")


def _container(kind: int, data: bytes) -> Value:
    """Return an object or array; its offsets count from its own beginning."""
    is_object, is_large = kind <= _LARGE_OBJECT, kind in (_LARGE_OBJECT, _LARGE_ARRAY)
    size, form = (4, "<I") if is_large else (2, "<H")
    count = struct.unpack_from(form, data)[0]
    keys_at = 2 * size
    values_at = keys_at + (count * (size + 2) if is_object else 0)
    inline = _INLINE_LARGE if is_large else _INLINE
    keys, values = [], []
    for index in range(count):
        at = values_at + index * (size + 1)
        own = data[at]
        values.append(_value(own, data, at + 1 if own in inline else struct.unpack_from(form, data, at + 1)[0]))
        if is_object:
            key_at = keys_at + index * (size + 2)
            start, length = struct.unpack_from(form, data, key_at)[0], struct.unpack_from("<H", data, key_at + size)[0]
            keys.append(data[start : start + length].decode())
    return Members(zip(keys, values, strict=True)) if is_object else values


def _opaque(kind: int, data: bytes) -> str:
    if kind == _DECIMAL:
        return decimal_text(data[2:], data[0], data[1])
    packed = int.from_bytes(data[:8], "little", signed=True)
    if kind == _DATE:
        return f'"{date_time_text(packed >> 24, 0, 0)[:10]}"'
    if kind in _DATE_TIMES:
        return f'"{date_time_text(packed >> 24, packed & 0xFFFFFF, 6)}"'
    if kind == _TIME:
        return f'"{time_text(packed, 6)}"'
    return f'"base64:type{kind}:{base64.b64encode(data).decode()}"'


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Read a length of seven bits a byte; return it, and where it ends."""
    size = shift = 0
    while True:
        byte = data[at]
        size |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return size, at


def _quoted(text: str) -> str:
    return _ENCODER.encode(text)
