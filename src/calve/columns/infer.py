"""Types for fields that have no column yet, found over all events of a batch (RFC 6.4).

Kinds form a lattice, so that the result does not depend on how the events were divided over tasks. Every digit is kept
(`kinds`): long ⊂ double where a double keeps all the numbers that were seen, else they are a string. Date-times are
timestamptz, with other texts a string. Everything mixed is a string, an object is a struct of all its fields, an array
a list of its joined elements; `{}` and `[]` alone are strings, null alone is no column. Fields stand in the order in
which they first appear. Where a row came with a schema (`_schema`), that tells the kinds of its fields (`declared`),
whose lattice is a part of this one, and values only tell of what it does not name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.arrays import RowNumbers
from calve.columns.connect_schema import by_schema, overlay
from calve.columns.core_spec import table_spec
from calve.columns.declared_types import ColumnTypes
from calve.columns.evolve import known_fields, new_schema, refusal, without_refused
from calve.columns.fields import ALL_FIELDS, Fields
from calve.columns.kinds import number_kind, text_kind
from calve.columns.names import COLUMN_LIMIT, NESTING_LIMIT, ColumnNames, folded
from calve.columns.node import ELEMENT, VALUE, Kind, Node, join
from calve.columns.options import ConvertOptions
from calve.columns.widen import widened
from calve.compiled import events as core
from calve.event.columns import EVENT
from calve.event.exact_json import MalformedError, Number, parse_object
from calve.event.reject import Reject
from calve.event.typed import is_typed
from calve.event.validate_json import whole_array

__all__ = ["Inferred", "Unknown", "UnknownColumns", "infer"]

_Seen = Iterator[tuple[Node, RowNumbers, bool]]


@dataclass(frozen=True)
class Inferred:
    """What was found out about fields; mergeable over tasks, in the order of their events.

    Attributes:
        root: The event as a struct; below it, columns that exist and hold new fields are of kind `known`.
        events: How many events it was seen in.
        is_declared: Whether all of these events came with a schema.
    """

    root: Node = field(default_factory=lambda: Node(Kind.STRUCT))
    events: int = 0
    is_declared: bool = True

    def __bool__(self) -> bool:
        return any(node.kind is not Kind.NULL for node in self.root.fields.values())

    def merge(self, other: Inferred) -> Inferred:
        """Join with what later events told; associative."""
        is_declared = self.is_declared and other.is_declared
        return Inferred(join(self.root, other.root), self.events + other.events, is_declared)

    def to_schema(
        self, limit: int = COLUMN_LIMIT, types: ColumnTypes | None = None, case_insensitive: bool = False
    ) -> Schema:
        """Return the schema of a new table: all columns optional, at most `limit`; none where every field is null."""
        return new_schema(self.root, types or ColumnTypes(), case_insensitive, limit)

    def encodable(self) -> Inferred:
        """Return it as JSON can hold it."""
        return replace(self, root=self.root.encodable())


def infer(rows: pa.Table, fields: Fields = ALL_FIELDS) -> Inferred:
    """Infer the fields of all events (`event`, and `_schema` if there is); malformed ones are passed over.

    Of typed rows (`_typed`) the schema says it all.

    Args:
        rows: The events.
        fields: The fields that are looked at.
    """
    found = Inferred()
    for node, at, is_told in _seen(rows, _Fields(ConvertOptions(fields=fields))):
        found = found.merge(Inferred(Node(Kind.STRUCT, fields.of(node.fields)), len(at), is_told or not len(at)))
    return found


class Unknown(NamedTuple):
    """What a table has no columns for.

    Attributes:
        fields: The fields that can become columns, and those that the rows' own schema makes wider than their column.
        rejects: The rows with a field that cannot become a column; their other fields are not among the first.
    """

    fields: Inferred
    rejects: list[Reject]


class UnknownColumns:
    """Finds those of the fields of events that a table has no column for, at any depth. For one thread.

    Args:
        schema: The table's schema.
        options: How its events are converted.
    """

    def __init__(self, schema: Schema, options: ConvertOptions) -> None:
        self._columns = schema.as_struct()
        self._options = options
        self._names = ColumnNames(self._columns, options.column_limit)
        self._all = _Fields(options)
        self._new = _Fields(options, schema)

    def seen(self, new: Node, count: int) -> Inferred | None:
        """Return what `look` would tell of events whose fields without a column are known; None: it has to reject some.

        Args:
            new: The fields, below the columns that hold them.
            count: How many events have some.
        """
        if refusal(new, self._columns, self._names):
            return None
        return Inferred(Node(Kind.STRUCT, new.fields), count, is_declared=False)

    def look(self, rows: pa.Table) -> Unknown:
        """Look at events (`event`, and `_schema` if there is)."""
        found, rejects = Inferred(), list[Reject]()
        for told, at in by_schema(rows):
            events = _events(rows, at)
            new, refused = self._untold(events) if told is None else self._told(events, told)
            rejects += [each._replace(row=int(at[each.row])) for each in refused]
            if new.fields:
                found = found.merge(Inferred(new, len(at) - len(refused), told is not None))
        return Unknown(found, rejects)

    def _untold(self, events: pa.Array) -> tuple[Node, list[Reject]]:
        """Return the new fields of events that only their values tell of, and the rows that are rejected."""
        new, rejects = Node(Kind.STRUCT), list[Reject]()
        for node, at in self._new.of(events):
            each = iter([(int(at[0]), node)])
            if refusal(node, self._columns, self._names):  # which events have that field, and the first one of each?
                each = self._new.one_by_one(events, at)
            for row, own in each:
                if refused := refusal(own, self._columns, self._names):
                    rejects.append(Reject(row, *refused))
                else:
                    new = join(new, Node(Kind.STRUCT, own.fields))
        return new, rejects

    def _told(self, events: pa.Array, told: Node) -> tuple[Node, list[Reject]]:
        """Return the same of events with a schema: only those with a value in a refused field are rejected."""
        own = told
        for node, _ in self._all.of(events):
            own = join(own, overlay(told, node))
        own = Node(Kind.STRUCT, self._options.fields.of(own.fields))
        new, rejects = known_fields(own, self._columns, self._options.case_insensitive), list[Reject]()
        if refusal(new, self._columns, self._names):
            rejects = self._untold(events)[1]
            new = without_refused(new, self._columns, self._names)
        return Node(Kind.STRUCT, join(new, widened(own, self._columns)).fields), rejects


def _seen(rows: pa.Table, look: _Fields) -> _Seen:
    """Yield what rows tell, which rows do, and whether a schema told it, in the order of first appearance."""
    found: list[tuple[int, Node, RowNumbers, bool]] = []
    for told, at in by_schema(rows):
        if told is not None and len(at):
            found.append((int(at[0]), told, at if is_typed(rows) else at[:0], True))
        if is_typed(rows):
            continue
        for node, members in look.of(_events(rows, at)):
            found.append((int(at[members[0]]), overlay(told, node) if told else node, at[members], told is not None))
    for _, node, at, is_told in sorted(found, key=lambda each: each[0]):
        yield node, at, is_told


def _events(rows: pa.Table, at: RowNumbers) -> pa.Array:
    events = whole_array(rows[EVENT])
    return events if len(at) == len(events) else events.take(pa.array(at))


class _Fields:
    """Finds the fields of events, or those that a schema has no columns for: then a column that has some is `known`."""

    def __init__(self, options: ConvertOptions, schema: Schema | None = None) -> None:
        self._core = core.observer(table_spec(schema or Schema(), options))
        self._fields = options.fields
        self._read: Callable[[Any], Node] = _from_value
        if schema is not None:
            self._read = partial(_new_fields, kind=schema.as_struct(), ignores_case=options.case_insensitive)

    def of(self, events: pa.Array) -> Iterator[tuple[Node, RowNumbers]]:
        """Yield fields, and the positions of the events that have them, in the order of the events."""
        seen = self._core.observe(events) if self._core and len(events) else None
        if seen is None or not seen.is_all:
            yield from self._each(events, 0, len(events))
            return
        if not len(seen.left):
            yield Node.from_json(seen.fields), np.arange(len(events))
            return
        start = 0
        for row in [*seen.left.tolist(), len(events)]:
            if row > start:
                yield from ((node, start + at) for node, at in self.of(events.slice(start, row - start)))
            yield from self._each(events, row, row + 1)
            start = row + 1

    def _each(self, events: pa.Array, start: int, end: int) -> Iterator[tuple[Node, RowNumbers]]:
        for row, node in self.one_by_one(events, np.arange(start, min(end, len(events)))):
            yield node, np.array([row])

    def one_by_one(self, events: pa.Array, at: RowNumbers) -> Iterator[tuple[int, Node]]:
        """Yield the positions of some events, of those that are JSON objects, and the fields of each."""
        for row in at.tolist():
            try:
                yield row, self._read(self._fields.of(parse_object(events[row].as_py())))
            except MalformedError:
                continue


def _new_fields(value: Any, kind: iceberg.IcebergType, ignores_case: bool, depth: int = 0) -> Node:
    """Return what a value holds that a type has no columns for, as a `known` field."""
    fields: dict[str, Node] = {}
    inside = partial(_new_fields, ignores_case=ignores_case, depth=depth + 1)
    match kind:
        case iceberg.StructType() if type(value) is dict:
            types = {each.name: each.field_type for each in kind.fields}
            by_fold = {folded(name): name for name in types} if ignores_case else {}
            for name, item in value.items():
                column = name if name in types else by_fold.get(folded(name)) if ignores_case else None
                if column in fields:  # two fields for one column: whatever it holds is not written
                    return _KNOWN
                if column is not None:
                    fields[column] = inside(item, types[column])
                elif item is not None:
                    fields[name] = _from_value(item, depth + 1)
        case iceberg.ListType() if type(value) is list:
            fields[ELEMENT] = reduce(join, (inside(item, kind.element_type) for item in value), _KNOWN)
        case iceberg.MapType() if type(value) is dict:
            fields[VALUE] = reduce(join, (inside(item, kind.value_type) for item in value.values()), _KNOWN)
    return Node(Kind.KNOWN, {name: each for name, each in fields.items() if each.kind is not Kind.KNOWN or each.fields})


_KNOWN = Node(Kind.KNOWN)


def _from_value(value: Any, depth: int = 0) -> Node:
    if value is None:
        return Node(Kind.NULL)
    if type(value) is bool:
        return Node(Kind.BOOLEAN)
    if type(value) is Number:
        return Node(number_kind(value))
    if type(value) is str:
        return Node(text_kind(value))
    if depth >= NESTING_LIMIT:
        return Node(Kind.STRING)
    if type(value) is dict:
        fields = {name: _from_value(below, depth + 1) for name, below in value.items()}
        return Node(Kind.STRUCT, fields) if fields or not depth else Node(Kind.EMPTY_OBJECT)
    element = Node(Kind.NULL)
    for each in value:
        element = join(element, _from_value(each, depth + 1))
    return Node(Kind.EMPTY_ARRAY) if element.kind is Kind.NULL else Node(Kind.LIST, {ELEMENT: element})
