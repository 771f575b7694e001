"""Compiles what to do with each piece of a value: read it into a column, skip it, or fill in a default.

The steps follow the order of the writer's schema; the columns are those of the reader's (schema resolution:
https://avro.apache.org/docs/1.12.0/specification/#schema-resolution). Both decoders follow the same steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from calve.event.reject import cut
from calve.event.typed_schema import annotated
from calve.serde.avro.defaults import column_default, encoded
from calve.serde.avro.schema import NO_DEFAULT, RecordField, Type
from calve.serde.format import UnsupportedSchemaError

__all__ = ["SKIPPED", "Compiled", "DecodeStep", "compiled"]

SKIPPED = -1
"""The number of the column of a field that is read over."""
_PROMOTED = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}
_TYPES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.large_binary(),
    "string": pa.large_string(),
    "enum": pa.large_string(),
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "uuid": pa.uuid(),
    **{f"timestamp-{unit}": pa.timestamp(short, "UTC") for unit, short in (("millis", "ms"), ("micros", "us"))},
    **{f"local-timestamp-{unit}": pa.timestamp(short) for unit, short in (("millis", "ms"), ("micros", "us"))},
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}
_DAY = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}
_DECIMAL128_DIGITS = 38


@dataclass(frozen=True)
class DecodeStep:
    """What to do with one piece of a value.

    Attributes:
        name: A primitive type, `fixed`, `enum`, `decimal`, `decimal-fixed`, `uuid`, `array`, `map`, `record`, `union`;
            `branch`: fill one field of a struct, the others are null; `default`: read the bytes in `text` instead of
            the value's; `fault`: the value does not fit the reader's schema.
        parts: The steps of what is inside.
        numbers: Of a record: the column of each part, or `SKIPPED`. Of a fixed: its size. Of a branch: its field. Of a
            decimal: its precision, scale and, if fixed, size. Of a time of day: the first number after it.
        symbols: Of an enum; the empty symbol is none of the reader's.
        text: Of a default: its bytes in hex. Of a fault: the reason.
    """

    name: str
    parts: tuple[DecodeStep, ...] = ()
    numbers: tuple[int, ...] = ()
    symbols: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Compiled:
    """The steps of a value, and the type of the rows."""

    step: DecodeStep
    kind: pa.StructType


class _MismatchError(Exception):
    """The writer's type cannot be read as the reader's."""


def compiled(writer: Type, reader: Type) -> Compiled:
    """Compile the steps for values of one schema, read as another one; the same one: as they are.

    Raises:
        UnsupportedSchemaError: The values are no records, or the schemas do not fit.
    """
    try:
        step, kind = _resolve(writer, reader), _arrow(reader)
    except _MismatchError as mismatch:
        raise UnsupportedSchemaError(f"it cannot be read by the chosen version: {mismatch}") from None
    except RecursionError:
        raise UnsupportedSchemaError("it is nested too deeply") from None
    if not pa.types.is_struct(kind) or not kind.num_fields or _may_be_null(reader):
        raise UnsupportedSchemaError("its values are not records with fields, so they are no rows")
    return Compiled(step, kind)


def _may_be_null(kind: Type) -> bool:
    return kind.kind == "union" and any(branch.kind == "null" for branch in kind.parts)


def _resolve(writer: Type, reader: Type) -> DecodeStep:
    if writer.kind == "union":
        return _union(writer, reader)
    if reader.kind == "union":
        return _branch(writer, reader)
    if writer.kind != reader.kind:
        return _promoted(writer, reader)
    match writer.kind:
        case "record":
            return _record(writer, reader)
        case "array" | "map":
            return DecodeStep(writer.kind, (_resolve(writer.parts[0], reader.parts[0]),))
        case "enum":
            _same_name(writer, reader)
            reader_symbols = set(reader.symbols)
            symbols = tuple(symbol if symbol in reader_symbols else reader.symbol for symbol in writer.symbols)
            return DecodeStep("enum", symbols=symbols)
        case "fixed":
            _same_name(writer, reader)
            if writer.size != reader.size:
                raise _MismatchError(f"the size of {writer.name} differs")
    return _leaf(writer, reader)


def _union(writer: Type, reader: Type) -> DecodeStep:
    parts = []
    for branch in writer.parts:
        try:
            parts.append(_resolve(branch, reader))
        except _MismatchError as mismatch:
            parts.append(DecodeStep("fault", text=str(mismatch)))
    if all(part.name == "fault" for part in parts):
        raise _MismatchError(parts[0].text)
    return DecodeStep("union", tuple(parts))


def _branch(writer: Type, reader: Type) -> DecodeStep:
    """Resolve a type as the first branch of a union that fits: exactly, else by a promotion."""
    for branch in sorted(reader.parts, key=lambda part: not _is_same_type(writer, part)):
        try:
            step = _resolve(writer, branch)
        except _MismatchError:
            continue
        valued = [part for part in reader.parts if part.kind != "null"]
        return (
            step if branch.kind == "null" or len(valued) < 2 else DecodeStep("branch", (step,), (valued.index(branch),))
        )
    raise _MismatchError(f"{writer.short_name} is no branch of the union")


def _promoted(writer: Type, reader: Type) -> DecodeStep:
    if (writer.kind, reader.kind) not in _PROMOTED or "decimal" in (writer.logical, reader.logical):
        raise _MismatchError(f"{writer.short_name} is not {reader.short_name}")
    return _leaf(writer, reader)


def _record(writer: Type, reader: Type) -> DecodeStep:
    parts, numbers, reader_fields = [], [], dict(enumerate(reader.fields))
    for field in writer.fields:
        number = next((at for at, candidate in reader_fields.items() if candidate.name == field.name), None)
        if number is None:
            number = next((at for at, candidate in reader_fields.items() if field.name in candidate.aliases), SKIPPED)
        reader_field = reader_fields.pop(number, field)
        numbers.append(number)
        parts.append(_field(field.type, reader_field))
    for number, missing in reader_fields.items():
        numbers.append(number)
        parts.append(_default(missing))
    return DecodeStep("record", tuple(parts), tuple(numbers))


def _field(writer: Type, reader: RecordField) -> DecodeStep:
    try:
        return _resolve(writer, reader.type)
    except _MismatchError as mismatch:
        raise _MismatchError(f"{cut(reader.name)}: {mismatch}") from None


def _default(field: RecordField) -> DecodeStep:
    if field.default is NO_DEFAULT:
        raise _MismatchError(f"the field {cut(field.name)} has no default")
    return DecodeStep("default", (_resolve(field.type, field.type),), text=encoded(field.type, field.default).hex())


def _same_name(writer: Type, reader: Type) -> None:
    if writer.short_name != reader.short_name and writer.name not in reader.aliases:
        raise _MismatchError(f"{writer.name} is not {reader.name}")


def _is_same_type(writer: Type, reader: Type) -> bool:
    return writer.kind == reader.kind and (writer.name == reader.name or writer.name in reader.aliases)


def _leaf(writer: Type, reader: Type) -> DecodeStep:
    if writer.logical and reader.logical and writer.logical != reader.logical:
        raise _MismatchError(f"{writer.logical} is not {reader.logical}")
    if reader.logical == "decimal":
        if writer.logical and (writer.digits[1] != reader.digits[1] or writer.digits[0] > reader.digits[0]):
            raise _MismatchError("the digits of a decimal differ")
        is_fixed = writer.kind == "fixed"
        return DecodeStep(
            "decimal-fixed" if is_fixed else "decimal", numbers=(*reader.digits, *[writer.size] * is_fixed)
        )
    if reader.logical == "uuid" and writer.kind == "string":
        return DecodeStep("uuid")
    if reader.logical in _DAY:
        return DecodeStep(writer.kind, numbers=(_DAY[reader.logical],))
    return DecodeStep(writer.kind, numbers=(writer.size,) if writer.kind == "fixed" else ())


def _arrow(kind: Type) -> pa.DataType:
    """Return the Arrow type of the column of a type."""
    match kind.kind:
        case "record":
            return pa.struct([_column(field) for field in kind.fields])
        case "array":
            return pa.large_list(_arrow(kind.parts[0]))
        case "map":
            return pa.map_(pa.large_string(), _arrow(kind.parts[0]))
        case "union":
            return _union_type(kind)
    if kind.logical == "decimal":
        return (pa.decimal128 if kind.digits[0] <= _DECIMAL128_DIGITS else pa.decimal256)(*kind.digits)
    if kind.kind == "fixed" and not kind.logical:
        return pa.binary(kind.size)
    return _TYPES[kind.logical or kind.kind]


def _column(field: RecordField) -> pa.Field:
    default = column_default(field.type, field.default)
    return annotated(field.name, _arrow(field.type), field.doc, default, field.tags)


def _union_type(kind: Type) -> pa.DataType:
    """Return the type of the only branch beside null; of several a struct with a field for each."""
    branches: list[Any] = [branch for branch in kind.parts if branch.kind != "null"]
    if len(branches) < 2:
        return _arrow(branches[0]) if branches else pa.null()
    short = [branch.short_name for branch in branches]
    names = [name if short.count(name) == 1 else branch.name for name, branch in zip(short, branches, strict=True)]
    return pa.struct([(name or branch.kind, _arrow(branch)) for name, branch in zip(names, branches, strict=True)])
