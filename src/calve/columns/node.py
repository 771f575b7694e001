"""The kinds of values of a field, observed in JSON or declared by a schema, and how two kinds join."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Any

from calve.event.column_names import has_half_surrogate

__all__ = ["Kind", "Node", "join"]


class Kind(enum.StrEnum):
    """A kind of value; `KNOWN` is an existing column that contains new fields."""

    NULL = "null"
    BOOLEAN = "boolean"
    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    EMPTY_OBJECT = "{}"
    STRUCT = "struct"
    EMPTY_ARRAY = "[]"
    LIST = "list"
    KNOWN = "known"
    WIDE_LONG = "wide long"
    """Integers of 64 bits, one of which a double cannot represent."""
    DIGITS = "digits"
    """Numbers with more digits than a double or 64 bits can represent: a string."""
    DATE_TIME = "date-time"
    """Texts that are date-times with an offset, or `Z`."""
    LOCAL_DATE_TIME = "local date-time"
    """Texts that are date-times without an offset."""
    ZONES = "zones"
    """Date-times, some with an offset and some without: a string."""
    NANOS = "nanoseconds"
    """Texts that are date-times, at least one finer than microseconds: a string."""
    MIXED = "mixed"
    """Values of different kinds that only a string can hold."""
    # These never come from JSON, only from a schema.
    INT = "int"
    FLOAT = "float"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    UUID = "uuid"
    BINARY = "binary"
    FIXED = "fixed"
    MAP = "map"


@dataclass(frozen=True)
class Node:
    """One field.

    Attributes:
        kind: The kind of its values.
        fields: Its nested fields, in the order of first appearance (a list: its `element`; a map: its `value` and
            `key`).
        digits: Of a decimal: the digits before and after the point; of a fixed: its length, and 0.
        doc: What a schema says of its meaning; the first one counts. Nodes that differ in it only are equal.
        default: The value of events without the field, as a text of JSON; the first one counts, as of `doc`.
        count: How many values a field of a struct has, so that the name in most events can be chosen; 0 for all others.
            Equal nodes may differ in it.
    """

    kind: Kind
    fields: dict[str, Node] = field(default_factory=dict)
    digits: tuple[int, int] = (0, 0)
    doc: str = field(default="", compare=False)
    default: str | None = field(default=None, compare=False)
    count: int = field(default=1, compare=False)

    def encodable(self) -> Node:
        """Remove fields whose name has half a surrogate pair: neither JSON nor a column can have such a name."""
        fields = {name: node.encodable() for name, node in self.fields.items() if not has_half_surrogate(name)}
        return replace(self, fields=fields)

    @staticmethod
    def from_json(data: Any) -> Node:
        """Read the compiled core's output: the kind, or the kind with [name, field, count], or digits."""
        if isinstance(data, str):
            return Node(Kind(data))
        if data[0] in (Kind.DECIMAL, Kind.FIXED):
            return Node(Kind(data[0]), digits=(data[1][0], data[1][1]))
        fields = {name: replace(Node.from_json(below), count=sum(count)) for name, below, *count in data[1]}
        return Node(Kind(data[0]), fields)


