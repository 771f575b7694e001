"""Reads Avro schemas (https://avro.apache.org/docs/1.12.0/specification/)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Context
from functools import cached_property
from typing import Any

from calve.event.envelope.schema import doc_of, tags_of
from calve.event.reject import cut
from calve.serde.format import UnsupportedSchemaError, WriterSchema

__all__ = ["EXACT", "MOST_DIGITS", "NO_DEFAULT", "PRIMITIVES", "RecordField", "Type", "parse", "parse_schema"]

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
MOST_DIGITS = 76
"""The most digits of a decimal; an Arrow decimal has no more."""
EXACT = Context(prec=80)
"""For arithmetic with decimals: Python's own context would round them to 28 digits."""
NO_DEFAULT: Any = object()
_LOGICAL = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    **{f"{local}timestamp-{unit}": ("long",) for local in ("", "local-") for unit in ("millis", "micros", "nanos")},
    "uuid": ("string", "fixed"),
    "decimal": ("bytes", "fixed"),
    "duration": ("fixed",),
}
_TAGS = "confluent:tags"
_UUID_BYTES, _DURATION_BYTES = 16, 12
_LONGEST_FIXED = 1 << 20
_MOST_TYPES = 20_000


@dataclass(frozen=True)
class RecordField:
    """A field of a record; `default` is JSON, or `NO_DEFAULT`, `doc` its description, `tags` the registry's."""

    name: str
    type: Type
    aliases: tuple[str, ...] = ()
    default: Any = NO_DEFAULT
    doc: str = field(default="", compare=False)
    tags: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Type:
    """A type; named types are in the place of their names.

    Attributes:
        kind: As in the schema: a primitive type, `fixed`, `enum`, `array`, `map`, `record` or `union`.
        name: The full name of a named type.
        aliases: Its other full names.
        logical: The logical type, if it is valid for the kind.
        parts: The element of an array, the value of a map, the branches of a union.
        fields: The fields of a record.
        symbols: The symbols of an enum.
        symbol: The default symbol of an enum.
        size: The bytes of a fixed.
        digits: The precision and scale of a decimal.
        properties: All that the schema has at a primitive or named type.
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    logical: str = ""
    parts: tuple[Type, ...] = ()
    fields: tuple[RecordField, ...] = ()
    symbols: tuple[str, ...] = ()
    symbol: str = ""
    size: int = 0
    digits: tuple[int, int] = (0, 0)
    properties: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def size_unfolded(self) -> int:
        """How many types it consists of, if each named type is in all its places."""
        inside = [*self.parts, *(part.type for part in self.fields)]
        return 1 + sum(part.size_unfolded for part in inside)

    @property
    def short_name(self) -> str:
        """The name without its namespace; the kind of a type without a name."""
        return self.name.rpartition(".")[2] or self.kind


def parse_schema(schema: WriterSchema, with_logical: bool = True) -> Type:
    """Read a schema, with the schemas that it refers to.

    Args:
        schema: The schema.
        with_logical: Whether logical types count; otherwise they are only among the `properties`.

    Raises:
        UnsupportedSchemaError: It is not valid, or has a type that contains itself.
    """
    reader = _Reader(with_logical)
    for _, referred in schema.references:
        reader.read(_json(referred.text))
    return reader.read(_json(schema.text))


def parse(text: str) -> Type:
    """Read a schema that refers to no other.

    Raises:
        UnsupportedSchemaError: As for `parse_schema`.
    """
    return parse_schema(WriterSchema(text))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        if text.strip().isidentifier():
            return text.strip()
        raise UnsupportedSchemaError("it is not JSON") from None


class _Reader:
    def __init__(self, with_logical: bool) -> None:
        self._with_logical = with_logical
        self._named: dict[str, Type] = {}
        self._open: list[str] = []

    def read(self, schema: Any) -> Type:
        try:
            return self._type(schema, "")
        except RecursionError:
            raise UnsupportedSchemaError("it is nested too deeply") from None

    def _type(self, schema: Any, namespace: str) -> Type:
        if isinstance(schema, str):
            return self._by_name(schema, namespace)
        if isinstance(schema, list):
            return self._union([self._type(branch, namespace) for branch in schema])
        if not isinstance(schema, dict):
            raise UnsupportedSchemaError(f"{cut(json.dumps(schema))} is not a type")
        kind = schema.get("type")
        if isinstance(kind, dict | list):
            return self._type(kind, namespace)
        match kind:
            case "array":
                return Type("array", parts=(self._type(_required(schema, "items"), namespace),))
            case "map":
                return Type("map", parts=(self._type(_required(schema, "values"), namespace),))
            case "record" | "error" | "enum" | "fixed":
                return self._defined(schema, kind, namespace)
            case str() if kind in PRIMITIVES:
                return self._leaf(Type(kind, properties=schema), schema)
            case str():
                return self._by_name(kind, namespace)
        raise UnsupportedSchemaError(f"{cut(json.dumps(schema))} has no type")

    def _by_name(self, name: str, namespace: str) -> Type:
        if name in PRIMITIVES:
            return Type(name)
        full = _full(name, namespace)
        full = full if full in self._named or full in self._open else name
        if full in self._open:
            text = f"the type {full} contains itself, and a table has no recursive columns"
            raise UnsupportedSchemaError(text)
        if full not in self._named:
            raise UnsupportedSchemaError(f"the type {cut(name)} is not defined")
        return self._named[full]

    def _union(self, branches: Sequence[Type]) -> Type:
        if not branches or any(branch.kind == "union" for branch in branches):
            raise UnsupportedSchemaError("a union is empty, or has another union as a branch")
        names = [branch.name or branch.kind for branch in branches]
        if len(set(names)) < len(names):
            raise UnsupportedSchemaError("a union has the same type twice")
        return Type("union", parts=tuple(branches))

    def _defined(self, schema: Mapping[str, Any], kind: str, namespace: str) -> Type:
        name = _required(schema, "name")
        if not isinstance(name, str) or not name:
            raise UnsupportedSchemaError(f"{cut(json.dumps(name))} is not a name")
        own = schema.get("namespace", namespace)
        full = _full(name, own if isinstance(own, str) else "")
        inner = full.rpartition(".")[0]
        if full in self._named or full in self._open:
            raise UnsupportedSchemaError(f"the type {full} is defined twice")
        self._open.append(full)
        if kind == "enum":
            defined = _enum(schema)
        elif kind == "fixed":
            defined = self._leaf(Type("fixed", full, size=_fixed_size(schema)), schema)
        else:
            defined = Type("record", fields=self._fields(schema, inner))
        self._open.pop()
        aliases = tuple(_full(alias, inner) for alias in _texts(schema.get("aliases")))
        self._named[full] = replace(defined, name=full, aliases=aliases, properties=schema)
        if self._named[full].size_unfolded > _MOST_TYPES:
            raise UnsupportedSchemaError(f"it has more than {_MOST_TYPES:,} fields and types")
        return self._named[full]

    def _leaf(self, kind: Type, schema: Mapping[str, Any]) -> Type:
        return _with_logical(kind, schema) if self._with_logical else kind

    def _fields(self, schema: Mapping[str, Any], namespace: str) -> tuple[RecordField, ...]:
        fields = []
        for entry in _required(schema, "fields"):
            name = _required(entry, "name")
            kind = self._type(_required(entry, "type"), namespace)
            default, doc, tags = entry.get("default", NO_DEFAULT), doc_of(entry.get("doc")), tags_of(entry.get(_TAGS))
            fields.append(RecordField(str(name), kind, _texts(entry.get("aliases")), default, doc, tags))
        names = [entry.name for entry in fields]
        if twice := [name for name in names if names.count(name) > 1]:
            raise UnsupportedSchemaError(f"a record has two fields of the name {cut(twice[0])}")
        return tuple(fields)


def _required(schema: Any, key: str) -> Any:
    if not isinstance(schema, Mapping) or key not in schema:
        raise UnsupportedSchemaError(f"{cut(json.dumps(schema))} lacks `{key}`")
    value = schema[key]
    if key == "fields" and not isinstance(value, list):
        raise UnsupportedSchemaError("the fields of a record are not a list")
    return value


def _full(name: str, namespace: str) -> str:
    return name.removeprefix(".") if "." in name or not namespace else f"{namespace}.{name}"


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(text for text in values if isinstance(text, str)) if isinstance(values, list) else ()


def _enum(schema: Mapping[str, Any]) -> Type:
    symbols = _texts(schema.get("symbols"))
    if not symbols or len(symbols) != len(schema["symbols"]):
        raise UnsupportedSchemaError(f"the enum {cut(schema['name'])} has no symbols")
    default = schema.get("default")
    return Type("enum", symbols=symbols, symbol=default if default in symbols else "")


def _fixed_size(schema: Mapping[str, Any]) -> int:
    size = schema.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _LONGEST_FIXED:
        raise UnsupportedSchemaError(f"the fixed {cut(schema['name'])} has no size up to {_LONGEST_FIXED}")
    return size


def _with_logical(kind: Type, schema: Mapping[str, Any]) -> Type:
    """Return a type with its logical type; one that is unknown or invalid is ignored, as the specification says."""
    logical = schema.get("logicalType")
    if not isinstance(logical, str) or kind.kind not in _LOGICAL.get(logical, ()):
        return kind
    digits = 0, 0
    if logical == "decimal":
        digits = schema.get("precision", 0), schema.get("scale", 0)
        if not all(type(number) is int for number in digits) or not 0 <= digits[1] <= digits[0] or not digits[0]:
            return kind
        if digits[0] > MOST_DIGITS:
            raise UnsupportedSchemaError(f"decimal({digits[0]}, {digits[1]}) has more than {MOST_DIGITS} digits")
        if kind.kind == "fixed" and 10 ** digits[0] > 1 << max(8 * kind.size - 1, 0):
            return kind
    if logical == "uuid" and kind.kind == "fixed" and kind.size != _UUID_BYTES:
        return kind
    if logical == "duration":
        if kind.size != _DURATION_BYTES:
            return kind
        raise UnsupportedSchemaError("it has the logical type duration, which no column can hold")
    return replace(kind, logical=logical, digits=digits)
