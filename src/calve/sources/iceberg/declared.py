"""Declares the fields of an Iceberg table's rows, from its schema."""

from __future__ import annotations

import json
import re
from typing import Any

from calve.event.envelope.schema import Field, text_of

__all__ = ["declaration"]

_KINDS = {
    "int": "int32",
    "long": "int64",
    "binary": "bytes",
    **{kind: kind for kind in ("boolean", "float", "double", "string", "date", "timestamp", "timestamptz", "uuid")},
    "unknown": "null",
}
"""Iceberg's types; all others become text, because Spark, which reads the rows, has no `time` and no nanoseconds."""
_SIZED = re.compile(r"(decimal|fixed)[(\[]([0-9]+)(?:, *([0-9]+))?[)\]]").fullmatch


def declaration(schema_json: str) -> str:
    """Return the text for the column `_schema` of rows of a table with this schema."""
    return text_of(_field("", json.loads(schema_json)))


def _field(name: str, kind: Any) -> Field:
    if isinstance(kind, str):
        sized = _SIZED(kind)
        if sized:
            return Field(name, sized[1], scale=int(sized[3] or 0), precision=int(sized[2]))
        return Field(name, _KINDS.get(kind, "string"))
    match kind["type"]:
        case "struct":
            return Field(
                name, "struct", fields=tuple(_field(member["name"], member["type"]) for member in kind["fields"])
            )
        case "list":
            return Field(name, "array", fields=(_field("", kind["element"]),))
    return Field(name, "map", fields=(_field("", kind["value"]), _field("", kind["key"])))
