"""Rows as plain values that can be compared exactly and that survive a change of the schema: by field id."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, Row

Known = tuple[tuple[int, Any], ...]
"""A row: its values by field id, without the NULLs."""


def exact(value: Any) -> Any:
    """A value that equals another one only if they are the same, to the sign of a zero; hashable."""
    if isinstance(value, float):
        return "NaN" if value != value else struct.pack(">d", value)
    if isinstance(value, dict):
        return tuple(sorted((key, exact(each)) for key, each in value.items()))
    if isinstance(value, Row):
        return tuple(exact(each) for each in value)
    if isinstance(value, list):
        return tuple(exact(each) for each in value)
    return bytes(value) if isinstance(value, bytearray) else value


def known(row: Row, ids: dict[str, int]) -> Known:
    return tuple(sorted((ids[name], exact(row[name])) for name in ids if row[name] is not None))


def field_ids(java_table: Any) -> dict[str, int]:
    return {field.name(): field.fieldId() for field in java_table.schema().columns()}


def rows_of(frame: DataFrame, ids: dict[str, int]) -> Counter[Known]:
    return Counter(known(row, ids) for row in frame.collect())


def without(rows: Iterable[Known], field_id: int) -> Counter[Known]:
    """The rows after a column was dropped."""
    return Counter(tuple(pair for pair in row if pair[0] != field_id) for row in rows)
