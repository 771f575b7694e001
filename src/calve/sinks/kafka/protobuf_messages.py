"""Writes messages that are one value in an event: timestamps, durations, JSON, and those for dates and decimals."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from pyiceberg import types as iceberg

from calve.convert.scalar import MismatchError, bad, reader
from calve.event.exact_json import Number, decoder
from calve.sinks.kafka.binary import Write, varint

__all__ = ["LEAVES", "TYPES"]

_MICROS = reader(iceberg.TimestamptzType())
_STRING = reader(iceberg.StringType())
_DATE, _TIME, _DOUBLE = reader(iceberg.DateType()), reader(iceberg.TimeType()), reader(iceberg.DoubleType())
_PARSED = decoder()
_BILLION = 10**9
_DEEPEST = 90
"""Messages in messages of a JSON value; Protobuf's own libraries read 100."""
_MOST_SECONDS = 315_576_000_000
_MOST_DIGITS = 1000
_BITS = (1 << 64) - 1
_NANOSECONDS = re.compile(r"(.{10,20}\.[0-9]{6})([0-9]{1,3})(\D.*)?").fullmatch
"""A time with more digits than a microsecond has: they are set apart, because no column has them in all years."""
_DURATION = re.compile(
    r"(?P<sign>-?)PT(?=.)(?:(?P<h>\d{1,12})H)?(?:(?P<m>\d{1,12})M)?(?:(?P<inner>-?)(?P<s>\d{1,12})(?:\.(?P<f>\d{1,9}))?S)?"
).fullmatch
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?").fullmatch


def _number(field: int, value: int, out: bytearray) -> None:
    if value:
        varint(field << 3, out)
        varint(value & _BITS, out)


def _bytes(field: int, content: bytes | bytearray, out: bytearray) -> None:
    varint(field << 3 | 2, out)
    varint(len(content), out)
    out.extend(content)


def _timestamp(value: Any, out: bytearray) -> None:
    fine = _NANOSECONDS(value) if type(value) is str else None
    nanos = _MICROS(fine[1] + (fine[3] or "") if fine else value) * 1000 + int(fine[2].ljust(3, "0") if fine else 0)
    _number(1, nanos // _BILLION, out)
    _number(2, nanos % _BILLION, out)


def _duration(value: Any, out: bytearray) -> None:
    match = _DURATION(value) if type(value) is str else None
    if match is None or (match["inner"] and (match["h"] or match["m"] or match["sign"])):
        raise bad(value, "duration, such as PT1.5S")
    seconds = int(match["h"] or 0) * 3600 + int(match["m"] or 0) * 60 + int(match["s"] or 0)
    nanos = int((match["f"] or "").ljust(9, "0"))
    if seconds > _MOST_SECONDS:
        raise bad(value, "duration: it has more than 10,000 years")
    sign = -1 if match["sign"] or match["inner"] else 1
    _number(1, sign * seconds, out)
    _number(2, sign * nanos, out)


def _empty(value: Any, out: bytearray) -> None:
    if value not in ({}, "{}"):
        raise bad(value, "message without fields")


def _object(value: Any, out: bytearray, level: int = 0) -> None:
    """Write a Struct; at the top a text is JSON, as the column of a Struct has it."""
    fields = value if level else _json(value)
    if type(fields) is not dict:
        raise bad(value, "object")
    for name, item in fields.items():
        entry = bytearray()
        _bytes(1, _STRING(name).encode(), entry)
        _bytes(2, _value(item, level + 3), entry)
        _bytes(1, entry, out)


def _array(value: Any, out: bytearray, level: int = 0) -> None:
    """Write a ListValue; at the top a text is JSON."""
    items = value if level else _json(value)
    if type(items) is not list:
        raise bad(value, "array")
    for item in items:
        _bytes(1, _value(item, level + 2), out)


def _value(value: Any, level: int) -> bytes:
    """Return a Value: any JSON."""
    if level > _DEEPEST:
        raise MismatchError("the value is nested deeper than Protobuf's libraries read")
    out = bytearray()
    if value is None:
        out += b"\x08\0"
    elif type(value) is bool:
        out += b"\x20\1" if value else b"\x20\0"
    elif type(value) is Number:
        out += b"\x11" + struct.pack("<d", _DOUBLE(value))
    elif type(value) is str:
        _bytes(3, _STRING(value).encode(), out)
    else:
        content, is_object = bytearray(), type(value) is dict
        (_object if is_object else _array)(value, content, level)
        _bytes(5 if is_object else 6, content, out)
    return bytes(out)


def _any(value: Any, out: bytearray) -> None:
    out.extend(_value(value, 1))


def _json(value: Any) -> Any:
    """Return the value of a text with JSON; any other value as it is."""
    if type(value) is not str:
        return value
    try:
        return _PARSED.decode(value)
    except (ValueError, RecursionError):
        return value


LEAVES: Mapping[str, Write] = {
    "timestamp": _timestamp,
    "timestamp-text": _timestamp,
    "duration": _duration,
    "empty": _empty,
    "json-struct": _object,
    "json-list": _array,
    "json-value": _any,
}
"""By the kind of a column."""


def _confluent_decimal(value: Any) -> dict[str, Any]:
    if type(value) not in (str, Number) or not _DECIMAL(value):
        raise bad(value, "decimal")
    sign, digits, exponent = Decimal(value).as_tuple()
    scale = -int(exponent)
    if abs(scale) > _MOST_DIGITS or len(digits) > _MOST_DIGITS:
        raise bad(value, f"decimal of up to {_MOST_DIGITS} digits")
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    content = unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)
    precision = max(len(digits), scale, 1)
    return {"value": base64.b64encode(content).decode(), "precision": Number(precision), "scale": Number(scale)}


def _decimal(value: Any) -> dict[str, Any]:
    if type(value) not in (str, Number) or not _DECIMAL(value):
        raise bad(value, "decimal")
    return {"value": str(value)}


def _date(value: Any) -> dict[str, Any]:
    day = date(1970, 1, 1) + timedelta(days=_days(value))
    return {"year": Number(day.year), "month": Number(day.month), "day": Number(day.day)}


def _days(value: Any) -> int:
    days = int(_DATE(value))
    if not date.min.toordinal() <= days + date(1970, 1, 1).toordinal() <= date.max.toordinal():
        raise bad(value, "date of the years 1 to 9999")
    return days


def _time_of_day(value: Any) -> dict[str, Any]:
    seconds, micros = divmod(int(_TIME(value)), 10**6)
    parts = {"hours": seconds // 3600, "minutes": seconds // 60 % 60, "seconds": seconds % 60, "nanos": micros * 1000}
    return {name: Number(part) for name, part in parts.items()}


TYPES: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "confluent.type.Decimal": _confluent_decimal,
    "google.type.Decimal": _decimal,
    "google.type.Date": _date,
    "google.type.TimeOfDay": _time_of_day,
}
"""The fields of a message by its name, for a value that is not an object of these fields."""
