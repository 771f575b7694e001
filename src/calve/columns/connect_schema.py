"""Converts the schema of a connector or of a typed source to nodes: the columns that can hold its rows.

The schema decides the type of a field, whatever its values are. `time` and nanoseconds become strings: Spark,
which maintains tables and finds older rows, cannot read a table with such a column (Iceberg 1.12).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from calve.arrays import RowNumbers
from calve.columns.node import Kind, Node, join
from calve.event import duckdb_session
from calve.event.column_names import ELEMENT, KEY, VALUE
from calve.event.columns import SCHEMA
from calve.event.envelope.logical import DECIMAL, EPOCHS, VARIABLE_DECIMAL
from calve.event.envelope.schema import Field, field_of
from calve.table.kinds import PRIMITIVES

__all__ = ["by_schema", "has_schemas", "node_of", "overlay", "rows_by_schema"]

_KINDS = {
    **{row.field: Kind(row.word) for row in PRIMITIVES if row.word in set(Kind)},
    **dict.fromkeys(("int8", "int16"), Kind.INT),
    "float32": Kind.FLOAT,
    "float64": Kind.DOUBLE,
    "null": Kind.NULL,
}
"""Connect's types, and those of typed sources; JSON's schemas say `float` and `double` for float32 and float64."""
_LOGICAL = {
    "io.debezium.data.Uuid": Kind.UUID,
    "io.debezium.time.IsoDate": Kind.DATE,
    "io.debezium.time.IsoTimestamp": Kind.TIMESTAMP,
    "io.debezium.time.ZonedTimestamp": Kind.TIMESTAMPTZ,
    VARIABLE_DECIMAL: Kind.STRING,
}
_MOST_DIGITS = 38


def by_schema(rows: pa.Table) -> Iterator[tuple[Node | None, RowNumbers]]:
    """Group rows by their column `_schema` (None without one); yield the node and ascending positions of each group."""
    if SCHEMA not in rows.column_names or not len(rows):
        yield None, np.arange(len(rows))
        return
    column = duckdb_session.one_array(rows[SCHEMA].unify_dictionaries())
    codes = column.indices.fill_null(-1).to_numpy()
    for code in np.unique(codes).tolist():
        declared = None if code < 0 else node_of(column.dictionary[code].as_py())
        yield declared, np.flatnonzero(codes == code)


def has_schemas(rows: pa.Table) -> bool:
    """Return whether any row has a schema in the column `_schema`."""
    return SCHEMA in rows.column_names and rows[SCHEMA].null_count < len(rows)


def rows_by_schema(rows: pa.Table, is_selected: Callable[[str], bool]) -> RowNumbers:
    """Return the positions of the rows whose schema, as text, is selected by a function."""
    if SCHEMA not in rows.column_names or not len(rows):
        return np.zeros(0, np.int64)
    column = duckdb_session.one_array(rows[SCHEMA].unify_dictionaries())
    selected = [code for code, text in enumerate(column.dictionary.to_pylist()) if is_selected(text)]
    return (
        np.flatnonzero(np.isin(column.indices.fill_null(-1).to_numpy(), selected))
        if selected
        else np.zeros(0, np.int64)
    )


@lru_cache(256)
def node_of(text: str) -> Node:
    """Convert a schema in the text of `Field` to a struct of all its fields, in their order."""
    return Node(Kind.STRUCT, {field.name: _node(field) for field in field_of(text).fields})


def overlay(declared: Node, observed: Node) -> Node:
    """Join a declared node with the observed fields that the schema does not declare."""
    if declared.kind is Kind.STRUCT and observed.kind is Kind.STRUCT:
        fields = dict(declared.fields)
        for name, node in observed.fields.items():
            fields[name] = overlay(fields[name], node) if name in fields else node
        return replace(declared, fields=fields)
    if declared.kind is Kind.LIST and observed.kind is Kind.LIST:
        return replace(declared, fields={ELEMENT: overlay(declared.fields[ELEMENT], observed.fields[ELEMENT])})
    if declared.kind is Kind.MAP and observed.kind is Kind.STRUCT:
        value = declared.fields[VALUE]
        for node in observed.fields.values():
            value = join(value, overlay(declared.fields[VALUE], node))
        return replace(declared, fields={**declared.fields, VALUE: value})
    return declared


def _node(field: Field) -> Node:
    """Return the kind of a field's decoded values, with its description and default."""
    node = _kind(field)
    has_note = field.doc or field.default is not None
    return replace(node, doc=field.doc, default=field.default) if has_note else node


def _kind(field: Field) -> Node:
    if field.logical == DECIMAL or field.kind == "decimal":
        return _decimal(field)
    if field.kind == "fixed":
        return Node(Kind.FIXED, digits=(field.precision, 0))
    if field.logical in EPOCHS:
        return Node(_epoch(*EPOCHS[field.logical]))
    if field.logical in _LOGICAL:
        return Node(_LOGICAL[field.logical])
    if field.kind == "struct":
        return Node(Kind.STRUCT, {inner.name: _node(inner) for inner in field.fields})
    if field.kind == "array" and field.fields:
        return Node(Kind.LIST, {ELEMENT: _node(field.fields[0])})
    if field.kind == "map" and field.fields and (field.has_scalar_keys or not field.pairs):
        keys = _node(field.fields[1]) if len(field.fields) > 1 else Node(Kind.STRING)
        return Node(Kind.MAP, {VALUE: _node(field.fields[0]), KEY: keys})
    return Node(_KINDS.get(field.kind, Kind.STRING))


def _epoch(kind: str, unit: int) -> Kind:
    if kind == "date":
        return Kind.DATE
    return Kind.TIMESTAMP if kind == "timestamp" and unit < 10**9 else Kind.STRING


def _decimal(field: Field) -> Node:
    """Return the node of a decimal: without a precision it may have any; if Iceberg cannot hold it, it is a string."""
    scale, digits = field.scale, field.precision or _MOST_DIGITS
    if scale < 0:  # the digits before the point end in zeros
        scale, digits = 0, (field.precision - scale if field.precision else _MOST_DIGITS)
    if not scale <= digits <= _MOST_DIGITS:
        return Node(Kind.STRING)
    return Node(Kind.DECIMAL, digits=(digits - scale, scale))
