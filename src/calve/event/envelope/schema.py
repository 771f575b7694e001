"""Kafka Connect's inline schemas, as far as a row's values and the columns that they need depend on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from calve.event.validate_json import without_half_surrogates

__all__ = ["Field", "field_of", "row_schema", "schema_of", "text_of"]

_PRECISION = "connect.decimal.precision"


@dataclass(frozen=True)
class Field:
    """A field's schema.

    Attributes:
        name: The field's name; empty for an element of an array or a map.
        kind: Connect's type: `int32`, `string`, `struct`, …; a typed source also says `date`, `timestamp`,
            `timestamptz`, `uuid`, `decimal`, `fixed` and `null`.
        logical: The logical type's name, empty if there is none.
        scale: The scale of a decimal.
        fields: The fields of a struct; the values' schema of an array or a map, then that of the map's keys if known.
        precision: The digits of a decimal, 0 where they are not told; the length of a `fixed`.
        pairs: Whether JSON has a map as an array of pairs, because its keys are no strings.
    """

    name: str
    kind: str
    logical: str = ""
    scale: int = 0
    fields: tuple[Field, ...] = ()
    precision: int = 0
    pairs: bool = False


def row_schema(envelope: Any) -> Field | None:
    """Return the schema of the rows in an envelope, from the envelope's schema; None where it does not tell."""
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
    logical, given = schema.get("name"), schema.get("parameters")
    logical = logical if isinstance(logical, str) else ""
    if any(without_half_surrogates(text) != text for text in (name, kind, logical)):
        return None  # no column has such a name
    parameters: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    keys = schema.get("keys")
    return Field(
        name,
        kind,
        logical,
        _small(parameters.get("scale")),
        tuple(part for part in parts if part is not None),
        _small(parameters.get(_PRECISION)),
        kind == "map" and isinstance(keys, Mapping) and keys.get("type") != "string",
    )


def text_of(field: Field) -> str:
    """Write a schema as JSON; `field_of` is the way back."""
    return msgspec.json.encode(field).decode()


def field_of(text: str) -> Field:
    """Read what `text_of` gave."""
    return msgspec.json.decode(text, type=Field)


def _small(number: Any) -> int:
    text = str(number)
    return int(text) if len(text) < 6 and text.removeprefix("-").isdecimal() else 0
