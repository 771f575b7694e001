"""Reads the types of fields from a JSON Schema (drafts 4 to 2020-12): what all schemas that hold for a value say.

`$ref` and `allOf` add to what a schema says itself, and so does a union of one schema and null. A field that may have
several types is a string, which holds any JSON: nothing is lost. A schema that contains itself is one there, too.
"""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from calve.event.envelope.schema import Field, doc_of, tags_of
from calve.serde.format import UnsupportedSchemaError

__all__ = ["row_of"]

_KINDS = {"boolean": "boolean", "integer": "int64", "number": "double", "string": "string", "null": "null"}
_FORMATS = {"date-time": "timestamptz", "date": "date", "uuid": "uuid"}
_DEEPEST = 64
_MOST_SCHEMAS = 20_000
"""How many schemas are read at most: references to references can multiply without end."""
_UNIONS = ("oneOf", "anyOf")
_TAGS = "confluent:tags"
_READ = frozenset(("properties", "allOf", *_UNIONS, "$ref", "$defs", "definitions", _TAGS))
"""The keys below which tags are found where they are; `items` and `additionalProperties`, too, if they are objects."""


@dataclass(frozen=True)
class _Node:
    """A schema, its document, and the references that lead to it."""

    schema: Any
    document: Any
    opened: frozenset[tuple[int, str]] = frozenset()

    def at(self, schema: Any) -> _Node:
        """Return another schema of the same document."""
        return replace(self, schema=schema)

    def children(self, key: str) -> list[_Node]:
        """Return the schemas of a list."""
        schemas = self.schema.get(key)
        return [self.at(schema) for schema in schemas] if isinstance(schemas, list) else []


@dataclass
class _Facts:
    """What schemas say of a value.

    Attributes:
        types: The possible types without null; None: any.
        properties: By name the schemas of a property.
        items: The schemas of an array's items.
        others: The schemas of all properties without a name.
        unions: The alternatives, each of which may hold.
        others_tagged: Schemas that decide no type, but may have tags.
    """

    types: frozenset[str] | None = None
    formats: list[str] = field(default_factory=list)
    docs: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    defaults: list[Any] = field(default_factory=list)
    properties: dict[str, list[_Node]] = field(default_factory=dict)
    items: list[_Node] = field(default_factory=list)
    others: list[_Node] = field(default_factory=list)
    unions: list[list[_Node]] = field(default_factory=list)
    others_tagged: list[_Node] = field(default_factory=list)

    def add(self, node: _Node) -> None:
        """Add what a schema says itself."""
        schema = node.schema
        if types := _types(schema):
            self.types = types if self.types is None else _both(self.types, types)
        self.formats += [str(schema["format"])] if "format" in schema else []
        self.docs += [doc] if (doc := doc_of(schema.get("description"))) else []
        self.tags += tags_of(schema.get(_TAGS))
        self.defaults += [schema["default"]] if "default" in schema else []
        if isinstance(properties := schema.get("properties"), Mapping):
            for name, schema_of_property in properties.items():
                self.properties.setdefault(name, []).append(node.at(schema_of_property))
        self.items += [node.at(schema["items"])] if isinstance(schema.get("items"), Mapping) else []
        others = schema.get("additionalProperties")
        self.others += [node.at(others)] if isinstance(others, Mapping) and others else []
        is_read = {key for key in ("items", "additionalProperties") if isinstance(schema.get(key), Mapping)} | _READ
        self.others_tagged += [node.at(value) for key, value in schema.items() if key not in is_read]

    @property
    def kind(self) -> str:
        """The only possible type, or an empty text."""
        if self.types is None:
            return "object" if self.properties else ""
        return next(iter(self.types)) if len(self.types) == 1 else ""

    @property
    def doc(self) -> str:
        """The first description, or an empty text."""
        return self.docs[0] if self.docs else ""

    @property
    def default(self) -> str | None:
        """The first default, as in `Field`; None: there is none, or it is null or no scalar."""
        value = self.defaults[0] if self.defaults else None
        if value is None or isinstance(value, dict | list):
            return None
        return value if isinstance(value, str) else json.dumps(value)

    @property
    def is_open(self) -> bool:
        """Whether values of every type are possible."""
        return self.types is None and not (self.properties or self.items or self.others or self.unions)


