"""The format `json_schema`: JSON after the registry's header, and the types of its fields from a JSON Schema.

The values are read as any JSON: strictly, and exactly as the table's columns say. The schema declares the columns of
new tables and new fields (https://json-schema.org, drafts 4 to 2020-12, as far as it describes types).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from calve.arrays import pack_texts, text_buffers
from calve.event.envelope.schema import Field, doc_of, text_of
from calve.serde.format import Decoded, Part, Plan, UnsupportedSchemaError, WriterSchema

__all__ = ["FORMAT"]

_KINDS = {"boolean": "boolean", "integer": "int64", "number": "double", "string": "string", "null": "null"}
_FORMATS = {"date-time": "timestamptz", "date": "date", "uuid": "uuid"}
_DEEPEST = 64


class _JsonPlan:
    """Takes the text of values, with the declaration of a schema.

    Args:
        declaration: The types of the fields.
    """

    def __init__(self, declaration: str) -> None:
        self._declaration = declaration

    def decode(self, values: pa.Array, start: int) -> Decoded:
        """Return the values without their first bytes; see `calve.serde.format.Plan`."""
        at = np.arange(len(values), dtype=np.int64)
        return Decoded([Part(at, _without_header(values, start), self._declaration)], [])


def _without_header(values: pa.Array, start: int) -> pa.Array:
    """Cut the first bytes off, with one copy of all bytes."""
    if not start or not len(values):
        return values.cast(pa.binary())
    offsets, data = text_buffers(values)
    first, last = int(offsets[0]), int(offsets[-1])
    keep = np.ones(last - first, bool)
    for number in range(start):
        keep[offsets[:-1] - first + number] = False
    texts = np.frombuffer(data, np.uint8)[first:last][keep].tobytes()
    ends = offsets - first - start * np.arange(len(offsets))
    return pack_texts(ends.astype(np.int32), texts)


class _JsonSchema:
    def plan(
        self, schema: WriterSchema, reader: WriterSchema | None, earlier: Callable[[], Sequence[WriterSchema]]
    ) -> Plan:
        chosen = reader or schema
        try:
            documents = {name: json.loads(one.text) for name, one in chosen.references}
            field = _Reader(json.loads(chosen.text), documents).root()
        except (ValueError, RecursionError):
            raise UnsupportedSchemaError("it is not JSON") from None
        return _JsonPlan(text_of(field))


class _Reader:
    def __init__(self, document: Any, others: Mapping[str, Any]) -> None:
        self._document = document
        self._others = others
        self._open: list[str] = []

    def root(self) -> Field:
        found = self._field("", self._document, self._document)
        if found.kind != "struct":
            raise UnsupportedSchemaError("its values are not objects with properties, so they are no rows")
        return found

    def _field(self, name: str, schema: Any, document: Any) -> Field:
        """Return the declaration of a value; what a schema leaves open is a string, which holds any JSON."""
        if not isinstance(schema, Mapping) or len(self._open) > _DEEPEST:
            return Field(name, "string")
        found, doc = self._typed(name, schema, document), doc_of(schema.get("description"))
        return replace(found, doc=doc) if doc else found

    def _typed(self, name: str, schema: Mapping[str, Any], document: Any) -> Field:
        if isinstance(reference := schema.get("$ref"), str):
            return self._referred(name, reference, document)
        for key in ("oneOf", "anyOf"):
            if isinstance(branches := schema.get(key), list):
                valued = [one for one in branches if not (isinstance(one, Mapping) and one.get("type") == "null")]
                return self._field(name, valued[0], document) if len(valued) == 1 else Field(name, "string")
        types = schema.get("type")
        types = [types] if isinstance(types, str) else types if isinstance(types, list) else []
        types = [each for each in types if each != "null"] or types
        kind = types[0] if len(types) == 1 else "object" if not types and "properties" in schema else ""
        if set(types) == {"integer", "number"}:
            kind = "number"
        match kind:
            case "object":
                return self._object(name, schema, document)
            case "array":
                return Field(name, "array", fields=(self._field("", schema.get("items"), document),))
            case "string":
                return Field(name, _FORMATS.get(str(schema.get("format")), "string"))
        return Field(name, _KINDS.get(kind, "string"))

    def _object(self, name: str, schema: Mapping[str, Any], document: Any) -> Field:
        """Return a struct of the properties; a map if there are none, but a schema for all others."""
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        if isinstance(properties, Mapping) and properties:
            fields = (self._field(key, each, document) for key, each in properties.items())
            return Field(name, "struct", fields=tuple(fields))
        if isinstance(others, Mapping) and others:
            return Field(name, "map", fields=(self._field("", others, document),))
        return Field(name, "string")

    def _referred(self, name: str, reference: str, document: Any) -> Field:
        place, _, pointer = reference.partition("#")
        target = document if not place else self._others.get(place)
        for step in pointer.split("/")[1:]:
            key = unquote(step).replace("~1", "/").replace("~0", "~")
            target = target.get(key) if isinstance(target, Mapping) else None
        if target is None:
            raise UnsupportedSchemaError(f"it has no {reference}")
        if reference in self._open:
            raise UnsupportedSchemaError(f"{reference} contains itself, and a table has no recursive columns")
        self._open.append(reference)
        found = self._field(name, target, self._others.get(place, document) if place else document)
        self._open.pop()
        return found


FORMAT = _JsonSchema()
