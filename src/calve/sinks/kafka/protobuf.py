"""Writes JSON values as messages of Protobuf (protobuf.dev, "Encoding"): exactly, or not at all.

Each scalar is read as the column of that type in a table would read it (`calve.convert.scalar`), and each message of
Protobuf's own as the column that it becomes when it is read. Runs on executors.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from pyiceberg import types as iceberg

from calve.convert.scalar import MismatchError, bad, reader
from calve.event.exact_json import Number
from calve.serde.protobuf.plan import SCALARS, MessageColumn
from calve.sinks.kafka.binary import Write, varint
from calve.sinks.kafka.protobuf_messages import LEAVES, TYPES

__all__ = ["indexes_prefix", "protobuf_writer"]

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_COLUMNS: dict[str, iceberg.IcebergType] = {
    "bool": iceberg.BooleanType(), "float": iceberg.FloatType(), "double": iceberg.DoubleType(),
    "string": iceberg.StringType(), "bytes": iceberg.BinaryType(),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), iceberg.IntegerType()),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), iceberg.LongType()),
    **dict.fromkeys(("uint64", "fixed64"), iceberg.DecimalType(20, 0)),
}  # fmt: skip
"""The column that reads a scalar; it holds more values than the unsigned ones."""
_MOST = {"uint32": 1 << 32, "fixed32": 1 << 32, "uint64": 1 << 64, "fixed64": 1 << 64}
_PACKED = {"float": "<f", "double": "<d", "fixed32": "<I", "fixed64": "<Q", "sfixed32": "<i", "sfixed64": "<q"}
_BITS = (1 << 64) - 1
_Set = Callable[[Any, bytearray], object]


def indexes_prefix(indexes: Sequence[int]) -> bytes:
    """Return Confluent's message indexes, which come before a message; the first message of a file has one byte."""
    out = bytearray()
    for number in (0,) if tuple(indexes) == (0,) else (len(indexes), *indexes):
        varint(number << 1, out)
    return bytes(out)


def protobuf_writer(column: MessageColumn) -> Write:
    """Compile the columns of a message (`serde.protobuf.plan.plan`)."""
    fields = {field.name: (field, _field(field)) for field in column.of}
    oneofs = {field.name: field.oneof for field in column.of if field.oneof >= 0}
    required = {field.name for field in column.of if field.missing == "required"}

    def write(value: Any, out: bytearray) -> None:
        if type(value) is not dict:
            raise bad(value, "message")
        if unknown := value.keys() - fields.keys():
            raise MismatchError(f"the schema has no field {min(unknown)}; `exclude_keys` leaves it out")
        if missing := required - value.keys():
            raise MismatchError(f"{min(missing)}: the field is missing")
        _check_oneofs(value, oneofs)
        for name, (field, write_field) in fields.items():
            if name not in value or (value[name] is None and _may_be_absent(field)):
                continue
            try:
                write_field(value[name], out)
            except MismatchError as error:
                raise MismatchError(f"{name}: {error}") from None

    return write


def _may_be_absent(field: MessageColumn) -> bool:
    """Return whether a null may be a field that is not there: one with a default would be read as that."""
    return field.missing == "null" and field.kind not in ("list", "map")


def _check_oneofs(value: dict[str, Any], oneofs: dict[str, int]) -> None:
    given = [name for name in oneofs if value.get(name) is not None]
    counts = Counter(oneofs[name] for name in given)
    if len(counts) < len(given):
        both = [name for name in given if counts[oneofs[name]] > 1]
        raise MismatchError(f"{both[0]} and {both[1]} are of one oneof, so only one may have a value")


def _field(field: MessageColumn) -> Write:
    """Return what writes a field with its tag; null is an error."""
    if field.kind == "list":
        return _list(field)
    if field.kind == "map":
        return _map(field)
    is_implicit = field.missing == "default" and not field.is_declared
    return _tagged(field, field.number, skips_zero=is_implicit)


