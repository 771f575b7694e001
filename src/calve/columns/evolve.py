"""Plans new columns for unknown fields, and finds fields that cannot become columns."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.columns.declared_types import ColumnTypes
from calve.columns.node import Kind, Node, join
from calve.columns.widen import widened
from calve.event.column_names import (
    COLUMN_LIMIT,
    ELEMENT,
    KEY,
    NESTING_LIMIT,
    VALUE,
    ColumnNames,
    ColumnPath,
    Refusal,
    folded,
)
from calve.table.defaults import DEFAULTS_SINCE, default_value, without_defaults
from calve.table.kinds import OTHER, named
from calve.table.loaded import Table
from calve.table.schema import VariantType

__all__ = [
    "Evolution",
    "NewColumn",
    "event_refusal",
    "fits",
    "has_case_twins",
    "is_contended",
    "known_fields",
    "new_schema",
    "plan_evolution",
    "refusal",
    "unclear",
    "without_refused",
]

Path = tuple[str, ...]
_INFERRED = ColumnTypes()
_TOP = ColumnPath()
_COLUMNS = {Kind.WIDE_LONG: "long", Kind.DATE_TIME: "timestamptz", Kind.LOCAL_DATE_TIME: "timestamp"}
"""Columns of kinds that are no Iceberg types; all others are strings."""


class NewColumn(NamedTuple):
    """A column to add to a table.

    Attributes:
        path: The path of the struct that gets it (`element` and `value` are names below lists and maps; empty: the
            table).
        name: Its name.
        kind: Its type as in the schema's JSON.
        doc: Its description, or empty.
        default: Its default as in the schema's JSON; None: it has none.
    """

    path: Path
    name: str
    kind: Any
    doc: str = ""
    default: Any = None


@dataclass(frozen=True)
class Evolution:
    """Changes to a table's columns.

    Attributes:
        add: Columns to add, all optional.
        widen: Dotted names of columns, and their new, wider types.
        free: Required columns to make optional.
        is_contended: Whether fields compete for a name or a place, so that not all events can be written.
    """

    add: list[NewColumn] = field(default_factory=list)
    widen: list[tuple[str, str]] = field(default_factory=list)
    free: list[str] = field(default_factory=list)
    is_contended: bool = False


def new_schema(
    node: Node, types: ColumnTypes = _INFERRED, case_insensitive: bool = False, limit: int = COLUMN_LIMIT
) -> Schema:
    """Return the schema of a new table, with optional columns for all fields that can have one.

    If fields compete for a name or a place, those of the most events get it, whatever the order of the events.
    """
    return _new_schema(node, types, case_insensitive, limit)[0]


def is_contended(
    node: Node, types: ColumnTypes = _INFERRED, case_insensitive: bool = False, limit: int = COLUMN_LIMIT
) -> bool:
    """Return whether fields of a new table compete for a name or a place, or cannot become columns."""
    return _new_schema(node, types, case_insensitive, limit)[1]


def has_case_twins(node: Node) -> bool:
    """Return whether two fields of an object differ by case only."""
    is_twin = len({folded(name) for name in node.fields}) < len(node.fields)
    return is_twin or any(has_case_twins(child) for child in node.fields.values())


def _new_schema(node: Node, types: ColumnTypes, case_insensitive: bool, limit: int) -> tuple[Schema, bool]:
    node = _without_case(node) if case_insensitive else node
    names = ColumnNames(iceberg.StructType(), limit)
    kind = _Types(names, types).of(node, ColumnPath())
    if names.refused:
        kind = _Types(ColumnNames(iceberg.StructType(), limit), types).of(_by_priority(node), ColumnPath())
    return Schema(*kind.fields) if isinstance(kind, iceberg.StructType) else Schema(), names.refused


def plan_evolution(
    table: Table,
    fields: Node,
    types: ColumnTypes = _INFERRED,
    case_insensitive: bool = False,
    limit: int = COLUMN_LIMIT,
    free: Iterable[str] = (),
) -> Evolution:
    """Plan columns for all fields that the current table lacks (driver); may be repeated safely.

    Fields that cannot become columns are left out; `refusal` finds them when their events are read again.

    Args:
        table: The table.
        fields: The fields of the events, as a struct.
        types: The declared types of columns.
        case_insensitive: Whether fields that differ by case only share a column.
        limit: The most columns of a table.
        free: Required columns to make optional.
    """
    columns = table.schema.as_struct()
    new = known_fields(fields, columns, case_insensitive)
    new = _without_case(new) if case_insensitive else new
    names = ColumnNames(columns, limit)
    add = list(_added(new, columns, _Types(names, types)))
    if names.refused:
        add = list(_added(_by_priority(new), columns, _Types(ColumnNames(columns, limit), types)))
    if table.format_version < DEFAULTS_SINCE:
        add = [column._replace(kind=without_defaults(column.kind), default=None) for column in add]
    return Evolution(add, list(_wider(widened(fields, columns), ())), sorted(free), names.refused)


def _added(new: Node, columns: iceberg.StructType, types: _Types) -> Iterator[NewColumn]:
    for path, name, node in _new_fields(new, columns, ColumnPath()):
        if types.names.add_if_free(path, name):
            column = json.loads(types.column(1, name, node, path).model_dump_json())
            yield NewColumn(path.steps, name, column["type"], node.doc, column.get("write-default"))


def refusal(node: Node, kind: iceberg.StructType, names: ColumnNames) -> Refusal | None:
    """Return why one of the new fields (of `known_fields`) cannot become a column; None if all can."""
    reasons = (names.refusal(path, name) for path, name, _ in _new_fields(node, kind, ColumnPath()))
    return next(filter(None, reasons), None)


def event_refusal(
    node: Node, kind: iceberg.StructType, names: ColumnNames, types: ColumnTypes, case_insensitive: bool = False
) -> Refusal | None:
    """Return why one of the new fields of a single event cannot become a column beside its others; None if all can."""
    new = _Types(names.copy(), types)
    for path, name, below in _new_fields(_without_case(node) if case_insensitive else node, kind, ColumnPath()):
        if refused := new.names.refusal(path, name):
            return refused
        new.names.add_if_free(path, name)
        new.of(below, path.field(name))
    return new.lost


def fits(path: ColumnPath, name: str, node: Node, names: ColumnNames, types: ColumnTypes) -> bool:
    """Add a field to a table's names, with what is inside; return whether all of it can become columns."""
    if not names.add_if_free(path, name):
        return False
    new = _Types(names, types)
    new.of(node, path.field(name))
    return new.lost is None


