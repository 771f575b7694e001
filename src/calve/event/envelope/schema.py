"""Kafka Connect's inline schemas, as far as a row's values depend on them: which fields have a logical type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Field", "row_schema", "schema_of"]


@dataclass(frozen=True)
class Field:
    """A field's schema.

    Attributes:
        name: The field's name; empty for an element of an array or a map.
        kind: Connect's type: `int32`, `string`, `struct`, …
        logical: The logical type's name, empty if there is none.
        scale: The scale of a `Decimal`.
        fields: The fields of a struct, or the values' schema of an array or a map.
    """

    name: str
    kind: str
    logical: str = ""
    scale: int = 0
    fields: tuple[Field, ...] = ()


def row_schema(envelope: Any) -> Field | None:
    """Give the schema of the rows in an envelope, from the envelope's schema; None where it does not tell."""
    found = schema_of(envelope)
    rows = (
        [each for each in found.fields if each.name in ("after", "before") and each.kind == "struct"] if found else []
    )
    return rows[0] if rows else None


def schema_of(schema: Any, name: str = "") -> Field | None:
    """Read a schema in JSON; None for what is none."""
    if not isinstance(schema, Mapping) or not isinstance(schema.get("type"), str):
        return None
    kind, parts = schema["type"], []
    if kind == "struct":
        given = schema.get("fields")
        inside = [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []
        parts = [schema_of(each, str(each.get("field"))) for each in inside]
    elif kind == "array":
        parts = [schema_of(schema.get("items"))]
    elif kind == "map":
        parts = [schema_of(schema.get("values"))]
    logical, parameters = schema.get("name"), schema.get("parameters")
    scale = str(parameters.get("scale", 0)) if isinstance(parameters, Mapping) else "0"
    return Field(
        name,
        kind,
        logical if isinstance(logical, str) else "",
        int(scale) if len(scale) < 6 and scale.removeprefix("-").isdecimal() else 0,
        tuple(part for part in parts if part is not None),
    )
