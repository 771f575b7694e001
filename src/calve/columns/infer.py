"""Infers types for fields without a column, from all events of a batch (RFC 6.4).

Kinds form a lattice, so the result does not depend on how the events were divided over tasks. Every digit is kept
(`kinds`): long and double become double if a double can represent all the numbers, else a string. Date-times become
timestamptz if all have an offset, timestamp if none has one, else a string, as do date-times and other texts. Mixed
kinds become a string, an object a struct of all its fields, an array a list of its joined elements. `{}` and `[]` alone
become strings; null alone makes no column. Fields keep the order of their first appearance. If a row has a schema
(`_schema`), it declares the kinds of its fields; values only decide about fields that the schema does not declare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.arrays import RowNumbers
from calve.columns.connect_schema import by_schema, node_of, overlay
from calve.columns.core_spec import table_spec
from calve.columns.declared_types import ColumnTypes
from calve.columns.evolve import (
    Evolution,
    event_refusal,
    has_case_twins,
    known_fields,
    new_schema,
    plan_evolution,
    refusal,
    without_refused,
)
from calve.columns.fields import ALL_FIELDS, Fields
from calve.columns.kinds import number_kind, text_kind
from calve.columns.node import Kind, Node, join
from calve.columns.options import ConvertOptions
from calve.columns.widen import widened
from calve.compiled import events as core
from calve.event.column_names import COLUMN_LIMIT, ELEMENT, NESTING_LIMIT, VALUE, ColumnNames, Refusal, folded
from calve.event.columns import EVENT
from calve.event.envelope.schema import field_of
from calve.event.exact_json import MalformedError, Number, parse_object
from calve.event.reject import Reject
from calve.event.typed import is_typed
from calve.event.validate_json import whole_array
from calve.table.loaded import Table

__all__ = ["EventFields", "Inferred", "Unknown", "UnknownColumns", "infer", "may_be_refused", "node_of_value"]

_HALF_PAIR = r"\\u[dD][89a-fA-F]"
"""An escape of half a surrogate pair: a text with one half alone fits no column."""

_Found = Iterator[tuple[Node, RowNumbers, bool]]


@dataclass(frozen=True)
class Inferred:
    """The inferred fields; mergeable over tasks, in the order of their events.

    Attributes:
        root: The event as a struct; existing columns that contain new fields are of kind `known`.
        events: How many events have the fields.
        is_declared: Whether all of these events have a schema.
        key: The columns of the records' key (`event.columns.KEY`), if they identify the rows.
        absent: Required columns that the schemas of some events lack, to be made optional.
    """

    root: Node = field(default_factory=lambda: Node(Kind.STRUCT, count=0))
    events: int = 0
    is_declared: bool = True
    key: str = ""
    absent: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.absent) or any(node.kind is not Kind.NULL for node in self.root.fields.values())

    def merge(self, other: Inferred) -> Inferred:
        """Join with the fields of later events; associative."""
        is_declared = self.is_declared and other.is_declared
        root, events = join(self.root, other.root), self.events + other.events
        return Inferred(root, events, is_declared, self.key or other.key, self.absent | other.absent)

    def with_key(self, key: str) -> Inferred:
        """Return the fields with the types of a record's key, as far as its schema declares them."""
        fields = {name: node for name, node in node_of(key).fields.items() if name in self.root.fields}
        declared = {field.name for field in field_of(key).fields if field.kind}
        kept = {name: replace(fields[name], count=self.root.fields[name].count) for name in fields.keys() & declared}
        return replace(self, root=replace(self.root, fields={**self.root.fields, **kept}), key=key)

    @property
    def key_columns(self) -> list[str]:
        """The names of the columns of the records' key."""
        return [field.name for field in field_of(self.key).fields] if self.key else []

    @property
    def is_wrapped(self) -> bool:
        """Whether the events look like Kafka Connect's JSON with schema that was read as plain JSON."""
        return self.root.fields.keys() - {*self.key_columns} == {"schema", "payload"}

    def to_schema(
        self, limit: int = COLUMN_LIMIT, types: ColumnTypes | None = None, case_insensitive: bool = False
    ) -> Schema:
        """Return the schema of a new table: optional columns, at most `limit`; none if every field is null."""
        return new_schema(self.root, types or ColumnTypes(), case_insensitive, limit)

    def encodable(self) -> Inferred:
        """Remove fields whose names JSON cannot encode."""
        return replace(self, root=self.root.encodable())