def without_refused(node: Node, kind: iceberg.IcebergType, names: ColumnNames, path: ColumnPath = _TOP) -> Node:
    """Return new fields (of `known_fields`) without those that cannot become columns."""
    types = {field.name: field.field_type for field in kind.fields} if isinstance(kind, iceberg.StructType) else {}
    fields: dict[str, Node] = {}
    for name, below in node.fields.items():
        if below.kind is not Kind.KNOWN:
            fields |= {} if names.refusal(path, name) else {name: below}
        elif isinstance(kind, iceberg.ListType):
            fields[name] = without_refused(below, kind.element_type, names, path.inside(ELEMENT))
        elif isinstance(kind, iceberg.MapType):
            fields[name] = without_refused(below, kind.value_type, names, path.inside(VALUE))
        elif name in types:
            fields[name] = without_refused(below, types[name], names, path.field(name))
    return replace(
        node, fields={name: field for name, field in fields.items() if field.kind is not Kind.KNOWN or field.fields}
    )


def _new_fields(node: Node, kind: iceberg.IcebergType, path: ColumnPath) -> Iterator[tuple[ColumnPath, str, Node]]:
    """Yield the new fields below a node of `known_fields`: the path of the struct, the field's name, its node."""
    types = {field.name: field.field_type for field in kind.fields} if isinstance(kind, iceberg.StructType) else {}
    for name, below in node.fields.items():
        if below.kind is not Kind.KNOWN:
            yield path, name, below
        elif isinstance(kind, iceberg.ListType):
            yield from _new_fields(below, kind.element_type, path.inside(ELEMENT))
        elif isinstance(kind, iceberg.MapType):
            yield from _new_fields(below, kind.value_type, path.inside(VALUE))
        elif name in types:
            yield from _new_fields(below, types[name], path.field(name))


