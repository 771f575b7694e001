"""Iceberg schemas with the one type that PyIceberg lacks: `variant` (Iceberg specification, version 3).

PyIceberg takes types that are objects already, so that a schema's JSON is read with `VariantType` put in where it says
`variant`; nothing of the library is changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

from pydantic import Field
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

__all__ = ["VariantType", "is_variant", "path_of", "read_schema", "read_type"]


class VariantType(iceberg.PrimitiveType):
    """A variant. PyIceberg's visitors know leaves as primitives only; for Iceberg it is none, and no key."""

    root: Literal["variant"] = Field(default="variant")

    @property
    def is_primitive(self) -> bool:
        """Always false: a variant is neither a key nor divides or sorts rows."""
        return False

    def minimum_format_version(self) -> Literal[3]:
        """Return the first version of the format that has the type."""
        return 3


@lru_cache(256)
def read_schema(text: str) -> Schema:
    """Read a schema (Iceberg specification, appendix C).

    Raises:
        ValueError: It has a type that is not known.
    """
    return Schema.model_validate(_with_variants(json.loads(text)))


def read_type(kind: Any) -> iceberg.IcebergType:
    """Read a type from its JSON value, which only a field's parser reads.

    Raises:
        ValueError: The type is not known.
    """
    field = {"id": 1, "name": "field", "required": False, "type": _with_variants(kind)}
    return iceberg.NestedField.model_validate(field).field_type


def path_of(schema: Schema, field_id: int) -> tuple[str, ...]:
    """Return the names that lead through structs to a field; a name may have dots itself, so a dotted path says less.

    Raises:
        ValueError: There is no such field, or it is inside a list or a map.
    """

    def below(fields: Iterable[iceberg.NestedField]) -> tuple[str, ...]:
        for each in fields:
            if each.field_id == field_id:
                return (each.name,)
            if isinstance(each.field_type, iceberg.StructType) and (path := below(each.field_type.fields)):
                return (each.name, *path)
        return ()

    if path := below(schema.fields):
        return path
    raise ValueError(f"no field in a struct has the id {field_id}")


def is_variant(schema: Schema, field_id: int) -> bool:
    """Return whether a field is a variant."""
    return isinstance(schema.find_type(field_id), VariantType)


_IN_SCHEMAS = ("type", "element", "value", "key")


def _with_variants(data: Any) -> Any:
    """Put the type in where JSON names it: a field may have any name, but a type only follows these keys."""
    if isinstance(data, list):
        return [_with_variants(each) for each in data]
    if not isinstance(data, dict):
        return VariantType() if data == "variant" else data
    return {
        name: _with_variants(each) if name in _IN_SCHEMAS or name == "fields" else each for name, each in data.items()
    }
