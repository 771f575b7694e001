"""What DuckDB's `json_structure` says, as a node."""

from __future__ import annotations

from typing import Any

from calve.convert.column_names import NESTING_LIMIT
from calve.convert.node import ELEMENT, Kind, Node

__all__ = ["from_structure", "list_of"]

_KINDS = {
    "NULL": Kind.NULL,
    "BOOLEAN": Kind.BOOLEAN,
    "BIGINT": Kind.LONG,
    "UBIGINT": Kind.LONG,
    "HUGEINT": Kind.LONG,  # of small numbers with and without a sign
    "DOUBLE": Kind.DOUBLE,
    "VARCHAR": Kind.STRING,
}


def from_structure(shape: Any, depth: int = 0) -> Node:
    """Read what `json_structure` gave, as JSON values; it may not hold `JSON`, which says nothing.

    Args:
        shape: The structure.
        depth: How deep it is nested in the event; what is nested too deep is text.
    """
    if isinstance(shape, str):
        return Node(_KINDS[shape])
    if depth >= NESTING_LIMIT:
        return Node(Kind.STRING)
    if isinstance(shape, dict):
        return Node(Kind.STRUCT, {name: from_structure(below, depth + 1) for name, below in shape.items()})
    return list_of(from_structure(shape[0], depth + 1))


def list_of(element: Node) -> Node:
    """Give an array of elements of this kind."""
    if element.kind is Kind.NULL:
        return Node(Kind.EMPTY_ARRAY)
    return Node(Kind.LIST, {ELEMENT: element})
