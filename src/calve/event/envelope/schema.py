"""Reads Kafka Connect's inline schemas, as far as the values and the columns of a row depend on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import msgspec

from calve import structs
from calve.event.exact_json import dump
from calve.event.reject import encodable
from calve.event.validate_json import without_half_surrogates

__all__ = ["Field", "doc_of", "field_of", "row_schema", "schema_of", "tags_of", "text_of", "with_instants"]

_PRECISION = "connect.decimal.precision"
_TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
_NESTED = ("struct", "array", "map")


@dataclass(frozen=True)
class Field:
    """A field's schema.

    Attributes:
        name: The field's name; empty for an element of an array or a map.
        kind: Connect's type: `int32`, `string`, `struct`, …; a typed source also says `date`, `timestamp`,
            `timestamptz`, `uuid`, `decimal`, `fixed` and `null`.
        logical: The logical type's name, empty if there is none.
        scale: The scale of a decimal.
        fields: The fields of a struct; the schema of the values of an array or a map, then of a map's keys if known.
        precision: The digits of a decimal, 0 if unknown; the length of a `fixed`.
        pairs: Whether JSON has a map as an array of pairs, because its keys are not strings.
        doc: What the schema says of the field's meaning, or empty.
        default: The value of a row without the field, as the text that it would have in JSON, without quotes.
        tags: What a registry's schema says of the field's contents, such as `PII`.
    """

    name: str
    kind: str
    logical: str = ""
    scale: int = 0
    fields: tuple[Field, ...] = ()
    precision: int = 0
    pairs: bool = False
    doc: str = ""
    default: str | None = None
    tags: tuple[str, ...] = ()

    @property
    def has_scalar_keys(self) -> bool:
        """Whether it is a map with pairs that can be an object: the text of each key has its meaning."""
        return self.pairs and len(self.fields) > 1 and self.fields[1].kind not in _NESTED


def row_schema(envelope: Any) -> Field | None:
    """Return the schema of the rows in an envelope, from the envelope's schema; None if it has none."""
    schema = schema_of(envelope)
    rows = (
        [field for field in schema.fields if field.name in ("after", "before") and field.kind == "struct"]
        if schema
        else []
    )
    return rows[0] if rows else None


def schema_of(schema: Any, name: str = "", has_defaults: bool = False) -> Field | None:
    """Read a schema in JSON; None if it is not a schema.

    Args:
        schema: The schema, as `exact_json` reads it.
        name: The field's name.
        has_defaults: Read defaults, as JSON; a change's row lacks a field for other reasons.
    """
    if not isinstance(schema, Mapping) or type(schema.get("type")) is not str:
        return None  # a number of `exact_json` is a str, too
    kind, nested = schema["type"], []
    if kind == "struct":
        fields = schema.get("fields")
        inside = [field for field in fields if isinstance(field, Mapping)] if isinstance(fields, list) else []
        nested = [schema_of(field, str(field.get("field")), has_defaults) for field in inside]
    elif kind == "array":
        nested = [schema_of(schema.get("items"), "", has_defaults)]
    elif kind == "map":
        nested = [schema_of(schema.get("values"), "", has_defaults)]
        if nested[0] and _has_pairs(schema) and (keys := schema_of(schema.get("keys"))) and keys.kind not in _NESTED:
            nested.append(keys)
    if kind in ("array", "map") and nested[0] is None:
        return None  # nobody knows what is inside
    logical, parameter_values = schema.get("name"), schema.get("parameters")
    logical = logical if type(logical) is str else ""
    if any(without_half_surrogates(text) != text for text in (name, kind, logical)):
        return None  # no column has such a name
    parameters: Mapping[str, Any] = parameter_values if isinstance(parameter_values, Mapping) else {}
    return Field(
        name,
        kind,
        logical,
        _small(parameters.get("scale")),
        tuple(field for field in nested if field is not None),
        _small(parameters.get(_PRECISION)),
        _has_pairs(schema),
        doc_of(schema.get("doc")),
        _default(schema.get("default")) if has_defaults else None,
    )


def _default(value: Any) -> str | None:
    """Return a default as JSON; None for null, which a missing value is anyhow, and for what UTF-8 cannot encode."""
    text = dump(value)
    return text if value is not None and without_half_surrogates(text) == text else None


def _has_pairs(schema: Mapping[str, Any]) -> bool:
    keys = schema.get("keys")
    return schema["type"] == "map" and isinstance(keys, Mapping) and keys.get("type") != "string"


@lru_cache(256)
def with_instants(field: Field) -> Field:
    """Return a schema whose timestamps of Connect are instants, as they are outside of a database's rows."""
    if field.logical == _TIMESTAMP:
        return replace(field, kind="timestamptz", logical="")
    return replace(field, fields=tuple(map(with_instants, field.fields)))


def doc_of(doc: Any) -> str:
    """Return the text that describes a field, as a column can have it; empty if it is no text."""
    return encodable(doc.strip()) if isinstance(doc, str) else ""


def tags_of(tags: Any) -> tuple[str, ...]:
    """Return the tags of a field, as a schema has them: a list of texts, or one."""
    listed = tags if isinstance(tags, list) else [tags]
    return tuple(encodable(tag) for tag in listed if isinstance(tag, str))


def text_of(field: Field) -> str:
    """Write a schema as JSON; `field_of` reads it."""
    return msgspec.json.encode(field).decode()


def field_of(text: str) -> Field:
    """Read the result of `text_of`."""
    return structs.decode(text, Field)


def _small(number: Any) -> int:
    text = str(number)
    return int(text) if len(text) < 6 and text.removeprefix("-").isdecimal() else 0
