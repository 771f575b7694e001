"""Converts one JSON value to one Iceberg primitive, exactly or not at all (RFC 6.3).

Every reader converts a parsed JSON value (`calve.event.exact_json`) that is not null to a value that `pa.array` accepts
for the Arrow type: times as integers since the epoch in the type's unit, decimals as `Decimal`. Map keys are strings.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from pyiceberg import types as iceberg

from calve.columns.options import ConvertOptions
from calve.convert import iso8601, variant
from calve.convert.date_formats import date_format
from calve.convert.iso8601 import MismatchError
from calve.errors import ConvertError
from calve.event.exact_json import Number, dump
from calve.event.reject import cut
from calve.table.kinds import Primitive, primitive

__all__ = ["MismatchError", "Read", "Rounded", "bad", "null_value", "reader"]

Read = Callable[[Any], Any]


class Rounded(int):
    """A time that was rounded to the digits of its column, which is counted."""


_NUMERIC = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?").fullmatch
_WHOLE = re.compile(r"([+-]?[0-9]+)(?:\.0*)?").fullmatch
"""A whole number without an exponent: a double or float must hold it exactly, unlike a fraction or `1e23`."""
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf}
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?").fullmatch
_UUID = re.compile(r"[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}").fullmatch
_WIDE = Context(prec=100)
_DEFAULT = ConvertOptions()
_NANO, _DAY_SECONDS = 1_000_000_000, 86_400
_SCALES = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_MAGNITUDES = ((10**11, "s"), (10**14, "ms"), (10**17, "us"))
"""The unit of a number below each limit, for times from 1973 (in milliseconds and finer) to 5138."""
_COUNTED = {
    "days": "days since 1970",
    "s": "epoch seconds",
    "ms": "epoch milliseconds",
    "us": "epoch microseconds",
    "ns": "epoch nanoseconds",
}


def reader(kind: iceberg.IcebergType, options: ConvertOptions = _DEFAULT) -> Read:
    """Return the reader of a primitive type.

    Raises:
        ConvertError: JSON cannot represent values of the type (geometry, geography).
    """
    row = primitive(kind)
    match row.json:
        case "boolean":
            return _boolean
        case "integer":
            return _integer(row)
        case "float":
            return _float
        case "double":
            return _double
        case "decimal":
            return _decimal(kind)
        case "date":
            return _temporal(_date(options.timestamp_formats), 1, "days", row.word)
        case "time":
            return _temporal(iso8601.time, row.per_second, "ms", row.word)
        case "timestamp":
            return _timestamp(row, options)
        case "string":
            return _string
        case "uuid":
            return _uuid
        case "base64":
            return _fixed(len(kind)) if isinstance(kind, iceberg.FixedType) else _binary
        case "any":
            return variant.encode
        case "null":
            return _unknown
        case "":
            raise ConvertError(f"A column of type {kind} cannot be filled from events", step="convert")


def null_value(kind: iceberg.IcebergType) -> Any:
    """Return the value of an allowed JSON null: None, but in a variant its own null."""
    return variant.NULL if primitive(kind).json == "any" else None


def bad(value: Any, kind: str) -> MismatchError:
    """Return the error of a value that does not fit a type."""
    text = cut(value if type(value) is str or type(value) is Number else dump(value))
    return MismatchError(f"{text!r} is not a valid {kind}" if type(value) is str else f"{text} is not a valid {kind}")


def _exact(value: Any, kind: str) -> Decimal:
    if (type(value) is Number or type(value) is str) and _NUMERIC(value):
        try:
            return Decimal(value)
        except InvalidOperation:
            pass
    raise bad(value, kind)


def _integer(row: Primitive) -> Read:
    kind, limit = row.word, 2 ** (row.arrow.bit_width - 1)

    def read(value: Any) -> int:
        if type(value) is Number and len(value) < 19:
            try:
                number = int(value)
            except ValueError:
                number = slow(value)
        elif isinstance(value, str):
            number = slow(value)
        else:
            raise bad(value, kind)
        if -limit <= number < limit:
            return number
        raise bad(value, kind)

    def slow(value: Any) -> int:
        exact = _exact(value, kind)
        if exact.adjusted() > 20 or exact != exact.to_integral_value(context=_WIDE):
            raise bad(value, kind)
        return int(exact)

    return read


def _double(value: Any) -> float:
    if type(value) is Number:
        number = float(value)
    elif type(value) is str and value in _SPECIAL:
        return _SPECIAL[value]
    elif type(value) is str and _NUMERIC(value):
        number = float(value)
    else:
        raise bad(value, "double")
    if math.isinf(number):
        raise MismatchError(f"{cut(value)} is too large for double")
    if abs(number) >= 2**53 and (whole := _WHOLE(value)) and int(number) != int(whole[1]):
        raise MismatchError(f"{cut(value)} has more digits than a double can hold")
    return number


def _float(value: Any) -> float:
    number = _double(value)
    try:  # rounded here, so that two keys of a map that become one value are found
        rounded: float = struct.unpack("<f", struct.pack("<f", number))[0]  # native order returns infinity, no error
    except OverflowError:
        raise MismatchError(f"{cut(value)} is too large for float") from None
    if rounded != number and abs(number) >= 2**24 and _WHOLE(value):
        raise MismatchError(f"{cut(value)} has more digits than a float can hold")
    return rounded


def _decimal(decimal: Any) -> Read:
    kind, precision, scale = str(decimal), decimal.precision, decimal.scale
    unit = Decimal(1).scaleb(-scale)

    def read(value: Any) -> Decimal:
        exact = _exact(value, kind)
        if not exact:
            return Decimal(0).quantize(unit)
        if exact.adjusted() + 1 > precision - scale or exact.adjusted() < -scale:
            raise bad(value, kind)
        fitted = exact.quantize(unit, context=_WIDE)
        if fitted != exact:
            raise bad(value, kind)
        return fitted

    return read


def _boolean(value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is str:
        lowered = value.lower()
        if lowered == "true" or lowered == "false":
            return lowered == "true"
    raise bad(value, "boolean")


def _string(value: Any) -> str:
    text = value if type(value) is str else str(value) if isinstance(value, str) else dump(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise MismatchError("half a surrogate pair is not valid text") from None
    return text


def _binary(value: Any) -> bytes:
    if type(value) is str and _BASE64(value):
        return base64.b64decode(value)
    raise bad(value, "Base64")


def _fixed(length: int) -> Read:
    def read(value: Any) -> bytes:
        data = _binary(value)
        if len(data) != length:
            raise MismatchError(f"{len(data)} bytes do not fit fixed[{length}]")
        return data

    return read


def _uuid(value: Any) -> bytes:
    if type(value) is str and _UUID(value):
        return bytes.fromhex(value.replace("-", ""))
    raise bad(value, "UUID")


def _temporal(parse: Callable[[str, int], int], unit: int, counts: str, kind: str, is_declared: bool = False) -> Read:
    """Compile the reader of a date or time with `unit` units per second: texts by `parse`, numbers by `counts`.

    If the unit of numbers is declared, digits in texts are numbers too, and doubles are rounded to the column's units.
    """
    low, high = _range(kind, unit)

    def read_text(value: str) -> int:
        try:
            return parse(value, unit)
        except MismatchError as error:
            if not _NUMERIC(value):
                raise
            if is_declared:
                return read_number(value)
            raise MismatchError(f"{error}{_declare(value)}" if kind.startswith("timestamp") else str(error)) from None

    def read_number(value: Any) -> int:
        exact = _exact(value, kind)
        if exact.adjusted() > 20:
            raise _out_of_range(value, kind, counts)
        units = _WIDE.multiply(exact, _factor(exact, unit, counts))
        number = int(units.to_integral_value(context=_WIDE))
        if number == units and bool(number) == bool(exact):  # the least numbers underflow to 0
            return number
        if not kind.startswith("timestamp"):
            raise bad(value, kind)
        if not is_declared or not _is_double(value, exact):
            advice = _declare(value) if not is_declared else ""
            raise MismatchError(f"{cut(value)} has more fraction digits than the column can hold{advice}")
        return Rounded(number)

    def read(value: Any) -> int:
        number = read_text(value) if type(value) is str else read_number(value)
        if not low <= number <= high:
            raise _out_of_range(value, kind, counts)
        return number

    return read


def _is_double(value: str, exact: Decimal) -> bool:
    """Return whether a number with a fraction or an exponent is the shortest text of a double."""
    return not value.lstrip("+-").isdigit() and Decimal(repr(float(value))) == exact


def _declare(value: str) -> str:
    """Return how to make a number a time, with its likely unit."""
    return f"; to read numbers as times, also in texts, set timestamp_unit (here perhaps {_likely(Decimal(value))})"


def _likely(number: Decimal) -> str:
    return next((name for most, name in _MAGNITUDES if number.copy_abs() < most), "ns")


def _factor(number: Decimal, unit: int, counts: str) -> Decimal:
    """Return the factor that converts a number to units of which a second has `unit`."""
    if counts == "auto":
        counts = _likely(number)
    return Decimal(1) if counts == "days" else Decimal(unit).scaleb(-_SCALES[counts])


def _timestamp(row: Primitive, options: ConvertOptions) -> Read:
    is_local = options.local_times and not row.is_zoned
    iso = iso8601.local_timestamp if is_local else iso8601.timestamp
    parse, counts = _parser(iso, options.timestamp_formats), options.timestamp_unit
    return _temporal(parse, row.per_second, counts or "ms", row.word, is_declared=counts is not None)


def _parser(iso: Callable[[str, int], int], patterns: tuple[str, ...]) -> Callable[[str, int], int]:
    """Compile a function that reads ISO 8601, else the first pattern that matches."""
    formats = [date_format(pattern) for pattern in patterns]

    def parse(text: str, unit: int) -> int:
        try:
            return iso(text, unit)
        except MismatchError:
            nanos = next((number for parse_format in formats if (number := parse_format(text)) is not None), None)
            if nanos is None:
                raise
        number, rest = divmod(nanos * unit, _NANO)
        if rest:
            raise MismatchError(f"{cut(text)!r} has more fraction digits than the column can hold")
        return number

    return parse if formats else iso


def _date(patterns: tuple[str, ...]) -> Callable[[str, int], int]:
    parse = _parser(lambda text, unit: iso8601.date(text) * _DAY_SECONDS * unit, patterns)

    def read(text: str, unit: int) -> int:
        days, rest = divmod(parse(text, 1), _DAY_SECONDS)
        if rest:
            raise MismatchError(f"{cut(text)!r} is not a date: the time of the day is not midnight")
        return days

    return read


def _range(kind: str, unit: int) -> tuple[int, int]:
    """Return the least and the greatest value; dates and timestamps have the years 1 to 9999, as all readers."""
    if kind == "date":
        return -iso8601.DAYS_BEFORE_1970, iso8601.LAST_DAY
    if kind == "time":
        return 0, 86_400 * unit - 1
    first, last = -iso8601.DAYS_BEFORE_1970 * 86_400 * unit, (iso8601.LAST_DAY + 1) * 86_400 * unit - 1
    return max(first, -(2**63)), min(last, 2**63 - 1)


def _out_of_range(value: Any, kind: str, counts: str) -> MismatchError:
    """Return the error of a date or time out of range; for a number it suggests the likely unit."""
    if kind == "time":
        return bad(value, kind)
    years = "the years 1677 to 2262" if kind.endswith("_ns") else "the years 1 to 9999"
    outside = f"{cut(value)} is outside of {years}, the range of type {kind}"
    if type(value) is str:
        return MismatchError(outside)
    if counts == "auto":
        return MismatchError(outside)
    likely = _likely(Decimal(value)) if kind.startswith("timestamp") else counts
    advice = f", and seems to be {_COUNTED[likely]}: set timestamp_unit: {likely}" if likely != counts else ""
    return MismatchError(f"{outside}: a number is read as {_COUNTED[counts]}{advice}")


def _unknown(value: Any) -> None:
    raise MismatchError("a column of type unknown is always null")
