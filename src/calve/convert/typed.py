"""Converts typed rows to the columns of a table, with the results of the exact converter, column by column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from calve.arrays import RowNumbers
from calve.columns.options import ConvertOptions
from calve.compiled.events import Deferred, FastConverted
from calve.convert.typed_values import UnlikeError, fields_reader

__all__ = ["TypedConverter"]

_NONE = np.zeros(0, np.int64)
_NOTHING = Deferred(_NONE, _NONE, pa.array([], pa.large_binary()))


class TypedConverter:
    """Converts typed rows for one table.

    Args:
        schema: The Arrow schema of the table's rows.
        options: How to convert.
    """

    def __init__(self, schema: pa.Schema, options: ConvertOptions) -> None:
        self._schema = schema
        self._options = options
        self._readers: dict[pa.DataType, _Reader | None] = {}

    def reader(self, kind: pa.StructType) -> _Reader | None:
        """Return the converter of rows of a type; None if only their texts can be converted."""
        if kind not in self._readers:
            try:
                self._readers[kind] = _Reader(kind, self._schema, self._options)
            except UnlikeError:
                self._readers[kind] = None
        return self._readers[kind]


class _Reader:
    def __init__(self, kind: pa.StructType, schema: pa.Schema, options: ConvertOptions) -> None:
        fields = [field for field in kind if field.name in options.fields]
        others = [field for field in fields if field.name not in schema.names]
        if options.may_lack or len(others) == len(fields) or (others and options.case_insensitive):
            raise UnlikeError
        if options.look_for_unknown and not all(pa.types.is_null(field.type) for field in others):
            raise UnlikeError
        if any(field.name in options.local_times and "tz=" in str(field.type) for field in fields):
            raise UnlikeError  # an offset may not fit
        self._schema = schema
        self._names = [field.name for field in fields]
        self._read = fields_reader(pa.struct(fields), list(schema))
        self._ignored = tuple(field.name for field in others) if options.count_ignored else ()

    def convert(self, rows: pa.StructArray) -> FastConverted:
        """Convert rows; skip those with a value that may not fit its column."""
        at = _valid(rows)
        rows = rows if len(at) == len(rows) else rows.take(pa.array(at))
        columns, good = self._read([rows.field(name) for name in self._names], len(rows))
        batch = pa.record_batch(columns, schema=self._schema)
        if not good.all():
            batch, at = batch.filter(pa.array(good)), at[good]
        if not self._ignored:
            return FastConverted(batch, at, _NONE, _NONE, [], _NOTHING, None)
        return FastConverted(batch, at, at, np.zeros(len(at), np.int64), [self._ignored], _NOTHING, None)


def _valid(rows: pa.StructArray) -> RowNumbers:
    """Return the rows whose texts are all UTF-8, and whose decimals have no more digits than their types."""
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid:
        if len(rows) == 1:
            return _NONE
        halves = np.array_split(np.arange(len(rows)), 2)
        return np.concatenate([half[_valid(rows.take(pa.array(half)))] for half in halves])
    return np.arange(len(rows))
