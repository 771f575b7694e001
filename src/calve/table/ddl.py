"""Writes tables and columns as Spark SQL, to show or to run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.expression.sql import spark_name, spark_text
from calve.table.definition import PartitionField
from calve.table.kinds import primitive
from calve.table.schema import read_type

__all__ = ["add_columns", "create_table", "set_identifier_fields", "type_sql", "widen_column", "write_ordered_by"]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_DEFAULT = "write-default"
_PLURALS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


def create_table(
    identifier: str,
    schema: Schema,
    partition_fields: Sequence[PartitionField] = (),
    properties: Mapping[str, str] | None = None,
    location: str | None = None,
) -> str:
    """Return the statement that creates a table; `identifier` begins with the catalog's name."""
    columns = [f"  {_name(field.name)} {type_sql(field.field_type)}{_constraint(field)}" for field in schema.fields]
    clauses = [
        *_note(_defaults(json.loads(schema.model_dump_json()), ())),
        f"CREATE TABLE {_dotted(identifier)} (",
        ",\n".join(columns),
        ") USING iceberg",
    ]
    if partition_fields:
        clauses.append(
            f"PARTITIONED BY ({', '.join(_partition(*partition_field) for partition_field in partition_fields)})"
        )
    if location:
        clauses.append(f"LOCATION {spark_text(location)}")
    if properties:
        pairs = ", ".join(f"{spark_text(key)} = {spark_text(value)}" for key, value in properties.items())
        clauses.append(f"TBLPROPERTIES ({pairs})")
    return "\n".join(clauses) + ";"


def set_identifier_fields(identifier: str, schema: Schema) -> str:
    """Return the statement that sets a table's identifier fields; empty if the schema has none."""
    names = sorted(schema.identifier_field_names())
    keys = ", ".join(".".join(map(_name, name.split("."))) for name in names)
    return f"ALTER TABLE {_dotted(identifier)} SET IDENTIFIER FIELDS {keys};" if keys else ""


def write_ordered_by(identifier: str, sort_fields: Sequence[tuple[str, str]]) -> str:
    """Return the statement that sets a table's sort order; empty for none."""
    order = ", ".join(f"{'.'.join(map(_name, name.split('.')))} {way.upper()}" for name, way in sort_fields)
    return f"ALTER TABLE {_dotted(identifier)} WRITE LOCALLY ORDERED BY {order};" if order else ""


def add_columns(identifier: str, added: Sequence[tuple[Sequence[str], str, Any, str, Any]]) -> str:
    """Return the statement that adds columns: the path of the struct, name, type in JSON, doc and default of each."""
    columns = [
        f"  {'.'.join(map(_name, (*parent, name)))} {type_sql(read_type(kind))}{_comment(doc)}"
        for parent, name, kind, doc, _ in added
    ]
    fields = [{"name": name, "type": kind, _DEFAULT: default} for _, name, kind, _, default in added]
    defaults = [
        default
        for (parent, *_), field in zip(added, fields, strict=True)
        for default in _defaults({"type": "struct", "fields": [field]}, tuple(parent))
    ]
    return "\n".join([*_note(defaults), f"ALTER TABLE {_dotted(identifier)} ADD COLUMNS (", ",\n".join(columns), ");"])


def widen_column(identifier: str, name: str, kind: str) -> str:
    """Return the statement that widens a column (dotted name) to a type in Iceberg's text."""
    return f"ALTER TABLE {_dotted(identifier)} ALTER COLUMN {_dotted(name)} TYPE {type_sql(read_type(kind))};"


def type_sql(kind: iceberg.IcebergType) -> str:
    """Return a type as Spark SQL writes it."""
    match kind:
        case iceberg.StructType():
            fields = [f"{_name(field.name)}: {type_sql(field.field_type)}{_constraint(field)}" for field in kind.fields]
            return f"struct<{', '.join(fields)}>"
        case iceberg.ListType():
            return f"array<{type_sql(kind.element_type)}>"
        case iceberg.MapType():
            return f"map<{type_sql(kind.key_type)}, {type_sql(kind.value_type)}>"
    row = primitive(kind)
    return str(kind).replace(row.word, row.spark, 1)


def _partition(column: str, transform: str) -> str:
    kind, _, width = transform.partition("[")
    if width:
        return f"{kind}({width.rstrip(']')}, {_dotted(column)})"
    return _dotted(column) if kind == "identity" else f"{_PLURALS.get(kind, kind)}({_dotted(column)})"


def _constraint(field: iceberg.NestedField) -> str:
    return f"{' NOT NULL' if field.required else ''}{_comment(field.doc)}"


def _defaults(kind: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Yield the defaults in a type, in the JSON of Iceberg's schemas, with the names of their columns."""
    if not isinstance(kind, dict):
        return
    for below in ("element", "value"):
        yield from _defaults(kind.get(below), (*path, below))
    for field in kind.get("fields", ()):
        inner = (*path, field["name"])
        value = field.get(_DEFAULT)
        if value is not None:
            yield f"{'.'.join(map(_name, inner))} {spark_text(value) if isinstance(value, str) else json.dumps(value)}"
        yield from _defaults(field["type"], inner)


def _note(defaults: Iterable[str]) -> list[str]:
    listed = ", ".join(defaults)
    return [f"-- Calve also sets defaults, for which Iceberg has no Spark SQL: {listed}"] if listed else []


def _comment(doc: str | None) -> str:
    return f" COMMENT {spark_text(doc)}" if doc else ""


def _dotted(path: str) -> str:
    return ".".join(map(_name, path.split(".")))


def _name(name: str) -> str:
    if _PLAIN(name):
        return name
    printable = "".join(char if char.isprintable() else repr(char)[1:-1] for char in name)
    return spark_name(printable)
