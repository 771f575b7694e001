"""Converts typed columns to the columns of a table, compiled once for a pair of types.

There is a reader for a pair of types if its results equal those of the exact converter from the value's text. Single
values may be excepted, such as dates after the year 9999; they are reported, and the exact converter converts them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from calve.arrays import Mask
from calve.convert.build import struct_array
from calve.convert.iso8601 import DAYS_BEFORE_1970, LAST_DAY
from calve.event.json_text import value_texts
from calve.table.kinds import VARIANT

__all__ = ["UnlikeError", "fields_reader"]

_Read = Callable[[pa.Array], tuple[pa.Array, Mask]]
"""Returns values of the column's type, and a mask of those that are certainly right."""
_DAY_SECONDS = 86_400
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6}
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_BINARIES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
_TEXTS = (pa.types.is_string, pa.types.is_large_string)
_SAME = (pa.types.is_boolean, pa.types.is_float32, pa.types.is_float64, pa.types.is_fixed_size_binary)


class UnlikeError(Exception):
    """A type has values that only the exact converter can read for a column."""


def fields_reader(
    kind: pa.StructType, columns: Sequence[pa.Field]
) -> Callable[[Sequence[pa.Array], int], tuple[list[pa.Array], Mask]]:
    """Compile a function from the values of a struct's fields, and their number, to columns.

    Fields without a column are left out. A column without a field is null.

    Raises:
        UnlikeError: A column must be filled from texts.
    """
    indexes = {field.name: index for index, field in enumerate(kind)}
    if len(indexes) < kind.num_fields:
        raise UnlikeError
    reads = [
        (
            indexes.get(field.name),
            _column(kind[indexes[field.name]].type if field.name in indexes else pa.null(), field),
        )
        for field in columns
    ]

    def read(values: Sequence[pa.Array], count: int) -> tuple[list[pa.Array], Mask]:
        arrays, good = [], np.ones(count, bool)
        for index, read_column in reads:
            column, is_right = read_column(pa.nulls(count) if index is None else values[index])
            arrays.append(column)
            good &= is_right
        return arrays, good

    return read


def _column(kind: pa.DataType, column: pa.Field) -> _Read:
    read = _reader(kind, column.type)
    if column.nullable:
        return read

    def read_required(values: pa.Array) -> tuple[pa.Array, Mask]:
        array, good = read(values)
        return array, good & _mask(array.is_valid())

    return read_required


def _reader(kind: pa.DataType, column: pa.DataType) -> _Read:
    if column == VARIANT:
        raise UnlikeError
    if isinstance(kind, pa.BaseExtensionType) and kind != pa.uuid():
        read = _reader(kind.storage_type, column)
        return lambda values: read(values.storage)
    if pa.types.is_dictionary(kind):
        read = _reader(kind.value_type, column)
        return lambda values: read(values.dictionary_decode())
    if pa.types.is_null(kind):
        return lambda values: (pa.nulls(len(values), column), _all(values))
    if pa.types.is_nested(column):
        return _nested(kind, column)
    if pa.types.is_large_string(column):
        return _text(kind)
    if pa.types.is_timestamp(column):
        return _timestamp(kind, column)
    if pa.types.is_date32(column):
        return _date(kind)
    if pa.types.is_decimal(column):
        return _decimal(kind, column)
    if not _holds(column, kind):
        raise UnlikeError
    return lambda values: (values.cast(column), _all(values))