def known_fields(node: Node, kind: iceberg.IcebergType, case_insensitive: bool = False) -> Node:
    """Return the fields without a column in a type; columns that contain such fields are `known`."""
    fields: dict[str, Node] = {}
    if node.kind not in (Kind.STRUCT, Kind.LIST, Kind.MAP, Kind.KNOWN):
        return Node(Kind.KNOWN)
    if isinstance(kind, iceberg.ListType) and ELEMENT in node.fields and node.kind is not Kind.STRUCT:
        fields = {ELEMENT: known_fields(node.fields[ELEMENT], kind.element_type, case_insensitive)}
    elif isinstance(kind, iceberg.MapType) and node.kind is not Kind.LIST:
        values = [node.fields[VALUE]] if node.kind is Kind.MAP else list(node.fields.values())
        below = [known_fields(child, kind.value_type, case_insensitive) for child in values]
        joined = Node(Kind.KNOWN)
        for child in below:
            joined = join(joined, child)
        fields = {VALUE: joined}
    elif isinstance(kind, iceberg.StructType) and node.kind not in (Kind.LIST, Kind.MAP):
        names = {child.name: child.field_type for child in kind.fields}
        by_fold = {folded(name): name for name in names} if case_insensitive else {}
        for name, child in node.fields.items():
            column = name if name in names or not by_fold else by_fold.get(folded(name), name)
            if column in names:
                fields[column] = known_fields(child, names[column], case_insensitive)
            elif child.kind is not Kind.NULL:
                fields[name] = child
    return Node(
        Kind.KNOWN, {name: child for name, child in fields.items() if child.kind is not Kind.KNOWN or child.fields}
    )


def _priority(field: tuple[str, Node]) -> tuple[int, str]:
    """Order fields that compete for a name or a place: those with the most values first, then lower case."""
    return -field[1].count, field[0].swapcase()


def _by_priority(node: Node) -> Node:
    fields = {name: _by_priority(below) for name, below in sorted(node.fields.items(), key=_priority)}
    return replace(node, fields=fields)


def _without_case(node: Node) -> Node:
    """Join fields that differ by case only, under the name of the most values."""
    fields: dict[str, Node] = {}
    names: dict[str, str] = {}
    for name, _ in sorted(node.fields.items(), key=_priority):
        names.setdefault(folded(name), name)
    for name, below in node.fields.items():
        name = names[folded(name)]
        below = _without_case(below)
        fields[name] = join(fields[name], below) if name in fields else below
    return replace(node, fields=fields)


def _wider(node: Node, path: Path) -> Iterator[tuple[str, str]]:
    """Yield the dotted names of columns to widen below a node of `widened`, and their new types."""
    for name, child in node.fields.items():
        if child.kind is Kind.KNOWN:
            yield from _wider(child, (*path, name))
        else:
            yield ".".join((*path, name)), str(_primitive(child))


def unclear(node: Node, types: ColumnTypes, path: Path = ()) -> Iterator[tuple[str, Kind]]:
    """Yield the dotted names of columns that become strings although their values are not plain texts, and why."""
    if path and types.of(path):
        return
    if node.kind in (Kind.DIGITS, Kind.MIXED) or (node.kind in (Kind.NANOS, Kind.ZONES) and types.date_times):
        yield ".".join(path), node.kind
    for name, child in node.fields.items():
        yield from unclear(child, types, (*path, name))


