"""Adds planned columns to a table in memory, to see which events it could then hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from calve.columns.evolve import Evolution, NewColumn
from calve.table.loaded import Table

__all__ = ["evolved"]


def evolved(table: Table, evolution: Evolution) -> tuple[Table, list[NewColumn]]:
    """Return a table with planned columns, and those that it lacked; its catalog knows nothing of it."""
    schema: dict[str, Any] = json.loads(table.schema_json)
    ids = iter(range(table.schema.highest_field_id + 1, 2**31))
    added: list[NewColumn] = []
    for new in evolution.add:
        fields = _struct(schema, new.path)["fields"]
        if all(field["name"] != new.name for field in fields):
            column = {"id": next(ids), "name": new.name, "required": False, "type": _numbered(new.kind, ids)}
            column |= {} if new.default is None else {"initial-default": new.default, "write-default": new.default}
            fields.append({**column, "doc": new.doc} if new.doc else column)
            added.append(new)
    for column in schema["fields"]:
        column["required"] = column["required"] and column["name"] not in evolution.free
    widened = _widened(schema, "", dict(evolution.widen))
    return replace(table, schema_json=json.dumps(widened)), added


def _widened(kind: Any, path: str, wider: Mapping[str, str]) -> Any:
    """Return a type in JSON, with the wider types of some columns (dotted names)."""
    if not isinstance(kind, dict):
        return wider.get(path.lstrip("."), kind)
    if kind["type"] == "struct":
        fields = [
            field | {"type": _widened(field["type"], f"{path}.{field['name']}", wider)} for field in kind["fields"]
        ]
        return kind | {"fields": fields}
    nested = "element" if kind["type"] == "list" else "value"
    return kind | {nested: _widened(kind[nested], f"{path}.{nested}", wider)}


def _struct(schema: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return the struct at a path; `element` and `value` are the names below lists and maps."""
    kind = schema
    for step in path:
        if kind["type"] == "struct":
            kind = next(field["type"] for field in kind["fields"] if field["name"] == step)
        else:
            kind = kind[step]
    return kind


def _numbered(kind: Any, ids: Iterator[int]) -> Any:
    """Return a type in JSON with new ids for its nested fields."""
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return kind | {
            "fields": [field | {"id": next(ids), "type": _numbered(field["type"], ids)} for field in kind["fields"]]
        }
    nested = "element" if kind["type"] == "list" else "value"
    renumbered = {key: next(ids) for key in kind if key.endswith("-id")}
    return kind | renumbered | {nested: _numbered(kind[nested], ids)}
