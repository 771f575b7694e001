"""Iceberg schemas with the one type that PyIceberg lacks: `variant` (Iceberg specification, version 3).

It also does not read `geometry` and `geography` as Iceberg's Java writes them, without quotes around their parameters.

PyIceberg accepts types that are objects already: `read_schema` puts a `VariantType` into the JSON wherever it says
`variant`. The library is not patched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

__all__ = ["VariantType", "is_variant", "names_by_id", "path_of", "read_schema", "read_type", "with_variants"]


class VariantType(iceberg.PrimitiveType):
    """A variant. It extends the primitive type because PyIceberg's visitors accept no other leaves."""

    root: Literal["variant"] = Field(default="variant")

    @property
    def is_primitive(self) -> bool:
        """Always false: a variant cannot be a key, a partition source or a sort column."""
        return False

    def minimum_format_version(self) -> Literal[3]:
        """Return the first format version with the type."""
        return 3


@lru_cache(256)
def read_schema(text: str) -> Schema:
    """Read a schema (Iceberg specification, appendix C).

    Raises:
        ValueError: It has an unknown type.
    """
    return Schema.model_validate(with_variants(json.loads(text)))


def read_type(kind: Any) -> iceberg.IcebergType:
    """Read a type from its JSON value, through the parser of a field.

    Raises:
        ValueError: The type is unknown.
    """
    field = {"id": 1, "name": "field", "required": False, "type": with_variants(kind)}
    return iceberg.NestedField.model_validate(field).field_type


def names_by_id(text: str) -> dict[str, str]:
    """Return the dotted names of all columns of a schema, at any depth, by field id (as JSON has keys: as text)."""
    schema = read_schema(text)
    numbers = sorted(schema.find_field(name).field_id for name in schema.column_names)
    return {str(number): schema.find_column_name(number) or "" for number in numbers}


def path_of(schema: Schema, field_id: int) -> tuple[str, ...]:
    """Return the path of names through structs to a field; a dotted name is ambiguous, because names may contain dots.

    Raises:
        ValueError: There is no such field, or it is inside a list or a map.
    """

    def below(fields: Iterable[iceberg.NestedField]) -> tuple[str, ...]:
        for field in fields:
            if field.field_id == field_id:
                return (field.name,)
            if isinstance(field.field_type, iceberg.StructType) and (path := below(field.field_type.fields)):
                return (field.name, *path)
        return ()

    if path := below(schema.fields):
        return path
    raise ValueError(f"no field in a struct has the id {field_id}")


def is_variant(schema: Schema, field_id: int) -> bool:
    """Return whether a field is a variant."""
    return isinstance(schema.find_type(field_id), VariantType)


_PLACE = re.compile(r"(geometry|geography)(?:\((.*)\))?")
_IN_SCHEMAS = ("type", "element", "value", "key")
_AROUND_SCHEMAS = ("fields", "schema", "schemas", "metadata")


def with_variants(data: Any, is_for_reading: bool = False) -> Any:
    """Replace types that PyIceberg does not parse, or does not read, in parsed JSON.

    Args:
        data: A type, a schema, the metadata of a table, or what a catalog answers. A type is only after some keys,
            because a field may have any name.
        is_for_reading: Whether a variant becomes a text, and a place bytes, instead of types of their own.
    """
    if isinstance(data, list):
        return [with_variants(inner, is_for_reading) for inner in data]
    if isinstance(data, str):
        return _known_type(data, is_for_reading)
    if not isinstance(data, dict):
        return data
    return {
        name: with_variants(inner, is_for_reading) if name in _IN_SCHEMAS or name in _AROUND_SCHEMAS else inner
        for name, inner in data.items()
    }


def _known_type(text: str, is_for_reading: bool) -> Any:
    if text == "variant":
        return "string" if is_for_reading else VariantType()
    place = _PLACE.fullmatch(text)
    if place and is_for_reading:
        return "binary"
    if place and place[2] and not set("'\"") & set(place[2]):
        parameters = ", ".join(f"'{word.strip()}'" for word in place[2].split(","))
        return f"{place[1]}({parameters})"
    return text