def infer(rows: pa.Table, fields: Fields = ALL_FIELDS) -> Inferred:
    """Infer the fields of all events (`event`, and `_schema` if it exists); malformed ones are skipped.

    For typed rows (`_typed`) the schema alone decides.

    Args:
        rows: The events.
        fields: The fields to infer.
    """
    inferred = Inferred()
    for node, at, is_declared in _observe(rows, EventFields(ConvertOptions(fields=fields))):
        inferred = inferred.merge(
            Inferred(Node(Kind.STRUCT, fields.of(node.fields), count=0), len(at), is_declared or not len(at))
        )
    return inferred


def may_be_refused(rows: pa.Table, inferred: Inferred, case_insensitive: bool) -> bool:
    """Return whether an event could be rejected although all fields have the columns that were inferred from them."""
    if case_insensitive and has_case_twins(inferred.root):
        return True
    if EVENT not in rows.column_names:
        return False
    events = whole_array(rows[EVENT])
    return bool(pc.any(pc.match_substring_regex(events, _HALF_PAIR)).as_py())


class Unknown(NamedTuple):
    """Fields for which a table lacks columns.

    Attributes:
        fields: The fields that can become columns, and those whose declared type is wider than their column.
        rejects: The rows with a field that cannot become a column; `fields` has none of their fields.
    """

    fields: Inferred
    rejects: list[Reject]


class UnknownColumns:
    """Finds the fields of events for which a table lacks columns, at any depth. For one thread.

    Args:
        schema: The table's schema.
        options: How its events are converted.
    """

    def __init__(self, schema: Schema, options: ConvertOptions) -> None:
        self._columns = schema.as_struct()
        self._options = options
        self._names = ColumnNames(self._columns, options.column_limit)
        self._all = EventFields(options)
        self._new = EventFields(options, schema)

    def of_fields(self, new: Node, count: int) -> Inferred | None:
        """Return what `find` returns for events whose unknown fields the core has found; None if one must be rejected.

        Args:
            new: The fields, below the columns that contain them.
            count: How many events have such fields.
        """
        if self._refusal(new):
            return None
        return Inferred(Node(Kind.STRUCT, new.fields, count=0), count, is_declared=False)

    def needs(self, table: Table, unknown: Inferred) -> Evolution:
        """Return what must change in the table for all of its unknown fields."""
        options = self._options
        types, ignores_case, limit = options.types, options.case_insensitive, options.column_limit
        return plan_evolution(table, unknown.root, types, ignores_case, limit, unknown.absent)

    def _refusal(self, new: Node) -> Refusal | None:
        options = self._options
        return event_refusal(new, self._columns, self._names, options.types, options.case_insensitive)

    def find(self, rows: pa.Table) -> Unknown:
        """Find the unknown fields of events (`event`, and `_schema` if it exists)."""
        inferred, rejects = Inferred(), list[Reject]()
        for declared, at in by_schema(rows):
            events = _events(rows, at)
            new, refused = self._by_values(events) if declared is None else self._by_schema(events, declared)
            rejects += [reject._replace(row=int(at[reject.row])) for reject in refused]
            if new.fields:
                inferred = inferred.merge(Inferred(new, len(at) - len(refused), declared is not None))
        return Unknown(inferred, rejects)

    def _by_values(self, events: pa.Array) -> tuple[Node, list[Reject]]:
        """Return the new fields of events without a schema, and the rejected rows."""
        new, rejects = Node(Kind.STRUCT, count=0), list[Reject]()
        for node, at in self._new.of(events):
            fields_by_row = iter([(int(at[0]), node)])
            if self._refusal(node):  # find the events with that field, one by one
                fields_by_row = self._new.one_by_one(events, at)
            for row, fields in fields_by_row:
                if refused := self._refusal(fields):
                    rejects.append(Reject(row, *refused))
                else:
                    new = join(new, Node(Kind.STRUCT, fields.fields, count=0))
        return new, rejects

    def _by_schema(self, events: pa.Array, declared: Node) -> tuple[Node, list[Reject]]:
        """Return the same for events with a schema; only those with a value in a refused field are rejected."""
        fields = declared
        for node, _ in self._all.of(events):
            fields = join(fields, overlay(declared, node))
        fields = Node(Kind.STRUCT, self._options.fields.of(fields.fields))
        new, rejects = known_fields(fields, self._columns, self._options.case_insensitive), list[Reject]()
        if refusal(new, self._columns, self._names):
            rejects = self._by_values(events)[1]
            new = without_refused(new, self._columns, self._names)
        return Node(Kind.STRUCT, join(new, widened(fields, self._columns)).fields, count=0), rejects