def row_of(document: Any, others: Mapping[str, Any]) -> Field:
    """Return the declaration of a row.

    Args:
        document: The schema.
        others: By name the documents that it refers to.

    Raises:
        UnsupportedSchemaError: Its values are no rows, it refers to what does not exist, or it is too large.
    """
    return _Reader(document, others).row()


class _Reader:
    def __init__(self, document: Any, others: Mapping[str, Any]) -> None:
        self._document = document
        self._others = others
        self._schemas = 0
        self._has_tags = any(_TAGS in schema for schema in _schemas([document, *others.values()]))

    def row(self) -> Field:
        root = _Node(self._document, self._document, frozenset({(id(self._document), "")}))
        facts = self._facts([root])
        fields = self._properties(facts, 0) if facts.kind in ("object", "") else {}
        if not fields:
            raise UnsupportedSchemaError("its values are not objects with properties, so they are no rows")
        tags = tuple(dict.fromkeys(self._unplaced_tags(facts, "struct")))
        return Field("", "struct", fields=tuple(fields.values()), doc=facts.doc, tags=tags)

    def _field(self, name: str, nodes: Sequence[_Node], depth: int) -> Field:
        """Return the declaration of a value; what its schemas leave open is a string."""
        facts = self._facts(nodes)
        field = self._typed(name, facts, depth) if depth < _DEEPEST else Field(name, "string")
        is_union = facts.types is None and len(facts.unions) == 1 and depth < _DEEPEST
        place = "union" if is_union and field.kind != "struct" else field.kind
        tags = tuple(dict.fromkeys([*facts.tags, *field.tags, *self._unplaced_tags(facts, place)]))
        return replace(field, doc=facts.doc, default=facts.default, tags=tags)

    def _unplaced_tags(self, facts: _Facts, place: str) -> Iterator[str]:
        """Yield the tags inside of a value that no declared field has, so they must be those of the whole value."""
        if not self._has_tags:
            return
        alternatives = [node for union in facts.unions for node in union]
        unread = list(facts.others_tagged)
        unread += [] if place == "array" else facts.items
        unread += [] if place == "map" else facts.others
        if place == "struct":
            for node in alternatives:
                branch = self._facts([node])
                yield from (*branch.tags, *self._unplaced_tags(branch, "struct"))
        else:
            unread += itertools.chain(*facts.properties.values())
            unread += [] if place == "union" else alternatives
        yield from self._tags_in(unread)

    def _tags_in(self, nodes: Sequence[_Node]) -> Iterator[str]:
        """Yield all tags in schemas, and in those that they refer to."""
        waiting, seen = list(nodes), set[int]()
        while waiting:
            node = waiting.pop()
            if id(node.schema) in seen or not isinstance(node.schema, Mapping | list):
                continue
            seen.add(id(node.schema))
            if isinstance(node.schema, Mapping):
                yield from tags_of(node.schema.get(_TAGS))
                with contextlib.suppress(UnsupportedSchemaError):  # what decides no type may refer to nothing
                    waiting += self._targets(node)
            values = node.schema.values() if isinstance(node.schema, Mapping) else node.schema
            waiting += map(node.at, values)

    def _typed(self, name: str, facts: _Facts, depth: int) -> Field:
        kind = facts.kind
        if kind == "object" and facts.properties:
            return Field(name, "struct", fields=tuple(self._properties(facts, depth).values()))
        if kind == "object" and facts.others:
            return Field(name, "map", fields=(self._field("", facts.others, depth + 1),))
        if kind == "array":
            return Field(name, "array", fields=(self._field("", facts.items, depth + 1),))
        if kind == "string" and len(set(facts.formats)) == 1:
            return Field(name, _FORMATS.get(facts.formats[0], "string"))
        if facts.types is None and len(facts.unions) == 1:
            return _same([self._field(name, [branch], depth + 1) for branch in facts.unions[0]])
        return Field(name, _KINDS.get(kind, "string"))

    def _properties(self, facts: _Facts, depth: int) -> dict[str, Field]:
        """Return the fields of an object, and those that only some of its alternatives have."""
        fields = {name: self._field(name, nodes, depth + 1) for name, nodes in facts.properties.items()}
        for union in facts.unions:
            alternatives: dict[str, list[Field]] = {}
            for branch in union:
                for name, property_field in self._properties(self._facts([branch]), depth).items():
                    alternatives.setdefault(name, []).append(property_field)
            for name, declared in alternatives.items():
                field = fields.get(name, _same(declared))
                tags = dict.fromkeys([*field.tags, *(tag for other in declared for tag in _all_tags(other))])
                fields[name] = replace(field, tags=tuple(tags)) if name in fields else field
        return fields

    def _facts(self, nodes: Sequence[_Node]) -> _Facts:
        """Return what schemas, the schemas that they refer to and those of their `allOf` say together."""
        facts, waiting = _Facts(), list(nodes)
        while waiting:
            node = waiting.pop(0)
            if not isinstance(node.schema, Mapping):
                continue
            self._schemas += 1
            if self._schemas > _MOST_SCHEMAS:
                raise UnsupportedSchemaError(f"it has more than {_MOST_SCHEMAS} schemas, with those it refers to")
            facts.add(node)
            referred = self._targets(node)
            waiting += [target for target in referred if target.opened > node.opened]
            facts.others_tagged += [target for target in referred if target.opened == node.opened]
            waiting += node.children("allOf")
            for key in _UNIONS:
                branches = [branch for branch in node.children(key) if not _is_null(branch.schema)]
                if len(branches) == 1:
                    waiting += branches
                elif all(self._facts([branch]).is_open for branch in branches):
                    facts.others_tagged += branches
                else:
                    facts.unions.append(branches)
        return facts

    def _targets(self, node: _Node) -> list[_Node]:
        """Return the schema that a schema refers to; within that schema itself no reference more is open."""
        reference = node.schema.get("$ref")
        if not isinstance(reference, str):
            return []
        place, _, pointer = reference.partition("#")
        document = node.document if place in ("", _id(node.document)) else self._others.get(place)
        target = _target(document, unquote(pointer))
        if target is None:
            raise UnsupportedSchemaError(f"it has no {reference}")
        return [_Node(target, document, node.opened | {(id(document), pointer)})]


