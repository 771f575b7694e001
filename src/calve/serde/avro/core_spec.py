"""Describes the steps and the columns of a schema's values to the compiled core (`core/src/avro.rs`)."""

from __future__ import annotations

import pyarrow as pa

from calve.arrays import RowNumbers
from calve.compiled import events as core
from calve.serde.avro.plan import Compiled, DecodeStep

__all__ = ["Core", "core_of"]

_NAMES = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int32, "int"),
    (pa.types.is_date32, "int"),
    (pa.types.is_time32, "int"),
    (pa.types.is_int64, "long"),
    (pa.types.is_time64, "long"),
    (pa.types.is_timestamp, "long"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_null, "unknown"),
)
_FLAGS = ("0", "0", "0")
"""Of a column: not required, so it cannot be lacking, and nothing is left for later."""


class Core:
    """The core's decoder of one schema.

    Args:
        decoder: The decoder.
    """

    def __init__(self, decoder: core.Values) -> None:
        self._decoder = decoder

    def decode(self, values: pa.Array, start: int) -> tuple[RowNumbers, pa.Array | None]:
        """Return the positions of the values that certainly follow the schema, and their rows as structs."""
        decoded = self._decoder.decode(values, start)
        return (
            (pa.array([], pa.int64()).to_numpy(), None)
            if decoded is None
            else (decoded[0], decoded[1].to_struct_array())
        )

    def block(self, data: bytes, count: int) -> tuple[int, int, pa.Array | None]:
        """Decode values that follow each other; return how many, where they end, and their rows."""
        decoded = self._decoder.block(data, count)
        if decoded is None or not len(decoded[0]):
            return 0, 0, None
        return len(decoded[0]), int(decoded[0][-1]), decoded[1].to_struct_array()


def core_of(how: Compiled) -> Core | None:
    """Return a decoder; None without the core, or if a column has a type that it does not know."""
    columns = _fields(how.kind)
    spec = None if columns is None else ["0", "0", "0", "0", *columns, *_step(how.step)]
    decoder = core.values("avro", spec, pa.schema(list(how.kind))) if spec else None
    return Core(decoder) if decoder else None


def _fields(kind: pa.StructType) -> list[str] | None:
    spec = [str(kind.num_fields)]
    for number, field in enumerate(kind):
        column = _column(field.type)
        if column is None:
            return None
        spec += [field.name, f"{number}", *column]  # the core finds fields by their numbers
    return spec


def _column(kind: pa.DataType) -> list[str] | None:
    words = _kind(kind)
    return None if words is None else [*_FLAGS, *words]


def _kind(kind: pa.DataType) -> list[str] | None:
    name = next((name for is_one, name in _NAMES if is_one(kind)), None)
    if name is not None:
        return [name]
    if kind == pa.uuid():
        return ["uuid"]
    if pa.types.is_decimal128(kind):
        return ["decimal", str(kind.precision), str(kind.scale)]
    if pa.types.is_fixed_size_binary(kind):
        return ["fixed", str(kind.byte_width)]
    if pa.types.is_struct(kind):
        fields = _fields(kind)
        return None if fields is None else ["struct", *fields]
    inside = [_column(kind.field(number).type) for number in range(kind.num_fields)]
    if pa.types.is_map(kind):
        inside = [_column(kind.key_type), _column(kind.item_type)]
    if not inside or any(words is None for words in inside):
        return None
    return ["map" if pa.types.is_map(kind) else "list", *(text for words in inside for text in words or ())]


def _step(step: DecodeStep) -> list[str]:
    inside = [text for part in step.parts for text in _step(part)]
    match step.name:
        case "int" | "long":
            return [step.name, str(step.numbers[0] if step.numbers else 0)]
        case "fixed" | "branch":
            return [step.name, str(step.numbers[0]), *inside]
        case "decimal":
            return [step.name, str(step.numbers[0])]
        case "decimal-fixed":
            return [step.name, str(step.numbers[0]), str(step.numbers[2])]
        case "enum":
            return [step.name, str(len(step.symbols)), *step.symbols]
        case "record":
            parts = zip(step.numbers, step.parts, strict=True)
            return [
                step.name,
                str(len(step.parts)),
                *(text for at, inner in parts for text in (str(at), *_step(inner))),
            ]
        case "union":
            return [step.name, str(len(step.parts)), *inside]
        case "default":
            return [step.name, step.text, *inside]
    return [step.name, *inside]
