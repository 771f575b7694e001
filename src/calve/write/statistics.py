"""Statistics of a data file from its Parquet metadata (Iceberg specification, "Data File Fields" and appendix D)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple

from pyiceberg import types as iceberg
from pyiceberg.io.pyarrow import MetricModeTypes, StatisticsCollector

from calve.table.kinds import primitive

__all__ = ["Gauge", "Statistics"]

_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
"""Code points that UTF-8 cannot encode."""


class Statistics(NamedTuple):
    """The statistics of a file by field id; bounds are Iceberg's single values as bytes."""

    rows: int
    sizes: dict[int, int]
    values: dict[int, int]
    nulls: dict[int, int]
    lower: dict[int, bytes]
    upper: dict[int, bytes]
    split_offsets: list[int]


class _Bounds(NamedTuple):
    """Computes the bounds of a column from Parquet's physical values.

    Attributes:
        value: Returns the sort key of a value.
        lower: Returns a lower bound for the least value.
        upper: Returns an upper bound for the greatest value, None if none is short enough.
        has_nan: Whether values may be NaN, which bounds ignore in Parquet and in Iceberg.
    """

    value: Callable[[Any], Any] | None
    lower: Callable[[Any], bytes]
    upper: Callable[[Any], bytes | None]
    has_nan: bool = False


class _Column(NamedTuple):
    field_id: int
    is_counted: bool
    bounds: _Bounds | None


class Gauge:
    """Reads the statistics of files with the same columns.

    Args:
        plan: The statistics to collect, by field id.
        paths: The field ids by Parquet path; the sizes of several paths of one field are added.
    """

    def __init__(self, plan: Mapping[int, StatisticsCollector], paths: Mapping[str, int]) -> None:
        self._columns = {path: _column(plan[key]) for path, key in paths.items()}
        self._order: list[_Column] | None = None

    def read(self, metadata: Any) -> Statistics:
        """Return the statistics of a file.

        Args:
            metadata: Its `pyarrow.parquet.FileMetaData`.
        """
        if self._order is None:
            self._order = [self._columns[metadata.schema.column(n).path] for n in range(metadata.num_columns)]
        groups = [metadata.row_group(n) for n in range(metadata.num_row_groups)]
        statistics = Statistics(
            metadata.num_rows, {}, {}, {}, {}, {}, sorted(_start(group.column(0)) for group in groups)
        )
        for position, column in enumerate(self._order):
            chunks = [group.column(position) for group in groups]
            size = sum([chunk.total_compressed_size for chunk in chunks])
            statistics.sizes[column.field_id] = statistics.sizes.get(column.field_id, 0) + size
            if column.is_counted:
                _measure(column, chunks, statistics)
        return statistics


def _start(chunk: Any) -> int:
    """Return the start of a row group, from its first column."""
    data: int = chunk.data_page_offset
    return min(chunk.dictionary_page_offset, data) if chunk.has_dictionary_page else data


def _measure(column: _Column, chunks: Sequence[Any], statistics_of_file: Statistics) -> None:
    """Count and bound a column's values; a figure that one row group lacks is left out."""
    key = column.field_id
    statistics_of_file.values[key] = sum([chunk.num_values for chunk in chunks])
    statistics = [chunk.statistics for chunk in chunks]
    if not all(chunk_statistics is not None and chunk_statistics.has_null_count for chunk_statistics in statistics):
        return
    statistics_of_file.nulls[key] = sum([chunk_statistics.null_count for chunk_statistics in statistics])
    if column.bounds is None or (ends := _ends(statistics, column.bounds)) is None:
        return
    statistics_of_file.lower[key] = column.bounds.lower(ends[0])
    if (upper := column.bounds.upper(ends[1])) is not None:
        statistics_of_file.upper[key] = upper


def _ends(statistics: Sequence[Any], bounds: _Bounds) -> tuple[Any, Any] | None:
    """Return the least and the greatest value; None if there is none, or if a row group has values without statistics.

    Arrow has none for values above 4 kB; bounds from the other row groups would be wrong for these.
    """
    bounded = [chunk for chunk in statistics if chunk.has_min_max]
    if not bounded or not (bounds.has_nan or all(chunk.has_min_max or chunk.num_values == 0 for chunk in statistics)):
        return None
    least, greatest = [chunk.min_raw for chunk in bounded], [chunk.max_raw for chunk in bounded]
    if bounds.value is not None:
        least, greatest = list(map(bounds.value, least)), list(map(bounds.value, greatest))
    return min(least), max(greatest)


def _column(wanted: StatisticsCollector) -> _Column:
    mode = wanted.mode.type
    is_bounded = mode in (MetricModeTypes.FULL, MetricModeTypes.TRUNCATE)
    bounds = _bounds(wanted.iceberg_type, wanted.mode.length) if is_bounded else None
    return _Column(wanted.field_id, mode is not MetricModeTypes.NONE, bounds)


def _bounds(kind: iceberg.PrimitiveType, length: int | None) -> _Bounds | None:
    """Return the bounds of a type; None for a type without (the specification has special bounds for geometries)."""
    bound = primitive(kind).bound
    match bound:
        case "<?" | "<i" | "<q":
            return _packed(bound)
        case "<f" | "<d":
            return _packed(bound, has_nan=True)
        case "unscaled":
            return _Bounds(_unscaled, _shortest, _shortest)
        case "text" if length is not None:
            return _Bounds(None, lambda value: _text_lower(value, length), lambda value: _text_upper(value, length))
        case "bytes" if length is not None:
            return _Bounds(None, lambda value: value[:length], lambda value: _bytes_upper(value, length))
        case "text" | "bytes" | "whole":
            return _Bounds(None, bytes, bytes)
        case "":
            return None


def _packed(form: str, *, has_nan: bool = False) -> _Bounds:
    """Return the bounds of numbers; for floats Arrow has a zero as -0.0 if it is the least, as 0.0 if the greatest."""
    pack = Struct(form).pack
    return _Bounds(None, pack, pack, has_nan)


def _unscaled(value: int | bytes) -> int:
    """Return a decimal's unscaled value, which Parquet stores as a number or as big-endian bytes."""
    return value if isinstance(value, int) else int.from_bytes(value, "big", signed=True)


def _shortest(value: int) -> bytes:
    """Return two's complement in the fewest bytes, big-endian."""
    bits = (value if value >= 0 else ~value).bit_length()
    return value.to_bytes(bits // 8 + 1, "big", signed=True)


def _text_lower(value: bytes, length: int) -> bytes:
    return value if len(value) <= length else value.decode()[:length].encode()


def _text_upper(value: bytes, length: int) -> bytes | None:
    """Return the text, or its first `length` code points with the last incrementable one incremented."""
    if len(value) <= length or len(text := value.decode()) <= length:
        return value
    kept = text[:length].rstrip(chr(_LAST_CODE_POINT))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return (kept[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)).encode()


def _bytes_upper(value: bytes, length: int) -> bytes | None:
    if len(value) <= length:
        return value
    kept = value[:length].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