def _holds(column: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether a cast changes no value of a type."""
    if pa.types.is_integer(column) and pa.types.is_integer(kind):
        return bool(kind.bit_width + pa.types.is_unsigned_integer(kind) <= column.bit_width)
    if pa.types.is_large_binary(column):
        return _is_one(kind, _BINARIES)
    return bool(kind == column and (_is_one(kind, _SAME) or kind == pa.uuid()))


def _is_one(kind: pa.DataType, tests: Sequence[Callable[[pa.DataType], bool]]) -> bool:
    return any(test(kind) for test in tests)


def _text(kind: pa.DataType) -> _Read:
    """Read texts, and the JSON text of all other values that are not nested."""
    if _is_one(kind, _TEXTS):
        return lambda values: (values.cast(pa.large_string()), _all(values))
    if pa.types.is_nested(kind):
        raise UnlikeError

    def read(values: pa.Array) -> tuple[pa.Array, Mask]:
        texts = pc.ascii_trim(value_texts(values).cast(pa.large_string()), characters='"')
        return pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.large_string())), _all(values)

    return read


def _decimal(kind: pa.DataType, column: pa.Decimal128Type) -> _Read:
    if pa.types.is_integer(kind):
        integer_digits, scale = len(str(2 ** (kind.bit_width - pa.types.is_signed_integer(kind)))), 0
    elif pa.types.is_decimal(kind):
        integer_digits, scale = kind.precision - kind.scale, kind.scale
    else:
        raise UnlikeError
    if not 0 <= scale <= column.scale or integer_digits > column.precision - column.scale:
        raise UnlikeError
    return lambda values: (values.cast(column), _all(values))


def _timestamp(kind: pa.DataType, column: pa.TimestampType) -> _Read:
    """Read timestamps of the years 1 to 9999; without a zone in UTC."""
    if not pa.types.is_timestamp(kind) or kind.unit not in _UNITS or column.unit != "us":
        raise UnlikeError
    second = _UNITS[kind.unit]
    first, last = -DAYS_BEFORE_1970 * _DAY_SECONDS * second, (LAST_DAY + 1) * _DAY_SECONDS * second - 1

    def read(values: pa.Array) -> tuple[pa.Array, Mask]:
        numbers = values.cast(pa.int64())
        good = _between(numbers, first, last)
        if kind.unit != "us":
            numbers = pc.multiply(pc.if_else(pa.array(good), numbers, 0), _UNITS["us"] // second)
        return numbers.cast(column), good

    return read


def _date(kind: pa.DataType) -> _Read:
    if not pa.types.is_date(kind):
        raise UnlikeError

    def read(values: pa.Array) -> tuple[pa.Array, Mask]:
        days = values.cast(pa.date32(), safe=False)
        return days, _between(days.cast(pa.int32()), -DAYS_BEFORE_1970, LAST_DAY)

    return read


def _nested(kind: pa.DataType, column: pa.DataType) -> _Read:
    if pa.types.is_struct(column) and pa.types.is_struct(kind):
        return _struct(kind, column)
    if pa.types.is_map(column) and pa.types.is_map(kind):
        return _map(kind, column)
    if pa.types.is_large_list(column) and _is_one(kind, _LISTS):
        return _list(kind, column)
    raise UnlikeError


def _struct(kind: pa.StructType, column: pa.StructType) -> _Read:
    if {field.name for field in kind} - {field.name for field in column}:
        raise UnlikeError
    read_fields = fields_reader(kind, list(column))

    def read(values: pa.Array) -> tuple[pa.Array, Mask]:
        is_null = values.is_null()
        columns, good = read_fields(values.flatten(), len(values))
        return struct_array(columns, list(column), is_null), good | _mask(is_null)

    return read


def _list(kind: pa.DataType, column: pa.LargeListType) -> _Read:
    read_elements = _column(kind.value_type, column.value_field)

    def read(values: pa.Array) -> tuple[pa.Array, Mask]:
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int64())
        elements, good = read_elements(pc.list_flatten(values))
        lists = pa.LargeListArray.from_arrays(offsets, elements, type=column, mask=values.is_null())
        return lists, _above(good, lengths)

    return read


def _map(kind: pa.MapType, column: pa.MapType) -> _Read:
    """Read maps without duplicate keys."""
    if pa.types.is_nested(kind.key_type) or pa.types.is_floating(kind.key_type) or kind.key_type == pa.uuid():
        raise UnlikeError
    read_keys = _column(kind.key_type, column.key_field)
    read_items = _column(kind.item_type, column.item_field)

    def read(values: pa.Array) -> tuple[pa.Array, Mask]:
        offsets = values.offsets.to_numpy()
        start, end = offsets[0], offsets[-1]
        lengths = np.diff(offsets)
        keys, good_keys = read_keys(values.keys[start:end])
        items, good_items = read_items(values.items[start:end])
        good = good_keys & good_items & ~_repeated(keys, lengths)
        new_offsets = pa.array(offsets - start, pa.int32())
        maps = pa.MapArray.from_arrays(new_offsets, keys, items, type=column, mask=values.is_null())
        return maps, _above(good, lengths)

    return read


def _repeated(keys: pa.Array, lengths: npt.NDArray[np.int32]) -> Mask:
    """Mask the keys that repeat an earlier key of the same map."""
    codes = keys.dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
    pairs = np.repeat(np.arange(len(lengths)), lengths) * (len(keys) + 1) + codes
    order = np.argsort(pairs, kind="stable")
    repeated = np.zeros(len(keys), bool)
    repeated[order[1:]] = np.diff(pairs[order]) == 0
    return repeated


def _above(good: Mask, lengths: npt.NDArray[np.int32]) -> Mask:
    """Mask the lists that have only right elements."""
    lists = np.ones(len(lengths), bool)
    lists[np.repeat(np.arange(len(lengths)), lengths)[~good]] = False
    return lists


def _all(values: pa.Array) -> Mask:
    return np.ones(len(values), bool)


def _mask(flags: pa.BooleanArray) -> Mask:
    mask: Mask = flags.to_numpy(zero_copy_only=False)
    return mask


def _between(numbers: pa.Array, first: int, last: int) -> Mask:
    return _mask(pc.fill_null(pc.and_(pc.greater_equal(numbers, first), pc.less_equal(numbers, last)), True))