def _observe(rows: pa.Table, reader: EventFields) -> _Found:
    """Yield nodes in the order of appearance, with the positions of their rows and whether a schema declared them."""
    observations: list[tuple[int, Node, RowNumbers, bool]] = []
    for declared, at in by_schema(rows):
        if declared is not None and len(at):
            observations.append((int(at[0]), declared, at if is_typed(rows) else at[:0], True))
        if is_typed(rows):
            continue
        for node, members in reader.of(_events(rows, at)):
            observations.append(
                (int(at[members[0]]), overlay(declared, node) if declared else node, at[members], declared is not None)
            )
    for _, node, at, is_declared in sorted(observations, key=lambda observation: observation[0]):
        yield node, at, is_declared


def _events(rows: pa.Table, at: RowNumbers) -> pa.Array:
    events = whole_array(rows[EVENT])
    return events if len(at) == len(events) else events.take(pa.array(at))


class EventFields:
    """Finds the fields of events; with a schema only unknown fields, below columns of kind `known`."""

    def __init__(self, options: ConvertOptions, schema: Schema | None = None) -> None:
        self._core = core.observer(table_spec(schema or Schema(), options))
        self._fields = options.fields
        self._read: Callable[[Any], Node] = node_of_value
        if schema is not None:
            self._read = partial(_new_fields, kind=schema.as_struct(), ignores_case=options.case_insensitive)

    def of(self, events: pa.Array) -> Iterator[tuple[Node, RowNumbers]]:
        """Yield fields, and the positions of their events, in the order of the events."""
        observed = self._core.observe(events) if self._core and len(events) else None
        if observed is None or not observed.is_all:
            yield from self._each(events, 0, len(events))
            return
        if not len(observed.left):
            yield Node.from_json(observed.fields), np.arange(len(events))
            return
        start = 0
        for row in [*observed.left.tolist(), len(events)]:
            if row > start:
                yield from ((node, start + at) for node, at in self.of(events.slice(start, row - start)))
            yield from self._each(events, row, row + 1)
            start = row + 1

    def _each(self, events: pa.Array, start: int, end: int) -> Iterator[tuple[Node, RowNumbers]]:
        for row, node in self.one_by_one(events, np.arange(start, min(end, len(events)))):
            yield node, np.array([row])

    def one_by_one(self, events: pa.Array, at: RowNumbers) -> Iterator[tuple[int, Node]]:
        """Yield the position and the fields of each of these events, if it is a JSON object."""
        for row in at.tolist():
            try:
                yield row, self._read(self._fields.of(parse_object(events[row].as_py())))
            except MalformedError:
                continue


def _new_fields(value: Any, kind: iceberg.IcebergType, ignores_case: bool, depth: int = 0) -> Node:
    """Return the parts of a value for which a type has no columns, as a `known` field."""
    fields: dict[str, Node] = {}
    inside = partial(_new_fields, ignores_case=ignores_case, depth=depth + 1)
    match kind:
        case iceberg.StructType() if type(value) is dict:
            types = {field.name: field.field_type for field in kind.fields}
            by_fold = {folded(name): name for name in types} if ignores_case else {}
            for name, item in value.items():
                column = name if name in types else by_fold.get(folded(name)) if ignores_case else None
                if column in fields:  # two fields for one column: conversion rejects the event
                    return _KNOWN
                if column is not None:
                    fields[column] = inside(item, types[column])
                elif item is not None:
                    fields[name] = node_of_value(item, depth + 1)
        case iceberg.ListType() if type(value) is list:
            fields[ELEMENT] = replace(
                reduce(join, (inside(item, kind.element_type) for item in value), _KNOWN), count=0
            )
        case iceberg.MapType() if type(value) is dict:
            fields[VALUE] = replace(
                reduce(join, (inside(item, kind.value_type) for item in value.values()), _KNOWN), count=0
            )
    return Node(
        Kind.KNOWN, {name: field for name, field in fields.items() if field.kind is not Kind.KNOWN or field.fields}
    )


_KNOWN = Node(Kind.KNOWN)


def node_of_value(value: Any, depth: int = 0) -> Node:
    """Return the kind of a parsed value, with its fields."""
    if value is None:
        return Node(Kind.NULL, count=0)
    if type(value) is bool:
        return Node(Kind.BOOLEAN)
    if type(value) is Number:
        return Node(number_kind(value))
    if type(value) is str:
        return Node(text_kind(value))
    if depth >= NESTING_LIMIT:
        return Node(Kind.STRING)
    if type(value) is dict:
        fields = {name: node_of_value(below, depth + 1) for name, below in value.items()}
        return Node(Kind.STRUCT, fields) if fields or not depth else Node(Kind.EMPTY_OBJECT)
    element = Node(Kind.NULL)
    for item in value:
        element = join(element, node_of_value(item, depth + 1))
    element = replace(element, count=0)
    return Node(Kind.EMPTY_ARRAY) if element.kind is Kind.NULL else Node(Kind.LIST, {ELEMENT: element})
