"""Finds timestamp columns whose numbers are probably seconds that were read as milliseconds; on the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pyiceberg.schema import Schema

from calve.record.content_file import Bounds, ContentFile
from calve.table.kinds import primitive

__all__ = ["read_as_milliseconds"]

_LATEST_SECONDS = 2**32 // 1000
"""Seconds since the epoch until the year 2106, read as milliseconds, are before this: 19 February 1970."""


def read_as_milliseconds(schema: Schema, files: Iterable[ContentFile]) -> Iterator[str]:
    """Yield the timestamp columns that have only times of the first weeks of 1970 in some file.

    Args:
        schema: The table's schema.
        files: Content files with bounds.
    """
    units = {
        field_id: row.per_second
        for field_id in schema.field_ids
        if (row := primitive(schema.find_type(field_id))).json == "timestamp"
    }
    field_ids = {
        field_id
        for file in files
        if units
        for field_id, lower in _bounds(file.lower_bounds, units)
        for other, upper in _bounds(file.upper_bounds, units)
        if field_id == other and lower > 0 and upper < _LATEST_SECONDS * units[field_id]
    }
    yield from (schema.find_column_name(field_id) or "" for field_id in sorted(field_ids))


def _bounds(bounds: Bounds | None, units: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    for field_id, value in zip(bounds.keys, bounds.values, strict=True) if bounds else ():
        if field_id in units:
            yield field_id, int.from_bytes(bytes.fromhex(value), "little", signed=True)
