"""Declares the fields of an Iceberg table's rows, from its schema."""

from __future__ import annotations

import json
import re
from typing import Any

from calve.event.envelope.schema import Field, text_of
from calve.table.kinds import named

__all__ = ["declaration"]

_SIZED = re.compile(r"(?:decimal|fixed)[(\[]([0-9]+)(?:, *([0-9]+))?[)\]]").fullmatch


def declaration(schema_json: str) -> str:
    """Return the text for the column `_schema` of rows of a table with this schema."""
    return text_of(_field("", json.loads(schema_json)))


def _field(name: str, kind: Any) -> Field:
    if isinstance(kind, str):
        precision, scale = sized.groups() if (sized := _SIZED(kind)) else (0, 0)
        return Field(name, named(kind).field, scale=int(scale or 0), precision=int(precision))
    match kind["type"]:
        case "struct":
            return Field(
                name, "struct", fields=tuple(_field(member["name"], member["type"]) for member in kind["fields"])
            )
        case "list":
            return Field(name, "array", fields=(_field("", kind["element"]),))
    return Field(name, "map", fields=(_field("", kind["value"]), _field("", kind["key"])))
