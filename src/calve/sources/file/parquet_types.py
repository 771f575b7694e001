"""Types of Parquet columns that Arrow does not keep: an ENUM is text, and an INT96 is a timestamp with a zone."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import parquet

__all__ = ["declared_schema", "open_parquet", "reader_of_group"]

_INT96, _ENUM = "INT96", "ENUM"


def open_parquet(file: pa.NativeFile, int96_unit: str = "us") -> parquet.ParquetFile:
    """Open a file; the unit of its INT96 timestamps limits their range of years."""
    return parquet.ParquetFile(file, coerce_int96_timestamp_unit=int96_unit)


def reader_of_group(file: pa.NativeFile, opened: parquet.ParquetFile, index: int) -> parquet.ParquetFile:
    """Return the file to read a row group without loss: the open one, or another one whose INT96 are nanoseconds.

    Only microseconds have years after 2262, and only nanoseconds have the full precision of INT96.
    """
    names = list(dict.fromkeys(leaf.path.split(".")[0] for leaf in _leaves(opened) if leaf.physical_type == _INT96))
    if not names:
        return opened
    precise = open_parquet(file, "ns")
    pairs = zip(*(reader.read_row_group(index, columns=names).columns for reader in (opened, precise)), strict=True)
    same = (micros.cast(nanos.type, safe=False).equals(nanos) for micros, nanos in pairs)
    return opened if all(same) else precise


def declared_schema(opened: parquet.ParquetFile) -> pa.Schema:
    """Return the Arrow schema of a file, with an ENUM as string and an INT96 as timestamp with a zone."""
    schema = opened.schema_arrow
    if not any(leaf.physical_type == _INT96 or leaf.logical_type.type == _ENUM for leaf in _leaves(opened)):
        return schema
    leaves = _leaves(opened)
    return pa.schema([field.with_type(_declared(field.type, leaves)) for field in schema])


def _leaves(opened: parquet.ParquetFile) -> Iterator[parquet.ColumnSchema]:
    return (opened.schema.column(index) for index in range(len(opened.schema)))


def _declared(kind: pa.DataType, leaves: Iterator[parquet.ColumnSchema]) -> pa.DataType:
    """Return the type of a column; Parquet's leaves have the same order as Arrow's."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_declared(field.type, leaves)) for field in kind])
    if pa.types.is_map(kind):
        key = _declared(kind.key_type, leaves)
        return pa.map_(key, _declared(kind.item_type, leaves))
    if pa.types.is_nested(kind):
        return pa.list_(_declared(kind.value_type, leaves))
    leaf = next(leaves)
    if leaf.physical_type == _INT96:
        return pa.timestamp(kind.unit, "UTC")
    return pa.string() if leaf.logical_type.type == _ENUM else kind
