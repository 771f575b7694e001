"""The columns of Parquet files, and how events become their rows. Runs on executors; the driver compiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema

from calve.columns.declared_types import ColumnTypes
from calve.columns.evolve import is_contended
from calve.columns.fields import Fields
from calve.columns.infer import Inferred, infer
from calve.columns.options import ConvertOptions
from calve.convert.converter import ConvertedEvents, Converter
from calve.event.column_names import COLUMN_LIMIT
from calve.event.columns import EVENT
from calve.event.reject import Code, reject_rows
from calve.event.typed import is_typed
from calve.event.validate_json import whole_array
from calve.sinks.file.codec_settings import ParquetFormat
from calve.table.definition import schema_from_columns
from calve.table.loaded import Table
from calve.table.schema import read_schema

__all__ = ["FileColumns", "columns_of", "placed", "without_field_ids"]

_UNPARTITIONED = '{"spec-id":0,"fields":[]}'
_HAS_NO_COLUMN = "`schema` has no column for the field; declare it there, or leave it out (exclude_keys)"


@dataclass(frozen=True)
class FileColumns:
    """The columns of files; pickled into tasks.

    Attributes:
        fields: The fields of an event that are written.
        types: The types of columns that events decide.
        case_insensitive: Whether fields match columns in any case.
        declared_json: The declared columns as an Iceberg schema; empty: the events of a file decide.
    """

    fields: Fields
    types: ColumnTypes = field(default_factory=ColumnTypes)
    case_insensitive: bool = False
    declared_json: str = ""

    @cached_property
    def _declared(self) -> Schema | None:
        return read_schema(self.declared_json) if self.declared_json else None

    def rows(self, parts: Sequence[pa.Table]) -> Iterator[ConvertedEvents]:
        """Convert the events of a file, in parts (`event`, and `_schema` if it exists): each is a row or a reject.

        The columns are the same in all parts.
        """
        if self._declared:
            yield from map(_explained, self._converted(self._declared, parts))
            return
        schema = self._inferred(parts)
        if len(schema.column_names) >= COLUMN_LIMIT:  # an event that fits no file must not take the others' columns
            narrow = self._inferred(list(map(self._narrow, parts)))
            schema = narrow if narrow.fields else schema
        converted = list(self._converted(schema, parts))
        if any(len(part.rejects) for part in converted):  # only events that are written decide columns
            good = [events.take(part.row) for events, part in zip(parts, converted, strict=True)]
            again = self._converted(self._inferred(good), good)
            converted = [_joined(*both) for both in zip(converted, again, strict=True)]
        yield from converted

    def _converted(self, schema: Schema, parts: Sequence[pa.Table]) -> Iterator[ConvertedEvents]:
        options = ConvertOptions(
            look_for_unknown=True,
            on_type_mismatch="dlq",
            case_insensitive=self.case_insensitive,
            fields=self.fields,
            types=self.types,
            column_limit=0 if self._declared else COLUMN_LIMIT,
        )
        table = Table("", "", "", schema.model_dump_json(), _UNPARTITIONED)
        converter = Converter(table, options, checks=False)
        converted = map(converter.convert, parts)
        yield from converted if schema.fields else map(_without_columns, converted)

    def _inferred(self, parts: Sequence[pa.Table]) -> Schema:
        inferred = Inferred()
        for events in parts:
            inferred = inferred.merge(infer(events, self.fields))
        return inferred.to_schema(types=self.types, case_insensitive=self.case_insensitive)

    def _narrow(self, events: pa.Table) -> pa.Table:
        """Return the events without those that have too many fields for a file of their own."""
        if is_typed(events):
            return events
        is_narrow = pc.less_equal(pc.count_substring(whole_array(events[EVENT]), ":"), COLUMN_LIMIT)  # one a field
        is_narrow = is_narrow.to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(~is_narrow).tolist():
            root = infer(events.slice(row, 1), self.fields).root
            is_narrow[row] = not is_contended(root, self.types, self.case_insensitive)
        return events.filter(pa.array(is_narrow))


def columns_of(settings: ParquetFormat, fields: Fields) -> FileColumns:
    """Return the columns that a configuration declares."""
    declared = schema_from_columns(settings.columns).model_dump_json() if settings.columns else ""
    return FileColumns(fields, ColumnTypes(settings.column_types), settings.case_insensitive, declared)


def without_field_ids(kind: pa.DataType) -> pa.DataType:
    """Return a type without Iceberg's field ids, which differ by file: a table that adds the files maps names."""
    if pa.types.is_struct(kind):
        return pa.struct(list(map(_bare, kind)))
    if pa.types.is_large_list(kind):
        return pa.large_list(_bare(kind.value_field))
    return pa.map_(_bare(kind.key_field), _bare(kind.item_field)) if pa.types.is_map(kind) else kind


def _bare(column: pa.Field) -> pa.Field:
    return pa.field(column.name, without_field_ids(column.type), column.nullable)


def placed(rejects: pa.Table, rows: pa.Array) -> pa.Table:
    """Return the rejects of some rows with the positions of these among all."""
    return rejects.set_column(0, "row", rows.take(rejects["row"].combine_chunks()))


def _joined(first: ConvertedEvents, again: ConvertedEvents) -> ConvertedEvents:
    """Return the conversion of the good rows of a first one, with the rejects of both."""
    rejects = pa.concat_tables([first.rejects, placed(again.rejects, first.row)])
    return replace(again, row=first.row.take(again.row), rejects=rejects)


def _without_columns(converted: ConvertedEvents) -> ConvertedEvents:
    """Reject the events that could be rows: without columns a file would lose them."""
    lost = reject_rows(converted.row, Code.NO_MATCHING_FIELDS, "", "no field of the event has a value")
    rejects = pa.concat_tables([converted.rejects, lost])
    return replace(converted, rows=pa.table({}), row=converted.row[:0], rejects=rejects)


def _explained(converted: ConvertedEvents) -> ConvertedEvents:
    """Return the same with the reason of fields for which nothing is declared: inference never adds them."""
    rejects = converted.rejects
    is_surplus = pc.equal(rejects["code"], Code.TOO_MANY_COLUMNS.value)
    for name, text in (("code", Code.SINK_REFUSED.value), ("reason", _HAS_NO_COLUMN)):
        column = pc.if_else(is_surplus, pa.scalar(text, rejects[name].type), rejects[name])
        rejects = rejects.set_column(rejects.column_names.index(name), name, column)
    return replace(converted, rejects=rejects)
