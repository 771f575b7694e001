"""Moves fields that have no column, and get none, into a column of their own (the option `overflow`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.columns.connect_schema import by_schema
from calve.columns.evolve import fits, known_fields, refusal
from calve.columns.infer import EventFields, node_of_value
from calve.columns.node import Kind, Node
from calve.columns.options import ConvertOptions
from calve.columns.unknown_fields import UnknownFields
from calve.event.column_names import ELEMENT, VALUE, ColumnNames, ColumnPath, folded
from calve.event.columns import EVENT
from calve.event.envelope.exact import text_of
from calve.event.exact_json import parse_object
from calve.event.typed import is_typed, with_text
from calve.event.validate_json import whole_array
from calve.table.loaded import Table

__all__ = ["Overflow"]


class Overflow:
    """Moves fields into the column for the overflow; for one thread (executor).

    A top-level field with a part that has no column is there as a whole; its column has the other parts. So is a field
    of the column's own name in any case: the table has the name, and no field is written there.

    Args:
        table: The table.
        options: How its events are converted, `overflow` among them. With `look_for_unknown` fields that can become
            columns stay where they are.
    """

    def __init__(self, table: Table, options: ConvertOptions) -> None:
        self._options = options
        columns = [field for field in table.schema.fields if field.name != options.overflow]
        self._columns = iceberg.StructType(*columns)
        self._names = ColumnNames(table.schema.as_struct(), options.column_limit)
        self._new = EventFields(replace(options, look_for_unknown=True), Schema(*columns))

    def fill(self, rows: pa.Table) -> tuple[pa.Table, UnknownFields]:
        """Return the rows, and which fields of which rows were moved."""
        if is_typed(rows) and not any(map(self._may_move, self._declared(rows))):
            return rows, UnknownFields.of(())
        rows = with_text(rows)
        texts = whole_array(rows[EVENT])
        moved: dict[int, tuple[Any, tuple[str, ...]]] = {}
        for new, at in self._new.of(texts):
            for row in at.tolist() if self._may_move(new) else ():
                text, names = self._moved(texts[row].as_py())
                if names:
                    moved[row] = text, names
        if moved:
            filled = [moved[row][0] if row in moved else text for row, text in enumerate(texts.to_pylist())]
            rows = rows.set_column(rows.column_names.index(EVENT), EVENT, pa.array(filled, texts.type))
        return rows, UnknownFields.of((row, names) for row, (_, names) in sorted(moved.items()))

    def _declared(self, rows: pa.Table) -> Iterator[Node]:
        for declared, _ in by_schema(rows):
            fields = self._options.fields.of(declared.fields) if declared else {}
            yield known_fields(Node(Kind.STRUCT, fields), self._columns, self._options.case_insensitive)

    def _may_move(self, new: Node) -> bool:
        """Return whether one of these new fields might get no column."""
        if not self._options.look_for_unknown:
            return bool(new.fields)
        names = self._names.copy()
        return bool(refusal(new, self._columns, names)) or not all(
            below.kind is Kind.KNOWN or fits(ColumnPath(), name, below, names, self._options.types)
            for name, below in new.fields.items()
        )

    def _moved(self, text: Any) -> tuple[str, tuple[str, ...]]:
        """Return an event with its overflow, and the names of the fields that are there."""
        event = parse_object(text)
        kept = self._kept(event, self._columns, ColumnPath(), self._names.copy())
        lost = {name: value for name, value in event.items() if kept.get(name) is not value and value is not None}
        names = tuple(f"{name} (in {self._options.overflow})" for name in lost)
        return text_of({**kept, self._options.overflow: lost} if lost else event), names

    def _kept(self, value: Any, kind: iceberg.IcebergType, path: ColumnPath, names: ColumnNames) -> Any:
        """Return a value without the fields that get no column; the same object if there are none."""
        if isinstance(kind, iceberg.StructType) and type(value) is dict:
            kept = self._kept_fields(value, kind, path, names)
        elif isinstance(kind, iceberg.ListType) and type(value) is list:
            inside = path.inside(ELEMENT)
            items = [self._kept(item, kind.element_type, inside, names) for item in value]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        elif isinstance(kind, iceberg.MapType) and type(value) is dict:
            inside = path.inside(VALUE)
            kept = {name: self._kept(item, kind.value_type, inside, names) for name, item in value.items()}
        else:
            return value
        is_same = len(kept) == len(value) and all(kept[name] is item for name, item in value.items())
        return value if is_same else kept

    def _kept_fields(
        self, value: dict[str, Any], kind: iceberg.StructType, path: ColumnPath, names: ColumnNames
    ) -> dict[str, Any]:
        columns = {field.name: field for field in kind.fields}
        by_fold = {folded(name): field for name, field in columns.items()} if self._options.case_insensitive else {}
        kept: dict[str, Any] = {}
        for name, item in value.items():
            column = columns.get(name) or by_fold.get(folded(name))
            if column is not None:
                kept[name] = self._kept(item, column.field_type, path.field(column.name), names)
            elif item is None or self._stays(name, item, path, names):
                kept[name] = item
        return kept

    def _stays(self, name: str, item: Any, path: ColumnPath, names: ColumnNames) -> bool:
        """Return whether a field without a column is not written, or can become a column."""
        if not path.steps and name not in self._options.fields:
            return True
        if not self._options.look_for_unknown:
            return False
        return fits(path, name, node_of_value(item), names, self._options.types)
