"""Values of each kind, and what Python says a column of an Iceberg type must have of them: `docs/types.md`, in its own words."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import json
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any
from uuid import UUID

import numpy as np

__all__ = ["MORE", "REJECTED", "TARGETS", "VALUES", "Nanos", "agrees", "expected"]

REJECTED = "rejected"
UTC, EPOCH = dt.UTC, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
VALUES: dict[str, list[Any]] = {
    "boolean": [True, False, None, True],
    "int": [0, -(2**31), 2**31 - 1, 20_543],
    "long": [2**53 + 1, -(2**63), 1_767_225_600_123, 5],
    "float": [np.float32(0.5), np.float32(-3.25), np.float32(0.1), np.float32(2**25)],
    "double": [0.1, 1e300, -0.0, 12.0],
    "special": [float("nan"), float("inf"), float("-inf"), 1.5],
    "decimal": [Decimal("12.34"), Decimal("-0.50"), Decimal("1234567890.12"), Decimal("7.00")],
    "date": [dt.date(2026, 3, 31), dt.date(1, 1, 1), dt.date(9999, 12, 31), None],
    "time": [dt.time(1, 2, 3, 500_000), dt.time(0), dt.time(23, 59, 59, 999_999), None],
    "timestamp": [dt.datetime(2026, 3, 31, 1, 2, 3, 123_456), dt.datetime(2026, 3, 31), dt.datetime(1900, 1, 1), None],
    "timestamptz": [
        dt.datetime(2026, 3, 31, 1, 2, 3, 123_456, UTC),
        dt.datetime(2026, 3, 31, tzinfo=UTC),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        None,
    ],
    "string": ["12", "true", "2026-03-31", 'é"\n'],
    "text": ["1e3", "6f1c7c4e-7d6a-4f0f-9b1e-2f6f1f0a7c11", "2026-03-31T01:02:03.5+02:00", "AP8AAQ=="],
    "bytes": [b"\x00\xff\x00\x01", b"", b"\xb6\xbb\x9e", b"\xd7\x6d\xf8"],  # true and 1234 in Base64
    "fixed": [b"\x00\xff\x00\x01", b"abcd", b"\xff" * 4, None],
    "uuid": [UUID("6f1c7c4e-7d6a-4f0f-9b1e-2f6f1f0a7c11"), UUID(int=0), UUID(int=2**128 - 1), None],
    "list": [[1, 2], [], [2**31 - 1], [-1]],
    "map": [{"a": 1}, {}, {"é": 2, "b": -3}, {"a": 0}],
    "struct": [{"a": 1}, {"a": 0}, {"a": -7}, None],
}
"""Four values of each kind; those of one place are a row."""


class Nanos(int):
    """A point in time in nanoseconds since 1970."""


MORE: dict[str, list[Any]] = {
    "unsigned": [0, 2**64 - 1, 5, None],
    "half": [np.float16(0.5), np.float16(-2), np.float16(0.1), None],
    "nanos": [Nanos(1_767_225_600_123_456_789), Nanos(-1_000), Nanos(86_400 * 10**9), None],
    "wide": [Decimal(10**40) + Decimal("0.25"), Decimal("-1.50"), Decimal(3), None],
    "duration": [dt.timedelta(seconds=1.5), dt.timedelta(0), dt.timedelta(days=-1), None],
}
"""Kinds that only Parquet has."""
TARGETS = [
    *("boolean", "int", "long", "float", "double", "decimal(12,2)", "decimal(38,0)", "date", "time", "timestamp"),
    *("timestamptz", "timestamp_ns", "timestamptz_ns", "string", "uuid", "binary", "fixed[4]", "unknown"),
    *("struct<a: int>", "list<int>", "map<string, int>"),
]
_DIGITS = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_SPECIAL = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
_NOT_FINITE = (*_SPECIAL.values(),)
_DATE, _TIME = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(:\d\d(\.\d+)?)?"
_MOST = {"int": 2**31, "long": 2**63}


def expected(value: Any, target: str) -> Any:
    """Return what a column must have of a value: itself, in the type's Python form; or `REJECTED`."""
    kind = target.partition("(")[0].partition("[")[0].partition("<")[0]
    if value is None:
        return None
    if kind == "string":
        return value
    if kind in ("struct", "list", "map"):
        return _nested(value, kind)
    found = _SCALARS[kind](value, target)
    return REJECTED if found is None else found