def _target(document: Any, pointer: str) -> Any:
    """Return what a pointer or an anchor refers to; None if there is nothing."""
    if pointer and not pointer.startswith("/"):
        return next((schema for schema in _schemas(document) if _has_anchor(schema, pointer)), None)
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(document, list) and key.isdecimal():
            document = document[int(key)] if int(key) < len(document) else None
        else:
            document = document.get(key) if isinstance(document, Mapping) else None
    return document


def _schemas(document: Any) -> Iterator[Mapping[str, Any]]:
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            yield value
        waiting += value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()


def _has_anchor(schema: Mapping[str, Any], name: str) -> bool:
    return schema.get("$anchor") == name or f"#{name}" in (schema.get("$id"), schema.get("id"))


def _id(document: Any) -> Any:
    return document.get("$id", document.get("id")) if isinstance(document, Mapping) else None


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    """Return the types that a schema names, without null if there are others."""
    given = schema.get("type")
    types = {name for name in (given if isinstance(given, list) else [given]) if isinstance(name, str)}
    types -= {"integer"} if "number" in types else set()
    return frozenset(types - {"null"} or types)


def _both(first: frozenset[str], other: frozenset[str]) -> frozenset[str]:
    """Return the types that two schemas allow; an integer is a number, too."""
    integers = (
        {"integer"} if any("integer" in a and "number" in b for a, b in ((first, other), (other, first))) else set()
    )
    return first & other | integers


def _is_null(schema: Any) -> bool:
    """Return whether only null has a schema."""
    if not isinstance(schema, Mapping):
        return False
    return schema.get("type") in ("null", ["null"]) or schema.get("enum") == [None] or schema.get("const", 0) is None


def _same(fields: Sequence[Field]) -> Field:
    """Return the declaration that alternatives share; a string if they differ, with all tags inside of them."""
    bare = [replace(field, doc="", default=None, tags=()) for field in fields]
    if all(field == bare[0] for field in bare):
        return replace(bare[0], tags=tuple(dict.fromkeys(tag for field in fields for tag in field.tags)))
    return Field(bare[0].name, "string", tags=tuple(dict.fromkeys(tag for field in fields for tag in _all_tags(field))))


def _all_tags(field: Field) -> Iterator[str]:
    yield from field.tags
    for inner in field.fields:
        yield from _all_tags(inner)
