"""The key of a table: the columns that identify the row of a change."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DoubleType, FloatType, IntegerType, ListType, NestedField, StructType

from calve.errors import SchemaConflictError
from calve.table.arrow_schema import arrow_schema
from calve.table.loaded import Table
from calve.table.schema import VariantType, path_of

__all__ = ["ABSENT", "ABSENT_ID", "EVENTS", "Key", "identified"]

ABSENT = "_calve_absent"
"""A column of staged updates: the field ids of the columns that they lack."""
ABSENT_ID = 2_100_000_000
"""Its field id, larger than any of a table (Iceberg's metadata columns begin at 2,147,483,447)."""
EVENTS = "_calve_events"
"""A column beside it: the dead letters of an update that lacks a required column, in case no older row has the value
either."""
_UNPARTITIONED = '{"spec-id":0,"fields":[]}'
_UNSORTED = '{"order-id":0,"fields":[]}'


class Key:
    """The identifier columns of one table; runs anywhere.

    Args:
        table: The table.
        columns: Their names, dotted where nested; empty means the table's identifier fields.

    Attributes:
        names: Their dotted names, in the order of field ids.
        missing: Those of `columns` that the table does not have.
        schema: The table's schema reduced to the key, every part of it required.
    """

    def __init__(self, table: Table, columns: Sequence[str] = ()) -> None:
        schema = table.schema
        wanted = list(columns) or [_name(schema, number) for number in schema.identifier_field_ids]
        self._table = table
        self.missing = [name for name in wanted if name not in schema.column_names]
        self.ids = sorted(schema.find_field(name).field_id for name in wanted if name not in self.missing)
        self.names = [_name(schema, number) for number in self.ids]
        self.schema = Schema(*_narrowed(schema.fields, set(self.ids)))

    def __bool__(self) -> bool:
        """Whether the table has a complete key."""
        return bool(self.ids) and not self.missing

    @property
    def fault(self) -> str:
        """Why there is no complete key; empty if there is one."""
        if self.missing:
            return f"the table {self._table.identifier} lacks its key column {', '.join(self.missing)}"
        for name in self.names:
            if not self._table.schema.find_type(name).is_primitive:
                kind = self._table.schema.find_type(name)
                return f"the column {name} of the table {self._table.identifier} is a {kind}, which cannot be a key"
        return "" if self.ids else f"the table {self._table.identifier} has no identifier fields"

    @property
    def required(self) -> Table:
        """The table with all key columns required, so that events without a key are rejected."""
        fields = _required(self._table.schema.fields, set(self.ids))
        return replace(self._table, schema_json=_json(self._table.schema, fields))

    @property
    def only(self) -> Table:
        """The table reduced to its key, for DELETEs; without a sort order."""
        schema_json = _json(self._table.schema, self.schema.fields)
        return replace(self._table, schema_json=schema_json, sort_order_json=_UNSORTED)

    @property
    def names_partition(self) -> bool:
        """Whether the key determines the partition of an older row.

        A delete of one spec does not apply to files of another spec (Iceberg specification, "Scan Planning").
        """
        spec = self._table.spec
        covered = all(field.source_id in self.ids for field in spec.fields)
        return not spec.fields or (covered and not self._table.has_other_specs)

    @property
    def deletes(self) -> Table:
        """The table for writing equality deletes: the key, with the table's spec or an unpartitioned one."""
        if self.names_partition:
            return self.only
        return replace(
            self.only, spec_json=json.dumps({"spec-id": self._table.unpartitioned_spec_id or 0, "fields": []})
        )

    @property
    def others(self) -> dict[str, int]:
        """The field ids of the top-level columns that contain no part of the key, by name."""
        kept = {field.field_id for field in self.schema.fields}
        return {field.name: field.field_id for field in self._table.schema.fields if field.field_id not in kept}

    @property
    def partial(self) -> Table:
        """The table for staging updates that lack columns: all but the key optional, with `ABSENT` and `EVENTS`."""
        names = self.others
        fields = [
            field.model_copy(update={"required": field.name not in names})
            for field in _required(self._table.schema.fields, set(self.ids))
        ]
        kind = ListType(element_id=ABSENT_ID + 1, element_type=IntegerType(), element_required=False)
        lines = ListType(element_id=ABSENT_ID + 3, element_type=BinaryType(), element_required=False)
        fields += [NestedField(ABSENT_ID, ABSENT, kind, required=True), NestedField(ABSENT_ID + 2, EVENTS, lines)]
        schema_json = _json(self._table.schema, fields)
        return replace(self._table, schema_json=schema_json, spec_json=_UNPARTITIONED, sort_order_json=_UNSORTED)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the key's rows, field ids in the metadata."""
        return arrow_schema(self.schema)

    def of(self, rows: pa.Table) -> pa.Table:
        """Return the key of typed rows: the columns of `schema`, nested as in the table."""
        columns = [_cast(rows.column(field.name), field) for field in self.arrow_schema]
        return pa.table(columns, schema=self.arrow_schema)

    def staged(self, rows: pa.Table) -> pa.Table:
        """Return updates that lack columns, in the schema of `partial`; `ABSENT` and `EVENTS` are the last columns."""
        schema = arrow_schema(self.partial.schema)
        added = [rows.column(name).cast(schema.field(name).type) for name in (ABSENT, EVENTS)]
        return pa.table([*rows.columns[:-2], *added], schema=schema)

    def flat(self, keys: pa.Table) -> list[pa.ChunkedArray]:
        """Return the leaves of the key as flat columns for grouping."""
        return [_leaf(keys, path_of(self.schema, number)) for number in self.ids]


def identified(schema: Schema, columns: Sequence[str]) -> Schema:
    """Add the identifier fields to a new table's schema, and make them required, as Iceberg demands.

    Raises:
        SchemaConflictError: There is no such column, or it is of a type that cannot be a key.
    """
    identifier_fields = [field for name in columns if (field := _found(schema, name)) is not None]
    ids = {field.field_id for field in identifier_fields}
    for field in identifier_fields:
        if not field.field_type.is_primitive or isinstance(field.field_type, (DoubleType, FloatType, VariantType)):
            raise _no_key(f"the column {field.name} is a {field.field_type}, which cannot be a key")
    if len(ids) < len(columns):
        missing = ", ".join(name for name in columns if _found(schema, name) is None)
        raise _no_key(f"it lacks the key field {missing}")
    try:
        return Schema(*_required(schema.fields, ids), identifier_field_ids=sorted(ids))
    except ValueError as error:
        raise _no_key(f"{', '.join(columns)} cannot be a key: no part of a list or a map is one") from error


def _found(schema: Schema, name: str) -> NestedField | None:
    return schema.find_field(name) if name in schema.column_names else None


def _no_key(why: str) -> SchemaConflictError:
    hint = "Set identifier_columns to fields that every event has"
    return SchemaConflictError(why, step="create the table", hint=hint)


def _name(schema: Schema, number: int) -> str:
    return schema.find_column_name(number) or ""


def _narrowed(fields: Iterable[NestedField], ids: set[int]) -> list[NestedField]:
    """Return the fields with these ids and the structs around them, all required."""
    kept = []
    for field in fields:
        if field.field_id in ids:
            kept.append(field.model_copy(update={"required": True}))
        elif isinstance(field.field_type, StructType) and (inner := _narrowed(field.field_type.fields, ids)):
            kept.append(field.model_copy(update={"required": True, "field_type": StructType(*inner)}))
    return kept


def _required(fields: Iterable[NestedField], ids: set[int]) -> list[NestedField]:
    """Make the fields with these ids and the structs around them required; keep the others."""
    required_fields = []
    for field in fields:
        update: dict[str, Any] = {}
        if field.field_id in ids:
            update = {"required": True}
        elif isinstance(field.field_type, StructType) and _narrowed(field.field_type.fields, ids):
            update = {"required": True, "field_type": StructType(*_required(field.field_type.fields, ids))}
        required_fields.append(field.model_copy(update=update))
    return required_fields


def _json(schema: Schema, fields: Sequence[NestedField]) -> str:
    return Schema(*fields, schema_id=schema.schema_id).model_dump_json()


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Cast a column to the type of the key: structs lose their other fields."""
    if not pa.types.is_struct(field.type):
        return column
    inner = [_cast(pc.struct_field(column, child.name), child) for child in field.type]
    arrays = [array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array for array in inner]
    whole = [pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array for array in arrays]
    return pa.chunked_array([pa.StructArray.from_arrays(whole, fields=list(field.type))])


def _leaf(rows: pa.Table, path: Sequence[str]) -> pa.ChunkedArray:
    column = rows.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    if isinstance(column.type, pa.BaseExtensionType):
        return pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    return column