def _nested(value: Any, kind: str) -> Any:
    if kind == "list":
        return value if isinstance(value, list) else REJECTED
    if not isinstance(value, dict):
        return REJECTED
    return {"a": value.get("a")} if kind == "struct" else value


def number(value: Any) -> Decimal | None:
    """Return the number that a value is, or whose text it is, as it is written in the shortest form."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return Decimal(value) if _DIGITS.fullmatch(value) else None
    value = float(value) if isinstance(value, np.float16) else value  # which every float has exactly
    is_number = isinstance(value, int | float | np.floating | Decimal) and not isinstance(value, Nanos)
    found = Decimal(str(value)) if is_number else None
    return found if found is not None and found.is_finite() else None


def _boolean(value: Any, target: str) -> Any:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def _integer(value: Any, target: str) -> Any:
    found = number(value)
    fits = found is not None and found == found.to_integral_value() and -_MOST[target] <= found < _MOST[target]
    return int(found) if fits and found is not None else None


def _floating(value: Any, target: str) -> Any:
    if (
        str(value) if isinstance(value, float) else _SPECIAL.get(value) if isinstance(value, str) else ""
    ) in _NOT_FINITE:
        return float(value)
    found = number(value)
    if found is None:
        return None
    with np.errstate(over="ignore"):
        made = np.float32(float(found)) if target == "float" else float(found)
    is_whole = found == found.to_integral_value() and not isinstance(value, float | np.floating)
    is_whole = is_whole and not (isinstance(value, str) and "e" in value.lower())
    is_exact = not np.isinf(made) and (not is_whole or Fraction(float(made)) == Fraction(int(found)))
    return made if is_exact else None


def _decimal(value: Any, target: str) -> Any:
    found = number(value)
    precision, scale = map(int, re.findall(r"\d+", target))
    if found is None or abs(found) >= Decimal(10) ** (precision - scale):
        return None
    return found if Fraction(found) * 10**scale % 1 == 0 else None


def nanoseconds(value: Any) -> int | None:
    """Return the point in time of a value, or of its text, in nanoseconds since 1970; a number is in milliseconds."""
    if isinstance(value, Nanos):
        return int(value)
    if isinstance(value, str) and (
        match := re.fullmatch(f"({_DATE})[T ](\\d\\d:\\d\\d:\\d\\d)\\.(\\d{{7,9}})Z?", value)
    ):
        whole = nanoseconds(f"{match[1]}T{match[2]}")
        return None if whole is None else whole + int(match[3].ljust(9, "0"))
    if isinstance(value, str) and re.fullmatch(f"{_DATE}([T ]{_TIME}(Z|[+-]\\d\\d:?\\d\\d)?)?", value):
        value = dt.datetime.fromisoformat(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime(value.year, value.month, value.day)
    if isinstance(value, dt.datetime):
        since = value.replace(tzinfo=value.tzinfo or UTC) - EPOCH
        return ((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds) * 1000
    found = None if isinstance(value, str) else number(value)
    point = None if found is None else Fraction(found) * 10**6
    return int(point) if point is not None and point.denominator == 1 else None


_FIRST, _LAST = -62_135_596_800 * 10**9, 253_402_300_800 * 10**9


def _moment(value: Any, target: str) -> Any:
    found = nanoseconds(value)
    if found is None or not _FIRST <= found < _LAST:
        return None
    if target.endswith("_ns"):
        return found if -(2**63) <= found < 2**63 and dt.datetime(1678, 1, 1, tzinfo=UTC) <= _at(found) else None
    return found if found % 1000 == 0 else None


def _at(point: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=point // 1000)


def _date(value: Any, target: str) -> Any:
    if isinstance(value, int | float | np.floating | Decimal) and not isinstance(value, Nanos):
        days = number(value)
        is_day = days is not None and days == days.to_integral_value() and -719_162 <= days <= 2_932_896
        return EPOCH.date() + dt.timedelta(days=int(days)) if is_day and days is not None else None
    if isinstance(value, dt.time):
        return None
    if isinstance(value, str) and (match := re.fullmatch(f"({_DATE})[T ](00:00(:00(\\.0+)?)?)(.*)", value)):
        return dt.date.fromisoformat(match[1])
    if isinstance(value, str) and not re.fullmatch(_DATE, value):
        return None
    found = nanoseconds(value)
    return None if found is None or found % (86_400 * 10**9) else _at(found).date()


def _time(value: Any, target: str) -> Any:
    if isinstance(value, dt.time):
        return value
    if isinstance(value, str):
        return dt.time.fromisoformat(value) if re.fullmatch(_TIME, value) else None
    found = number(value)
    micros = None if found is None else Fraction(found) * 1000
    fits = micros is not None and micros.denominator == 1 and 0 <= micros < 86_400 * 10**6
    return (EPOCH + dt.timedelta(microseconds=int(micros))).time() if fits and micros is not None else None


def _uuid(value: Any, target: str) -> Any:
    if isinstance(value, str):
        return UUID(value) if re.fullmatch(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", value) else None
    return value if isinstance(value, UUID) else None


def _binary(value: Any, target: str) -> Any:
    if isinstance(value, str):
        try:
            value = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            return None
    return value if isinstance(value, bytes) and (target == "binary" or len(value) == 4) else None


_SCALARS: dict[str, Any] = {
    "boolean": _boolean,
    "int": _integer,
    "long": _integer,
    "float": _floating,
    "double": _floating,
    "decimal": _decimal,
    "date": _date,
    "time": _time,
    "timestamp": _moment,
    "timestamptz": _moment,
    "timestamp_ns": _moment,
    "timestamptz_ns": _moment,
    "uuid": _uuid,
    "binary": _binary,
    "fixed": _binary,
    "unknown": lambda value, target: None,
}


def agrees(stored: Any, wanted: Any, target: str) -> bool:
    """Return whether a column has what it must have; a text may have any form that Python reads as the value."""
    if wanted is None or stored is None:
        return stored is wanted
    if target == "string":
        return bool(_is_text_of(stored, wanted))
    if target == "map<string, int>":
        return dict(stored) == wanted
    if isinstance(wanted, float) and np.isnan(wanted):
        return bool(np.isnan(stored))
    return bool(stored == wanted)


def _seconds(text: str) -> float | None:
    """Return the seconds of an ISO 8601 duration without months."""
    match = re.fullmatch(r"(-?)P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(-?[\d.]+)S)?)?", text)
    if match is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups()[1:])
    return (-1 if match[1] else 1) * (((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _is_text_of(text: str, value: Any) -> bool:
    try:
        match value:
            case str():
                return text == value
            case bool():
                return text == str(value).lower()
            case Nanos():
                return nanoseconds(text) == value
            case dt.timedelta():
                return _seconds(text) == value.total_seconds()
            case float() if str(value) in _NOT_FINITE:
                return _SPECIAL.get(text) == str(value)
            case float() | np.floating():
                return type(value)(text) == value
            case int() | Decimal():
                return Decimal(text) == value
            case dt.datetime():
                return nanoseconds(text) == nanoseconds(value) and (value.tzinfo is None or text[-1] in "Z0")
            case dt.date():
                return text == value.isoformat()
            case dt.time():
                return dt.time.fromisoformat(text) == value
            case bytes():
                return base64.b64decode(text, validate=True) == value
            case UUID():
                return text == str(value)
        return bool(json.loads(text) == value)
    except (ValueError, InvalidOperation):
        return False
