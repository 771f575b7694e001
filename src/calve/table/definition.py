"""A table as its YAML defines it: `schema.columns` and partition specs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pyiceberg import transforms
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.errors import SettingsError
from calve.table.kinds import Limit, primitive
from calve.table.type_text import declared

__all__ = ["ALLOWED_TRANSFORMS", "PartitionField", "partition_spec_fields", "schema_from_columns", "sort_fields"]

PartitionField = tuple[str, str]
"""A column and its transform in Iceberg's text, e.g. `("id", "bucket[16]")`."""
ALLOWED_TRANSFORMS = ("identity", "year", "month", "day", "hour", "bucket[N]", "truncate[W]", "void")
_PLURALS = {"years": "year", "months": "month", "days": "day", "hours": "hour"}
_PLAIN = ("identity", "year", "month", "day", "hour", "void")
_SIZED = re.compile(r"(bucket|truncate)\s*[\[(]\s*([0-9]+)\s*[\])]").fullmatch
_CALL = re.compile(r"(\w+)\s*\(\s*(?:([0-9]+)\s*,\s*)?([^,()]+?)\s*(?:,\s*([0-9]+)\s*)?\)").fullmatch


def schema_from_columns(columns: Iterable[Mapping[str, Any]]) -> Schema:
    """Build a schema from `[{name, type, required}]`; `type` may be nested, or have a default.

    Raises:
        SettingsError: A name is missing or duplicate, or a type cannot be read.
    """
    columns = list(columns)
    nested_ids = itertools.count(len(columns) + 1)
    fields: list[iceberg.NestedField] = []
    for number, column in enumerate(columns, 1):
        name = str(column.get("name") or "")
        if not name or any(field.name == name for field in fields):
            problem = f"the name {name!r} appears twice" if name else f"column {number} has no name"
            raise SettingsError(f"schema.columns cannot be read: {problem}", step="settings")
        kind, default = declared(str(column.get("type") or ""), nested_ids.__next__)
        fields.append(
            iceberg.NestedField(
                number,
                name,
                kind,
                required=bool(column.get("required", False)),
                initial_default=default,
                write_default=default,
            )
        )
    return Schema(*fields)


def partition_spec_fields(
    entries: Iterable[str | Mapping[str, Any]], schema: Schema | None = None
) -> list[PartitionField]:
    """Read a partition spec, and check it against a schema if there is one.

    Args:
        entries: `{column, transform}`, or texts like `day(ts)`, `bucket(16, id)`, `truncate(name, 4)`, or a column.
        schema: The table's schema; `column` may be a dotted path into structs.

    Raises:
        SettingsError: The message lists what is allowed.
    """
    fields: list[PartitionField] = []
    for entry in entries:
        column, transform = _from_text(entry) if isinstance(entry, str) else _from_entry(entry)
        if (column, transform) in fields:
            raise _error(entry, "it appears twice")
        if schema is not None:
            _check(entry, column, transform, schema)
        fields.append((column, transform))
    return fields


def sort_fields(entries: Iterable[str]) -> list[tuple[str, str]]:
    """Read a sort order, texts like `region` and `at desc`: columns with `asc` or `desc`."""
    parts = [entry.split() for entry in entries]
    return [(words[0], words[1].lower() if len(words) > 1 else "asc") for words in parts]


def _from_entry(entry: Mapping[str, Any]) -> PartitionField:
    column = str(entry.get("column") or "").strip()
    if not column:
        raise _error(dict(entry), "it has no `column`")
    return column, _transform(entry, str(entry.get("transform") or "identity"))


def _from_text(text: str) -> PartitionField:
    call = _CALL(text.strip())
    if call is None:
        if not text.strip() or set("()[],") & set(text):
            raise _error(text, "it is neither a column nor transform(column)")
        return text.strip(), "identity"
    name, before, column, after = call.groups()
    size = before or after
    return column, _transform(text, f"{name}[{size}]" if size else name)


def _transform(entry: object, text: str) -> str:
    name = text.strip().lower()
    name = _PLURALS.get(name, name)
    if name in _PLAIN:
        return name
    sized = _SIZED(name)
    if sized is None or not 0 < int(sized[2]) < 2**31:
        raise _error(entry, f"{text!r} is not a transform")
    return f"{sized[1]}[{int(sized[2])}]"


def _check(entry: object, column: str, transform: str, schema: Schema) -> None:
    try:
        kind = schema.find_type(column)
    except ValueError:
        names = ", ".join(schema.column_names[:20])
        raise _error(entry, f"the table has no column {column!r} (columns: {names})") from None
    if not kind.is_primitive or not transforms.parse_transform(transform).can_transform(kind):
        raise _error(entry, f"{transform} cannot be used on a column of type {kind}")
    if transform == "identity" and Limit.NO_IDENTITY in primitive(kind).limits:
        why = "PyIceberg, iceberg-rust and DuckDB cannot read tables that are partitioned by its values"
        raise _error(entry, f"{column} is a {kind}: {why}; use bucket[N], or make the column binary")


def _error(entry: object, problem: str) -> SettingsError:
    hint = f"Allowed: {', '.join(ALLOWED_TRANSFORMS)}, as {{column: ts, transform: day}} or day(ts), bucket(16, id)"
    return SettingsError(f"The partition field {entry!r} cannot be used: {problem}", step="settings", hint=hint)
