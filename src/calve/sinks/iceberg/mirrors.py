"""The source tables that a sink's tables mirror: their columns are used instead of inferred ones."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, StructType

from calve.columns.declared_types import ColumnTypes
from calve.columns.fields import ALL_FIELDS, Fields
from calve.commit.mirror_schema import noted
from calve.event.column_names import ColumnNames, type_faults
from calve.reduce.key import Key
from calve.route.by_table import ByTable
from calve.sources.source import SourceTable
from calve.table.defaults import INITIAL, without_defaults
from calve.table.kinds import primitive
from calve.table.loaded import Absent, Draft, Table
from calve.table.schema import read_schema

__all__ = ["NONE", "Mirrors"]

_KEPT = ("integer", "string", "uuid")
"""Values of keys whose different values are different in a table, too; a number's digits may be cut, for example."""
_HISTORY, _FULL_ROWS = {"calve.history": "true"}, {"calve.full-rows": "true"}
"""The property of tables that get a row for each change: dead letters that are sent again know nothing else of them."""
TypeOf = Callable[[Sequence[str]], IcebergType | None]


class Mirrors:
    """The source tables of each table of a sink in the current batch (driver, one thread).

    Args:
        fields: The fields that the sink writes.
        types: Types of columns that override those of the source, by target.
    """

    def __init__(self, fields: Fields = ALL_FIELDS, types: ByTable[ColumnTypes] | None = None) -> None:
        self._fields = fields
        self._types = types or ByTable(ColumnTypes())
        self._sources: dict[str, list[SourceTable]] = {}
        self._whole: dict[str, str] = {}
        self._has_all = False

    def set(self, tables: Iterable[SourceTable], names: Mapping[str, str]) -> None:
        """Set the source tables of a batch, and the names of their targets."""
        self._sources, tables = {}, list(tables)
        for table in tables:
            if table.name in names:
                self._sources.setdefault(names[table.name], []).append(self._narrowed(table, names[table.name]))
        self._whole = {table.name: table.schema_json for table in tables}
        self._has_all = bool(tables) and self._whole.keys() <= names.keys()

    def names(self) -> list[str]:
        """Return the names of the sink's mirrors."""
        return list(self._sources)

    def of(self, name: str) -> list[SourceTable]:
        """Return the source tables of a table."""
        return self._sources.get(name, [])

    def is_history(self, table: Table) -> bool:
        """Return whether the rows of a table are changes of its source tables, which are only appended."""
        if table.schema.identifier_field_ids:
            return False
        histories = [source.is_history for source in self.of(table.identifier)]
        return all(histories) if histories else _HISTORY.items() <= table.properties.items()

    def has_full_rows(self, table: Table) -> bool:
        """Return whether rows of a table without a key are found by all their columns, as those of its source."""
        if table.schema.identifier_field_ids or _HISTORY.items() <= table.properties.items():
            return False
        sources = self.of(table.identifier)
        is_marked = _FULL_ROWS.items() <= table.properties.items()
        return all(source.has_full_rows for source in sources) if sources else is_marked

    def marks(self, name: str) -> dict[str, str]:
        """Return the properties of a new mirror: what it is created from, and what becomes of changes without a key."""
        source = self.of(name)[0]
        more = (_HISTORY if source.is_history else {}) | (_FULL_ROWS if source.has_full_rows else {})
        return dict([noted(source)]) | more

    def schema(self, name: str) -> Schema | None:
        """Return the schema of a new mirror; None if the table is not a mirror."""
        sources = self.of(name)
        if not sources:
            return None
        return read_schema(json.dumps(without_defaults(json.loads(sources[0].schema_json))))  # its rows have all values

    def names_fault(self, name: str) -> str:
        """Return why readers could not distinguish the columns of a new mirror; empty if they can."""
        columns = read_schema(self.of(name)[0].schema_json).as_struct()
        faults = type_faults(columns, ColumnNames(StructType(), limit=sys.maxsize))
        return next((f"the column {column} of its source is not possible: {fault}" for column, fault in faults), "")

    def key_fault(self, name: str, key: Key) -> str:
        """Return why the changes of a table's sources cannot be applied by its key; empty if they can."""
        for source in self.of(name):
            keys = read_schema(source.schema_json).identifier_field_names()
            if source.is_history:
                return f"{name} has a key, and each change of {source.name} is to be a row of it: drop it, or its key"
            if source.has_full_rows:
                return f"{name} has a key, and its source {source.name} has none: drop it, or its key"
            if keys and keys != set(key.names):
                theirs, own = ", ".join(sorted(keys)), ", ".join(key.names)
                return (
                    f"the key of the table {name} is {own}, but that of its source {source.name} is {theirs}: set its "
                    "identifier fields or identifier_columns, or drop the table, so that it is created again"
                )
        return ""

    def preserve_source_keys(self, tables: Mapping[str, Table | Absent | Draft], columns: ByTable[list[str]]) -> bool:
        """Return whether rows that differ in the key of their source table differ in that of their target, too.

        Args:
            tables: The sink's known tables.
            columns: The columns of their keys, by table; empty: its identifier fields.
        """
        return self._has_all and all(
            len(sources) == 1 and self._keeps_key(sources[0], tables.get(name), columns.of(name))
            for name, sources in self._sources.items()
        )

    def _keeps_key(self, source: SourceTable, table: Table | Absent | Draft | None, columns: Sequence[str]) -> bool:
        if not isinstance(table, Table):
            return True  # nothing is written
        names = read_schema(source.schema_json).identifier_field_names()
        whole, schema = read_schema(self._whole[source.name]), table.schema
        return bool(names) and all(
            name in Key(table, columns).names
            and primitive(kind := whole.find_type(name)).json in _KEPT
            and kind == schema.find_type(name)
            for name in names
        )

    def _narrowed(self, table: SourceTable, target: str) -> SourceTable:
        whole: dict[str, Any] = json.loads(table.schema_json)
        fields = [field for field in without_defaults(whole["fields"], [INITIAL]) if field["name"] in self._fields]
        ids = _numbers(fields)
        next_id = itertools.count(max(ids, default=0) + 1).__next__
        fields = [
            _typed(field, (field["name"],), partial(self._types.of(target).of, next_id=next_id)) for field in fields
        ]
        key = whole.get("identifier-field-ids", [])
        key = key if ids.issuperset(key) else []  # a part of a key identifies no row
        narrowed = {"type": "struct", "schema-id": 0, "fields": fields, "identifier-field-ids": key}
        text = json.dumps(narrowed, separators=(",", ":"))
        return SourceTable(table.name, table.uuid, text, None, table.is_history, table.has_full_rows)


def _typed(field: dict[str, Any], path: tuple[str, ...], type_of: TypeOf) -> dict[str, Any]:
    """Return a field with the types that the settings have for it and its nested fields."""
    given = type_of(path)
    if given is not None:
        return {**field, "type": json.loads(given.model_dump_json())}
    return {**field, "type": _typed_below(field["type"], path, type_of)}


def _typed_below(kind: Any, path: tuple[str, ...], type_of: TypeOf) -> Any:
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return {**kind, "fields": [_typed(field, (*path, field["name"]), type_of) for field in kind["fields"]]}
    below = "element" if kind["type"] == "list" else "value"
    return {**kind, below: _typed({"type": kind[below]}, (*path, below), type_of)["type"]}


def _numbers(kind: Any) -> set[int]:
    """Return the ids of all fields, at any depth."""
    if isinstance(kind, list):
        return set().union(*map(_numbers, kind))
    if not isinstance(kind, dict):
        return set()
    own = {kind["id"]} if "id" in kind else set()
    return own.union(*map(_numbers, kind.values()))


NONE = Mirrors()
"""No mirrors."""