class _Types:
    """Creates the types of new columns, without those whose names conflict.

    Attributes:
        names: The names of all columns.
        lost: Why a field of a struct with other fields has no column; None if every value has a column.
    """

    def __init__(self, names: ColumnNames, types: ColumnTypes) -> None:
        self.names = names
        self.lost: Refusal | None = None
        self._types = types
        self._next_id = itertools.count(1).__next__

    def of(self, node: Node, path: ColumnPath) -> iceberg.IcebergType:
        """Return the type of a column; a string if no field inside of it can be a column."""
        if path.steps and (declared := self._types.of(path.steps, self._next_id)):
            self.names.add_type(declared, path)
            return declared
        if kind := self._of_objects(node, path):
            self.names.add_type(kind, path)
            return kind
        if len(path.steps) < NESTING_LIMIT:
            match node.kind:
                case Kind.STRUCT:
                    return self._struct(node, path)
                case Kind.LIST if self.names.add_inside_if_free(path, ELEMENT):
                    number = self._next_id()
                    element = self.of(node.fields[ELEMENT], path.inside(ELEMENT))
                    return iceberg.ListType(number, element, element_required=False)
                case Kind.MAP if self.names.add_inside_if_free(path, KEY, VALUE):
                    key, number = self._next_id(), self._next_id()
                    value = self.of(node.fields[VALUE], path.inside(VALUE))
                    by = self.of(node.fields[KEY], path.inside(KEY))
                    return iceberg.MapType(key, by, number, value, value_required=False)
                case Kind.DATE_TIME | Kind.LOCAL_DATE_TIME if not self._types.date_times:
                    return iceberg.StringType()
        return _primitive(node)

    def _of_objects(self, node: Node, path: ColumnPath) -> iceberg.IcebergType | None:
        """Return the type of a column with objects that is no struct; None for other columns."""
        inner = node
        while inner.kind is Kind.LIST:
            inner = inner.fields[ELEMENT]
        if not path.steps or inner.kind not in (Kind.STRUCT, Kind.EMPTY_OBJECT):
            return None
        kind = self._types.of_objects(path.steps, self._next_id)
        is_whole = inner is node or isinstance(kind, VariantType)  # no reader has variants in lists
        return kind if is_whole else None

    def column(self, number: int, name: str, node: Node, path: ColumnPath) -> iceberg.NestedField:
        """Return a column of the struct at a path, with its default."""
        kind, default = self.of(node, path.field(name)), self._types.default(path.field(name).steps)
        if default is None and node.default is not None:
            with suppress(ValueError):  # the column has another type than the schema says
                default = default_value(kind, node.default)
        defaults = {} if default is None else {"initial_default": default, "write_default": default}
        return iceberg.NestedField(number, name, kind, required=False, doc=node.doc or None, **defaults)

    def _struct(self, node: Node, path: ColumnPath) -> iceberg.IcebergType:
        present = [(name, child) for name, child in node.fields.items() if child.kind is not Kind.NULL]
        refused, numbered = None, []
        for name, child in present:
            if self.names.add_if_free(path, name):
                numbered.append((name, child, self._next_id()))
            else:
                refused = refused or self.names.refusal(path, name)
        self.lost = self.lost or (refused if numbered else None)
        fields = [self.column(number, name, child, path) for name, child, number in numbered]
        return iceberg.StructType(*fields) if fields else iceberg.StringType()


def _primitive(node: Node) -> iceberg.IcebergType:
    if node.kind is Kind.DECIMAL:
        return iceberg.DecimalType(max(sum(node.digits), 1), node.digits[1])
    if node.kind is Kind.FIXED:
        return iceberg.FixedType(node.digits[0])
    row = named(_COLUMNS.get(node.kind, node.kind))
    return iceberg.StringType() if row is OTHER else row.kind()
