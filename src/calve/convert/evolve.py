"""Which columns a table needs for fields that it does not have, and which of them are too many."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg import types as iceberg

from calve.convert.column_types import ColumnTypes
from calve.convert.node import ELEMENT, KEY, VALUE, Kind, Node, join
from calve.convert.table import Table
from calve.convert.widen import widened

if TYPE_CHECKING:
    from calve.convert.infer import Inferred

__all__ = ["COLUMN_LIMIT", "Budget", "Evolution", "column_type", "known_fields", "plan_evolution", "unclear"]

COLUMN_LIMIT = 1_000
"""So many columns (fields of structs counted) inference may bring a table to; random keys must not destroy it."""
Path = tuple[str, ...]
_INFERRED = ColumnTypes()
_PLAIN: dict[Kind, Callable[[], iceberg.IcebergType]] = {
    Kind.BOOLEAN: iceberg.BooleanType,
    Kind.INT: iceberg.IntegerType,
    Kind.LONG: iceberg.LongType,
    Kind.WIDE_LONG: iceberg.LongType,
    Kind.FLOAT: iceberg.FloatType,
    Kind.DOUBLE: iceberg.DoubleType,
    Kind.DATE: iceberg.DateType,
    Kind.TIMESTAMP: iceberg.TimestampType,
    Kind.TIMESTAMPTZ: iceberg.TimestamptzType,
    Kind.MOMENT: iceberg.TimestamptzType,
    Kind.UUID: iceberg.UUIDType,
    Kind.BINARY: iceberg.BinaryType,
}


@dataclass(frozen=True)
class Evolution:
    """What to do to a table.

    Attributes:
        add: Columns to add, all optional: the path of the struct they go into (`element` and `value` lead below a list
            and a map; empty: the table), the name, and the type as in the schema's JSON.
        widen: Columns of the table, dotted where nested, and the wider types that they get.
        refused: Fields beyond the limit; give them to `ConvertOptions.refused`, so that events with them are rejected.
    """

    add: list[tuple[Path, str, Any]] = field(default_factory=list)
    widen: list[tuple[str, str]] = field(default_factory=list)
    refused: list[Path] = field(default_factory=list)


class Budget:
    """How many columns may still be added, the ids that they get, and the types that settings give them."""

    def __init__(self, columns: int, types: ColumnTypes = _INFERRED) -> None:
        self.left = columns
        self.types = types
        self.refused: list[Path] = []
        self.next_id = itertools.count(1).__next__

    def take(self, path: Path) -> bool:
        """Take one column, or note that it is refused."""
        if self.left <= 0:
            self.refused.append(path)
            return False
        self.left -= 1
        return True


def plan_evolution(
    table: Table, inferred: Inferred, limit: int = COLUMN_LIMIT, types: ColumnTypes = _INFERRED
) -> Evolution:
    """Plan the columns for all fields that the table does not have by now (driver); repeating it is harmless."""
    budget = Budget(limit - _count(table.schema.as_struct()), types)
    wider = list(_wider(widened(inferred.root, table.schema.as_struct()), ()))
    evolution = Evolution(widen=wider, refused=budget.refused)
    _plan(known_fields(inferred.root, table.schema.as_struct()), (), budget, evolution.add)
    return evolution


def _plan(node: Node, path: Path, budget: Budget, add: list[tuple[Path, str, Any]]) -> None:
    for name, below in node.fields.items():
        if below.kind is Kind.KNOWN:
            _plan(below, (*path, name), budget, add)
        elif budget.take((*path, name)):
            kind = column_type(below, budget, (*path, name))
            if kind is not None:
                add.append((path, name, json.loads(kind.model_dump_json())))


def known_fields(node: Node, kind: iceberg.IcebergType, case_insensitive: bool = False) -> Node:
    """Keep what a type has no column for; columns that hold such fields are `known`."""
    fields: dict[str, Node] = {}
    if node.kind not in (Kind.STRUCT, Kind.LIST, Kind.MAP, Kind.KNOWN):
        return Node(Kind.KNOWN)
    if isinstance(kind, iceberg.ListType) and ELEMENT in node.fields and node.kind is not Kind.STRUCT:
        fields = {ELEMENT: known_fields(node.fields[ELEMENT], kind.element_type, case_insensitive)}
    elif isinstance(kind, iceberg.MapType) and node.kind is not Kind.LIST:
        values = [node.fields[VALUE]] if node.kind is Kind.MAP else list(node.fields.values())
        below = [known_fields(each, kind.value_type, case_insensitive) for each in values]
        joined = Node(Kind.KNOWN)
        for each in below:
            joined = join(joined, each)
        fields = {VALUE: joined}
    elif isinstance(kind, iceberg.StructType) and node.kind not in (Kind.LIST, Kind.MAP):
        names = {each.name: each.field_type for each in kind.fields}
        folded = {name.casefold(): name for name in names} if case_insensitive else {}
        for name, each in node.fields.items():
            column = name if name in names else folded.get(name.casefold(), "")
            if column in names:
                fields[column] = known_fields(each, names[column], case_insensitive)
            elif _possible(name) and each.kind is not Kind.NULL:
                fields[name] = each
    return Node(Kind.KNOWN, {name: each for name, each in fields.items() if each.kind is not Kind.KNOWN or each.fields})


def _wider(node: Node, path: Path) -> Iterator[tuple[str, str]]:
    """Yield the columns to widen below a node of `widened`, dotted, and their new types."""
    for name, each in node.fields.items():
        if each.kind is Kind.KNOWN:
            yield from _wider(each, (*path, name))
        else:
            yield ".".join((*path, name)), str(column_type(each, Budget(0), ()))


def column_type(node: Node, budget: Budget, path: Path) -> iceberg.IcebergType | None:
    """Give the type for what was seen; None for null alone, and for a struct that no field of fits the budget."""
    if node.kind in (Kind.NULL, Kind.KNOWN):
        return None
    if path and (given := budget.types.of(path, budget.next_id)):
        return given
    match node.kind:
        case Kind.STRUCT:
            return _struct(node, budget, path)
        case Kind.LIST:
            number = budget.next_id()
            element = column_type(node.fields[ELEMENT], budget, (*path, ELEMENT)) or iceberg.StringType()
            return iceberg.ListType(number, element, element_required=False)
        case Kind.MAP:
            key, number = budget.next_id(), budget.next_id()
            value = column_type(node.fields[VALUE], budget, (*path, VALUE)) or iceberg.StringType()
            by = column_type(node.fields[KEY], budget, (*path, KEY)) or iceberg.StringType()
            return iceberg.MapType(key, by, number, value, value_required=False)
        case Kind.DECIMAL:
            return iceberg.DecimalType(max(sum(node.digits), 1), node.digits[1])
        case Kind.FIXED:
            return iceberg.FixedType(node.digits[0])
        case Kind.MOMENT if not budget.types.moments:
            return iceberg.StringType()
    return _PLAIN.get(node.kind, iceberg.StringType)()


def unclear(node: Node, types: ColumnTypes, path: Path = ()) -> Iterator[tuple[str, Kind]]:
    """Yield the dotted names of columns that become strings although their values are no plain texts, and why."""
    if path and types.of(path):
        return
    if node.kind in (Kind.DIGITS, Kind.MIXED) or (node.kind is Kind.NANOS and types.moments):
        yield ".".join(path), node.kind
    for name, each in node.fields.items():
        yield from unclear(each, types, (*path, name))


def _struct(node: Node, budget: Budget, path: Path) -> iceberg.IcebergType:
    names = [name for name, each in node.fields.items() if each.kind is not Kind.NULL and _possible(name)]
    taken = [(name, budget.next_id()) for name in names if budget.take((*path, name))]
    fields = [
        iceberg.NestedField(number, name, column_type(node.fields[name], budget, (*path, name)), required=False)
        for name, number in taken
    ]
    return iceberg.StructType(*fields) if fields else iceberg.StringType()


def _possible(name: str) -> bool:
    """Say whether a field can be a column: it has a name, without half surrogates."""
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def _count(kind: iceberg.IcebergType) -> int:
    match kind:
        case iceberg.StructType():
            return sum(1 + _count(each.field_type) for each in kind.fields)
        case iceberg.ListType():
            return _count(kind.element_type)
        case iceberg.MapType():
            return _count(kind.value_type)
    return 0
