"""Messages that become one value: timestamps, durations, scalars with a presence, and JSON."""

from __future__ import annotations

import datetime
import json
import math
from typing import Any

from calve.serde.protobuf.wire import ProtobufDecodeError, Raw, fields, payload, scalar

__all__ = ["leaf"]

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
_MOST_SECONDS = 315_576_000_000
_NANOS = 10**9
_DEEPEST = 100
"""Levels of a JSON value; Protobuf's own libraries have this limit for messages."""
_WHOLE = 1e15
_STRUCT, _LIST = "json-struct", "json-list"
_START = datetime.datetime(1970, 1, 1)


def leaf(kind: str, data: bytes) -> int | str:
    """Return the value of a message: microseconds for `timestamp`, otherwise a text (`plan.Column.kind`).

    Raises:
        ProtobufDecodeError: The message is broken, or no value.
    """
    if kind == "empty":
        list(fields(data))
        return "{}"
    if kind.startswith("json-"):
        return _dumped(_structured(kind, data, 0))
    seconds, nanos = _seconds_and_nanos(data)
    if kind == "duration":
        return _duration(seconds, nanos)
    if not (_FIRST_SECOND <= seconds <= _LAST_SECOND and 0 <= nanos < _NANOS):
        raise ProtobufDecodeError("a timestamp outside the years 1 to 9999")
    if kind == "timestamp-text":
        return f"{(_START + datetime.timedelta(seconds=seconds)).isoformat()}{_fraction(nanos)}Z"
    if nanos % 1000:
        raise ProtobufDecodeError("a timestamp with parts of a microsecond")
    return seconds * 1_000_000 + nanos // 1000


def _seconds_and_nanos(data: bytes) -> tuple[int, int]:
    parts = {1: 0, 2: 0}
    for raw in fields(data):
        if raw.number in parts:
            parts[raw.number] = int(scalar("int64" if raw.number == 1 else "int32", raw))
    return parts[1], parts[2]


def _duration(seconds: int, nanos: int) -> str:
    if abs(seconds) > _MOST_SECONDS or abs(nanos) >= _NANOS or seconds * nanos < 0:
        raise ProtobufDecodeError("a duration that Protobuf does not allow")
    sign = "-" if seconds < 0 or nanos < 0 else ""
    return f"PT{sign}{abs(seconds)}{_fraction(abs(nanos))}S"


def _fraction(nanos: int) -> str:
    return f".{nanos:09d}".rstrip("0") if nanos else ""


def _structured(kind: str, data: bytes, depth: int) -> Any:
    """Return a Struct, a ListValue or a Value as a dict, a list or any of JSON's values."""
    if depth > _DEEPEST:
        raise ProtobufDecodeError(f"a value that is nested more than {_DEEPEST} levels deep")
    if kind == _LIST:
        return [_structured("", payload(raw), depth + 1) for raw in fields(data) if raw.number == 1]
    if kind == _STRUCT:
        pairs = (_entry(payload(raw)) for raw in fields(data) if raw.number == 1)
        return {name: _structured("", value, depth + 1) for name, value in pairs}
    return _value(data, depth)


def _entry(data: bytes) -> tuple[str, bytes]:
    name, value = "", b""
    for raw in fields(data):
        if raw.number == 1:
            name = str(scalar("string", raw))
        elif raw.number == 2:
            value += payload(raw)
    return name, value


def _value(data: bytes, depth: int) -> Any:
    """Return a Value. The last of its fields counts; a struct or list that follows itself is joined."""
    value: Any = None
    nested, joined = "", b""
    for raw in fields(data):
        kind = {5: _STRUCT, 6: _LIST}.get(raw.number, "")
        if raw.number > 6:
            continue
        joined = (joined if kind == nested else b"") + payload(raw) if kind else b""
        nested = kind
        if not kind:
            value = _plain(raw)
    return _structured(nested, joined, depth) if nested else value


def _plain(raw: Raw) -> Any:
    value = scalar({1: "enum", 2: "double", 3: "string", 4: "bool"}[raw.number], raw)
    if isinstance(value, float) and not math.isfinite(value):
        raise ProtobufDecodeError("a number that JSON does not have")
    return None if raw.number == 1 else value


def _dumped(value: Any) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{_dumped(name)}:{_dumped(item)}" for name, item in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_dumped, value)) + "]"
        case float():
            return _number(value)
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    if value.is_integer() and abs(value) < _WHOLE and (value or math.copysign(1, value) > 0):
        return str(int(value))
    digits, _, exponent = repr(value).partition("e")
    return f"{digits}e{int(exponent)}" if exponent else digits
