"""What Parquet says of columns and Arrow leaves out: an ENUM is text, and an INT96 is a moment."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import parquet

__all__ = ["open_parquet", "reader_of_group", "told_schema"]

_INT96, _ENUM = "INT96", "ENUM"


def open_parquet(file: pa.NativeFile, int96_unit: str = "us") -> parquet.ParquetFile:
    """Open a file; its INT96 timestamps are read in a unit, in which those of most years are right."""
    return parquet.ParquetFile(file, coerce_int96_timestamp_unit=int96_unit)


def reader_of_group(file: pa.NativeFile, opened: parquet.ParquetFile, index: int) -> parquet.ParquetFile:
    """Return what reads a row group without loss: the open file, or another one whose INT96 are nanoseconds.

    Only microseconds reach beyond the year 2262, and only nanoseconds are all that INT96 can hold.
    """
    names = list(dict.fromkeys(leaf.path.split(".")[0] for leaf in _leaves(opened) if leaf.physical_type == _INT96))
    if not names:
        return opened
    precise = open_parquet(file, "ns")
    pairs = zip(*(each.read_row_group(index, columns=names).columns for each in (opened, precise)), strict=True)
    same = (micros.cast(nanos.type, safe=False).equals(nanos) for micros, nanos in pairs)
    return opened if all(same) else precise


def told_schema(opened: parquet.ParquetFile) -> pa.Schema:
    """Return the Arrow schema of a file, where an ENUM is a string and an INT96 a timestamp with a zone."""
    schema = opened.schema_arrow
    if not any(leaf.physical_type == _INT96 or leaf.logical_type.type == _ENUM for leaf in _leaves(opened)):
        return schema
    leaves = _leaves(opened)
    return pa.schema([field.with_type(_told(field.type, leaves)) for field in schema])


def _leaves(opened: parquet.ParquetFile) -> Iterator[parquet.ColumnSchema]:
    return (opened.schema.column(index) for index in range(len(opened.schema)))


def _told(kind: pa.DataType, leaves: Iterator[parquet.ColumnSchema]) -> pa.DataType:
    """Return the type of a column, of which Parquet's leaves come in the same order as Arrow's."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_told(field.type, leaves)) for field in kind])
    if pa.types.is_map(kind):
        key = _told(kind.key_type, leaves)
        return pa.map_(key, _told(kind.item_type, leaves))
    if pa.types.is_nested(kind):
        return pa.list_(_told(kind.value_type, leaves))
    leaf = next(leaves)
    if leaf.physical_type == _INT96:
        return pa.timestamp(kind.unit, "UTC")
    return pa.string() if leaf.logical_type.type == _ENUM else kind
