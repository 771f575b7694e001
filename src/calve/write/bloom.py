"""Bloom filters of a Parquet file, sized for its rows, within the table's limit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from calve.write.properties import Bloom

__all__ = ["bloom_options"]

_LEAST_BYTES = 32
"""A split-block filter has blocks of 32 bytes; their number is a power of two (Parquet, "Bloom Filter")."""


def bloom_options(
    blooms: Mapping[str, Bloom], max_bytes: int, rows: pa.Table, paths: Mapping[str, str]
) -> dict[str, Any] | None:
    """Return pyarrow's `bloom_filter_options`.

    Args:
        blooms: By column.
        max_bytes: The largest size of one filter.
        rows: The first row group; it has at most as many distinct values as rows.
        paths: Parquet paths of the columns that may have a filter; Parquet allows none for booleans.
    """
    options = {}
    for column, bloom in blooms.items():
        if (path := paths.get(column)) is not None and not _is_boolean(rows.schema, column):
            wanted = bloom.ndv or max(len(rows), 1)
            options[path] = {"ndv": max(1, min(wanted, _most_values(max_bytes, bloom.fpp))), "fpp": bloom.fpp}
    return options or None


def _most_values(max_bytes: int, fpp: float) -> int:
    """Return how many values fit into the largest allowed filter."""
    size = 1 << (max(max_bytes, _LEAST_BYTES).bit_length() - 1)
    return int(-size * math.log(1 - fpp ** (1 / 8)))


def _is_boolean(schema: pa.Schema, column: str) -> bool:
    kind: Any = schema
    for name in (column,) if column in schema.names else column.split("."):
        if not isinstance(kind, (pa.Schema, pa.StructType)) or (index := kind.get_field_index(name)) < 0:
            return False
        kind = kind.field(index).type
    return bool(pa.types.is_boolean(kind))
