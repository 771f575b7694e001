"""The defaults of columns that a mirror gets from its source: what rows that are there already have in them.

Columns that the mirror has keep their own defaults, as its rows have their values. `initial-default` needs format
version 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calve.table.defaults import INITIAL

__all__ = ["new_defaults"]


def new_defaults(fields: list[dict[str, Any]], had: Mapping[str, str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return fields whose defaults are those of columns that a table does not have, and these defaults by name."""
    defaults: dict[str, Any] = {}
    return [_new(field, (), had, defaults) for field in fields], defaults


def _new(
    field: dict[str, Any], path: tuple[str, ...], had: Mapping[str, str], defaults: dict[str, Any]
) -> dict[str, Any]:
    path = (*path, field["name"])
    new = {**field, "type": _new_below(field["type"], path, had, defaults)}
    name = ".".join(path)
    if INITIAL in field and name in had:
        del new[INITIAL]
    elif INITIAL in field:
        defaults[name] = field[INITIAL]
    return new


def _new_below(kind: Any, path: tuple[str, ...], had: Mapping[str, str], defaults: dict[str, Any]) -> Any:
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return {**kind, "fields": [_new(field, path, had, defaults) for field in kind["fields"]]}
    below = "element" if kind["type"] == "list" else "value"
    return {**kind, below: _new_below(kind[below], (*path, below), had, defaults)}