def _tagged(column: MessageColumn, number: int, skips_zero: bool = False) -> Write:
    """Return what writes a value behind its tag; Protobuf's own libraries write no zero where that is the default."""
    convert, wire = _content(column), _wire(column)
    tag = _tag(number, wire)
    zero = bytes({_VARINT: 1, _LENGTH: 0, _FIXED32: 4, _FIXED64: 8}[wire])

    def write(value: Any, out: bytearray) -> None:
        if value is None:
            raise bad(value, column.kind)
        content = bytearray()
        convert(value, content)
        if skips_zero and content == zero:
            return
        out.extend(tag)
        if wire == _LENGTH:
            varint(len(content), out)
        out.extend(content)

    return write


def _list(field: MessageColumn) -> Write:
    element = field.of[0]
    is_packed = _wire(element) != _LENGTH
    write_item = _content(element) if is_packed else _tagged(element, field.number)
    tag = _tag(field.number, _LENGTH)

    def write(value: Any, out: bytearray) -> None:
        if type(value) is not list:
            raise bad(value, "list")
        content = bytearray()
        for item in value:
            if item is None:
                raise bad(item, element.kind)
            write_item(item, content)
        if is_packed and value:
            out.extend(tag)
            varint(len(content), out)
        out.extend(content)

    return write


def _map(field: MessageColumn) -> Write:
    key, item = field.of
    write_key, write_item, tag = _tagged(key, 1), _tagged(item, 2), _tag(field.number, _LENGTH)

    def write(value: Any, out: bytearray) -> None:
        if type(value) is not dict:
            raise bad(value, "map")
        for name, one_value in value.items():
            entry = bytearray()
            write_key(_key(key.kind, name), entry)
            write_item(one_value, entry)
            out.extend(tag)
            varint(len(entry), out)
            out.extend(entry)

    return write


def _key(kind: str, name: str) -> Any:
    """Return the name of a JSON field as the key of a map."""
    return {"true": True, "false": False}.get(name, name) if kind == "bool" else name


def _content(column: MessageColumn) -> Write:
    """Return what writes a value without its tag."""
    if column.kind in SCALARS:
        return _scalar(column.kind)
    if column.kind == "enum":
        return _enum(column)
    if column.kind == "wrapper":
        return _tagged(column.of[0], 1, skips_zero=True)
    if column.kind == "struct":
        whole = protobuf_writer(column)
        if column.message not in TYPES:
            return whole
        fields_of = TYPES[column.message]
        return lambda value, out: whole(value if type(value) is dict else fields_of(value), out)
    return LEAVES[column.kind]


def _scalar(kind: str) -> Write:
    read, most = reader(_COLUMNS[kind]), _MOST.get(kind)

    def number(value: Any) -> Any:
        converted = read(value)
        if most is not None and not 0 <= converted < most:
            raise bad(value, kind)
        return converted if most is None else int(converted)

    if kind in _PACKED:
        packed = _PACKED[kind]
        return lambda value, out: out.extend(struct.pack(packed, number(value)))
    if kind == "string":
        return lambda value, out: out.extend(read(value).encode())
    if kind == "bytes":
        return lambda value, out: out.extend(read(value))
    if kind in ("sint32", "sint64"):
        return lambda value, out: varint(_zigzag(number(value)), out)
    return lambda value, out: varint(number(value) & _BITS, out)


def _zigzag(number: int) -> int:
    return (number << 1) ^ (number >> 63)


def _enum(column: MessageColumn) -> Write:
    assert column.enum is not None
    numbers, is_closed = dict(column.enum.values), column.enum.is_closed
    short_name = column.enum.name.rpartition(".")[2]
    read = reader(iceberg.IntegerType())

    def write(value: Any, out: bytearray) -> None:
        if type(value) is str and value in numbers:
            number = numbers[value]
        elif type(value) in (str, Number) and not is_closed:
            number = read(value)  # a number without a name is read as its digits
        else:
            raise bad(value, f"value of {short_name}")
        varint(number & _BITS, out)

    return write


def _wire(column: MessageColumn) -> int:
    if column.kind in ("double", "fixed64", "sfixed64"):
        return _FIXED64
    if column.kind in ("float", "fixed32", "sfixed32"):
        return _FIXED32
    is_number = column.kind == "enum" or (column.kind in SCALARS and column.kind not in ("string", "bytes"))
    return _VARINT if is_number else _LENGTH


def _tag(number: int, wire: int) -> bytes:
    out = bytearray()
    varint(number << 3 | wire, out)
    return bytes(out)
