"""Writes JSON values as Avro's binary (https://avro.apache.org/docs/1.12.0/specification/): exactly, or not at all.

Each leaf is read as the column of that type in a table would read it (`calve.convert.scalar`). Runs on executors.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from pyiceberg import types as iceberg

from calve.convert.scalar import MismatchError, bad, reader
from calve.event.exact_json import Number
from calve.serde.avro.defaults import encoded
from calve.serde.avro.schema import EXACT, NO_DEFAULT, RecordField, Type
from calve.serde.format import UnsupportedSchemaError
from calve.sinks.kafka.binary import Write, varint

__all__ = ["avro_writer"]

_MOST_DIGITS = 38
_NATURAL = {bool: {"boolean"}, dict: {"record", "map"}, list: {"array"}, Number: {"int", "long", "float", "double"}}
"""The types that a JSON value has by itself; the other branches of a union come after them."""
_TIMES = {
    "date": (iceberg.DateType(), 1),
    "time-millis": (iceberg.TimeType(), 1000),
    "time-micros": (iceberg.TimeType(), 1),
    "timestamp-millis": (iceberg.TimestamptzType(), 1000),
    "timestamp-micros": (iceberg.TimestamptzType(), 1),
    "timestamp-nanos": (iceberg.TimestamptzNanoType(), 1),
    "local-timestamp-millis": (iceberg.TimestampType(), 1000),
    "local-timestamp-micros": (iceberg.TimestampType(), 1),
    "local-timestamp-nanos": (iceberg.TimestampNanoType(), 1),
}
"""The column that reads a time, and how many of its units one of Avro has."""
_LEAVES = {
    "boolean": iceberg.BooleanType(),
    "int": iceberg.IntegerType(),
    "long": iceberg.LongType(),
    "float": iceberg.FloatType(),
    "double": iceberg.DoubleType(),
    "bytes": iceberg.BinaryType(),
    "string": iceberg.StringType(),
}

_KEY = reader(iceberg.StringType())


def avro_writer(kind: Type) -> Write:
    """Compile a schema.

    Raises:
        UnsupportedSchemaError: It has a decimal of more than 38 digits.
    """
    match kind.kind:
        case "record":
            return _record(kind)
        case "array":
            return _array(avro_writer(kind.parts[0]))
        case "map":
            return _map(avro_writer(kind.parts[0]))
        case "union":
            return _union(kind)
        case "enum":
            return _enum(kind)
        case "null":
            return _null
    return _leaf(kind)


def _leaf(kind: Type) -> Write:
    return partial(_present, _leaf_value(kind), kind.logical or kind.kind)


def _present(write: Write, name: str, value: Any, out: bytearray) -> None:
    if value is None:
        raise bad(value, name)
    write(value, out)


def _leaf_value(kind: Type) -> Write:
    if kind.logical in _TIMES:
        column, units = _TIMES[kind.logical]
        return partial(_time, reader(column), units)
    if kind.logical == "decimal":
        if kind.digits[0] > _MOST_DIGITS:
            raise UnsupportedSchemaError(f"a decimal has more than {_MOST_DIGITS} digits")
        return partial(_decimal, reader(iceberg.DecimalType(*kind.digits)), kind.digits[1], kind.size)
    if kind.logical == "uuid":
        return partial(_uuid, reader(iceberg.UUIDType()), kind.kind == "fixed")
    if kind.kind == "fixed":
        read = reader(iceberg.FixedType(kind.size))
        return lambda value, out: out.extend(read(value))
    read = reader(_LEAVES[kind.kind])
    match kind.kind:
        case "boolean":
            return lambda value, out: out.append(read(value))
        case "int" | "long":
            return lambda value, out: _long(read(value), out)
        case "float":
            return lambda value, out: out.extend(struct.pack("<f", read(value)))
        case "double":
            return lambda value, out: out.extend(struct.pack("<d", read(value)))
        case "string":
            return lambda value, out: _bytes(read(value).encode(), out)
    return lambda value, out: _bytes(read(value), out)


def _long(number: int, out: bytearray) -> None:
    varint((number << 1) ^ (number >> 63), out)


def _bytes(data: bytes, out: bytearray) -> None:
    _long(len(data), out)
    out += data


def _null(value: Any, out: bytearray) -> None:
    if value is not None:
        raise bad(value, "null")


def _time(read: Callable[[Any], int], units: int, value: Any, out: bytearray) -> None:
    time, rest = divmod(read(value), units)
    if rest:
        raise MismatchError("the time has more digits than the schema keeps")
    _long(time, out)


def _decimal(read: Callable[[Any], Any], scale: int, size: int, value: Any, out: bytearray) -> None:
    unscaled = int(read(value).scaleb(scale, EXACT))
    length = size or (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    try:
        data = unscaled.to_bytes(length, "big", signed=True)
    except OverflowError:
        raise bad(value, f"decimal in {size} bytes") from None
    if size:
        out += data
    else:
        _bytes(data, out)


def _uuid(read: Callable[[Any], bytes], is_fixed: bool, value: Any, out: bytearray) -> None:
    data = read(value)
    if is_fixed:
        out += data
    else:
        _bytes(str(uuid.UUID(bytes=data)).encode(), out)


def _enum(kind: Type) -> Write:
    numbers = {symbol: number for number, symbol in enumerate(kind.symbols)}

    def write(value: Any, out: bytearray) -> None:
        if type(value) is not str or value not in numbers:
            raise bad(value, f"symbol of {kind.short_name}")
        _long(numbers[value], out)

    return write


def _array(element: Write) -> Write:
    def write(value: Any, out: bytearray) -> None:
        if type(value) is not list:
            raise bad(value, "array")
        if value:
            _long(len(value), out)
        for item in value:
            element(item, out)
        out.append(0)

    return write


def _map(element: Write) -> Write:
    def write(value: Any, out: bytearray) -> None:
        if type(value) is not dict:
            raise bad(value, "map")
        if value:
            _long(len(value), out)
        for key, item in value.items():
            _bytes(_KEY(key).encode(), out)
            element(item, out)
        out.append(0)

    return write


def _union(kind: Type) -> Write:
    branches = [(number, part.kind, avro_writer(part)) for number, part in enumerate(kind.parts)]
    null = next((number for number, name, _ in branches if name == "null"), None)
    by_type = {
        of: sorted(branches, key=lambda branch, names=names: branch[1] not in names)  # type: ignore[misc]
        for of, names in {**_NATURAL, str: {"string", "enum", "bytes", "fixed"}}.items()
    }

    def write(value: Any, out: bytearray) -> None:
        if value is None and null is not None:
            _long(null, out)
            return
        failures = []
        for number, name, write_branch in by_type[type(value)] if value is not None else ():
            start = len(out)
            _long(number, out)
            try:
                if name != "null":
                    write_branch(value, out)
                    return
            except MismatchError as error:
                failures.append(error)
            del out[start:]
        raise failures[0] if len(failures) == 1 else bad(value, "value of the union")

    return write


def _record(kind: Type) -> Write:
    fields = [(part.name, avro_writer(part.type), _default(part)) for part in kind.fields]
    names = {part.name for part in kind.fields}

    def write(value: Any, out: bytearray) -> None:
        if type(value) is not dict:
            raise bad(value, "record")
        if unknown := value.keys() - names:
            raise MismatchError(f"the schema has no field {min(unknown)}; `exclude_keys` leaves it out")
        for name, write_field, default in fields:
            if name not in value and default is not None:
                out += default
                continue
            try:
                if name not in value:
                    raise MismatchError("the field is missing")
                write_field(value[name], out)
            except MismatchError as error:
                raise MismatchError(f"{name}: {error}") from None

    return write


def _default(part: RecordField) -> bytes | None:
    """Return what is written for a field that is missing: its default, else null if its type has it; None: nothing."""
    try:
        return encoded(part.type, None if part.default is NO_DEFAULT else part.default)
    except UnsupportedSchemaError:
        return None
