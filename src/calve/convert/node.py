"""What a JSON field has been seen to hold: kinds, and how two of them join."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ELEMENT", "VALUE", "Kind", "Node", "join"]

ELEMENT, VALUE = "element", "value"  # Iceberg's names below a list and a map


class Kind(enum.StrEnum):
    """A kind of value; `KNOWN` is a column that exists and holds new fields below it."""

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


@dataclass(frozen=True)
class Node:
    """One field: its kind and what is below it, in the order of first appearance (a list: its `element`)."""

    kind: Kind
    fields: dict[str, Node] = field(default_factory=dict)

    def to_json(self) -> Any:
        """Give it as JSON values: the kind, or the kind with [name, field] pairs."""
        if not self.fields:
            return self.kind.value
        return [self.kind.value, [[name, node.to_json()] for name, node in self.fields.items()]]

    @staticmethod
    def from_json(data: Any) -> Node:
        """Read what `to_json` gave."""
        if isinstance(data, str):
            return Node(Kind(data))
        return Node(Kind(data[0]), {name: Node.from_json(below) for name, below in data[1]})


_WIDER = {
    frozenset({Kind.LONG, Kind.DOUBLE}): Kind.DOUBLE,
    frozenset({Kind.EMPTY_OBJECT, Kind.STRUCT}): Kind.STRUCT,
    frozenset({Kind.EMPTY_ARRAY, Kind.LIST}): Kind.LIST,
}


def join(first: Node, second: Node) -> Node:
    """Give the least kind that holds both; the fields of the first come first."""
    if first.kind is Kind.NULL or first is second:
        return second
    if second.kind is Kind.NULL:
        return first
    if Kind.KNOWN in (first.kind, second.kind):
        kind = Kind.KNOWN
    elif first.kind is second.kind:
        kind = first.kind
    else:
        kind = _WIDER.get(frozenset({first.kind, second.kind}), Kind.STRING)
    if kind not in (Kind.STRUCT, Kind.LIST, Kind.KNOWN):
        return Node(kind)
    fields = dict(first.fields)
    for name, node in second.fields.items():
        fields[name] = join(fields[name], node) if name in fields else node
    return Node(kind, fields)