_NUMBERS = (Kind.INT, Kind.LONG, Kind.WIDE_LONG, Kind.FLOAT, Kind.DOUBLE)
_ZONED, _LOCAL = (Kind.DATE_TIME, Kind.TIMESTAMPTZ), (Kind.LOCAL_DATE_TIME, Kind.TIMESTAMP)
_TIMES = (*_ZONED, *_LOCAL, Kind.ZONES)
_NESTED = (Kind.STRUCT, Kind.LIST, Kind.MAP, Kind.KNOWN)
_WIDER = {
    frozenset({Kind.LONG, Kind.WIDE_LONG}): Kind.WIDE_LONG,
    frozenset({Kind.INT, Kind.WIDE_LONG}): Kind.WIDE_LONG,
    frozenset({Kind.WIDE_LONG, Kind.DOUBLE}): Kind.DIGITS,
    frozenset({Kind.WIDE_LONG, Kind.FLOAT}): Kind.DIGITS,
    **{frozenset({kind, Kind.DIGITS}): Kind.DIGITS for kind in _NUMBERS},
    frozenset(_ZONED): Kind.TIMESTAMPTZ,
    frozenset(_LOCAL): Kind.TIMESTAMP,
    **{frozenset({zoned, local}): Kind.ZONES for zoned in _ZONED for local in _LOCAL},
    **{frozenset({kind, Kind.ZONES}): Kind.ZONES for kind in (*_ZONED, *_LOCAL)},
    **{frozenset({kind, Kind.NANOS}): Kind.NANOS for kind in _TIMES},
    **{frozenset({kind, Kind.STRING}): Kind.STRING for kind in (*_TIMES, Kind.NANOS)},
    frozenset({Kind.INT, Kind.LONG}): Kind.LONG,
    frozenset({Kind.INT, Kind.FLOAT}): Kind.DOUBLE,
    frozenset({Kind.INT, Kind.DOUBLE}): Kind.DOUBLE,
    frozenset({Kind.LONG, Kind.FLOAT}): Kind.DOUBLE,
    frozenset({Kind.LONG, Kind.DOUBLE}): Kind.DOUBLE,
    frozenset({Kind.FLOAT, Kind.DOUBLE}): Kind.DOUBLE,
    frozenset({Kind.FIXED, Kind.BINARY}): Kind.BINARY,
    frozenset({Kind.EMPTY_OBJECT, Kind.STRUCT}): Kind.STRUCT,
    frozenset({Kind.EMPTY_OBJECT, Kind.MAP}): Kind.MAP,
    frozenset({Kind.EMPTY_ARRAY, Kind.LIST}): Kind.LIST,
}
_DIGITS = {Kind.INT: (10, 0), Kind.LONG: (19, 0), Kind.WIDE_LONG: (19, 0)}
_MOST_DIGITS = 38
_MOST_FIELDS = 1_000
"""The most fields of a struct, and the most null fields: a table gets no more columns than that."""


def join(first: Node, second: Node) -> Node:
    """Return the least kind that holds both; the fields of the first come first.

    A struct keeps a bounded number of fields, the first ones.
    """
    joined = _join(first, second)
    default = second.default if first.default is None else first.default
    return replace(joined, doc=first.doc or second.doc, default=default, count=first.count + second.count)


def _join(first: Node, second: Node) -> Node:
    if second.kind is Kind.NULL or first is second:
        return first
    if first.kind is Kind.NULL:
        return join(Node(second.kind, count=0), second) if second.fields else second
    if Kind.DECIMAL in (first.kind, second.kind) and Kind.KNOWN not in (first.kind, second.kind):
        return _decimal(first, second)
    if Kind.KNOWN in (first.kind, second.kind):
        kind = Kind.KNOWN
    elif first.kind is second.kind is Kind.FIXED:
        return first if first.digits == second.digits else Node(Kind.BINARY)
    elif first.kind is second.kind:
        kind = first.kind
    else:
        kind = _WIDER.get(frozenset({first.kind, second.kind}), Kind.MIXED)
    return Node(kind, _joined(first.fields, second.fields) if kind in _NESTED else {})


def _joined(first: dict[str, Node], second: dict[str, Node]) -> dict[str, Node]:
    fields = dict(first)
    for name, node in second.items():
        previous = first.get(name)
        if previous is None and len(fields) >= (_MOST_FIELDS if node.kind is Kind.NULL else 2 * _MOST_FIELDS):
            continue
        fields[name] = join(previous or Node(node.kind, count=0), node) if previous or node.fields else node
    return fields


def _decimal(first: Node, second: Node) -> Node:
    """Join a decimal with another node: a decimal with the digits of both, or mixed if it would have too many."""
    digits = [node.digits if node.kind is Kind.DECIMAL else _DIGITS.get(node.kind) for node in (first, second)]
    if digits[0] is None or digits[1] is None:
        return Node(Kind.MIXED)
    integer, fraction = max(digits[0][0], digits[1][0]), max(digits[0][1], digits[1][1])
    fits = integer + fraction <= _MOST_DIGITS
    return Node(Kind.DECIMAL, digits=(integer, fraction)) if fits else Node(Kind.MIXED)
