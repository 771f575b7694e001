"""Types for fields that have no column yet, found over all events of a batch (RFC 6.4).

Kinds form a lattice, so that the result does not depend on how the events were divided over tasks. Every digit is kept
(`kinds`): long ⊂ double where a double keeps all the numbers that were seen, else they are a string. Date-times are
timestamptz, with other texts a string. Everything mixed is a string, an object is a struct of all its fields, an array
a list of its joined elements; `{}` and `[]` alone are strings, null alone is no column. Fields stand in the order in
which they first appear. Where a row came with a schema (`_schema`), that tells the kinds of its fields (`declared`),
whose lattice is a part of this one, and values only tell of what it does not name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.convert.column_names import COLUMN_LIMIT, NESTING_LIMIT, ColumnNames
from calve.convert.column_types import ColumnTypes
from calve.convert.declared import by_schema, covered, overlay
from calve.convert.digits import long_numbers, with_extreme_exponents
from calve.convert.evolve import known_fields, new_schema, refusal, without_refused
from calve.convert.familiar import familiar
from calve.convert.fields import ALL_FIELDS, Fields
from calve.convert.kinds import number_kind, text_kind
from calve.convert.moments import Group, refined
from calve.convert.node import Kind, Node, join
from calve.convert.options import ConvertOptions
from calve.convert.structure import from_structure, list_of
from calve.convert.widen import widened
from calve.event import duck
from calve.event.columns import EVENT, JSON, SCHEMA
from calve.event.reject import Reject
from calve.event.scan import Texts
from calve.event.sound import as_text, is_same, valid_mask
from calve.event.strict import MalformedError, Number, parse_object

__all__ = ["Inferred", "Unknown", "infer", "unknown_fields"]

_Mask = npt.NDArray[np.bool_]
_Rows = npt.NDArray[np.int64]
_Seen = Iterator[tuple[Node, _Rows, bool]]
_FIRST_LOOK = 2048  # rows that tell most of what there is to know
_DUCKDB_LEVELS = 100  # `json_structure` fails beyond 128


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

    def to_json(self) -> dict[str, Any]:
        """Give it as JSON values; `from_json` is the way back."""
        return {"events": self.events, "is_declared": self.is_declared, "root": self.root.to_json()}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Inferred:
        """Read what `to_json` gave."""
        return Inferred(Node.from_json(data["root"]), data["events"], data["is_declared"])


def infer(rows: pa.Table, known: Inferred | None = None, fields: Fields = ALL_FIELDS) -> Inferred:
    """Infer the fields of all events (`event`, and `json` and `_schema` if there are); malformed ones are passed over.

    Args:
        rows: The events.
        known: What earlier events told, to be merged with the result: events that add nothing to it are only counted.
        fields: The fields that are looked at.
    """
    if known is None and len(rows) > _FIRST_LOOK:
        known = infer(rows.slice(0, _FIRST_LOOK), None, fields)
        return known.merge(infer(rows.slice(_FIRST_LOOK), known, fields))
    found = Inferred()
    for node, at, is_told in _seen(rows, known, fields):
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


def unknown_fields(rows: pa.Table, schema: Schema, names: ColumnNames, options: ConvertOptions) -> Unknown:
    """Infer those of the fields that a schema has no column for, at any depth.

    Args:
        rows: The events.
        schema: The table's schema.
        names: The names of its columns.
        options: How its events are converted.
    """
    found, columns, rejects = Inferred(), schema.as_struct(), list[Reject]()
    for node, at, is_told in _seen(rows, columns=columns):
        own = Node(Kind.STRUCT, options.fields.of(node.fields))
        new = known_fields(own, columns, options.case_insensitive)
        if (refused := refusal(new, columns, names)) and is_told:  # only events with a value there are rejected
            untold = rows.take(pa.array(at)).drop_columns([SCHEMA])
            found_there = unknown_fields(untold, schema, names, options).rejects
            rejects += [each._replace(row=int(at[each.row])) for each in found_there]
            new = without_refused(new, columns, names)
        elif refused:
            rejects += [Reject(row, *refused) for row in at.tolist()]
            continue
        if is_told:
            new = join(new, widened(own, columns))
        if new.fields:
            found = found.merge(Inferred(Node(Kind.STRUCT, new.fields), len(at), is_told))
    return Unknown(found, rejects)


def _seen(
    rows: pa.Table,
    known: Inferred | None = None,
    fields: Fields = ALL_FIELDS,
    columns: iceberg.StructType | None = None,
) -> _Seen:
    """Yield what rows tell, which rows do, and whether a schema told it, in the order of first appearance.

    What adds nothing to what is known may be left out. Texts in fields that have a column are not looked at.
    """
    texts, sure, plain = _texts(rows)
    found: list[tuple[int, Node, _Rows, bool]] = []
    for told, at in by_schema(rows):
        mine = texts if len(at) == len(texts) else texts.take(pa.array(at))
        new = ~_nothing_new(mine, sure[at], told, known, fields)
        first, nothing = (0, Node(Kind.STRUCT)) if told is None or not len(at) else (int(at[0]), told)
        found.append((first, nothing, at[~new], told is not None))
        at = at[new]
        for node, members in _shapes(mine.filter(pa.array(new)), plain[at], columns):
            found.append((int(at[members.min()]), overlay(told, node) if told else node, at[members], told is not None))
    for _, node, at, is_told in sorted(found, key=lambda each: each[0]):
        yield node, at, is_told


def _nothing_new(texts: pa.Array, sure: _Mask, told: Node | None, known: Inferred | None, fields: Fields) -> _Mask:
    """Say which of the rows of one schema certainly tell nothing beyond it, or beyond what is known."""
    if told is None:
        return sure & familiar(texts, known.root, fields) if known is not None else np.zeros(len(texts), bool)
    at = np.flatnonzero(sure)
    new = np.zeros(len(texts), bool)
    new[at] = covered(texts.take(pa.array(at)), told)
    return new


def _texts(rows: pa.Table) -> tuple[pa.Array, _Mask, _Mask]:
    """Return the texts without nulls, which DuckDB keeps the numbers of, and which also a double keeps whole ones of.

    Not among them is what DuckDB reads although it is no JSON, and an event whose `json` is another text, as its names
    may be others there.
    """
    texts = as_text(rows[EVENT])
    is_other = np.zeros(len(texts), bool)
    if JSON in rows.column_names and not is_same(json_texts := as_text(rows[JSON]), texts):
        is_other = pc.fill_null(pc.not_equal(json_texts, texts), True).to_numpy(zero_copy_only=False)
    filled = pc.fill_null(texts, "") if texts.null_count else texts
    scan = Texts(filled)
    sure, long = ~is_other, long_numbers(filled, scan)
    sure[scan.lenient()] = False
    sure[long.lost] = False
    plain = sure.copy()
    plain[long.wide] = False
    return filled, sure, plain


def _shapes(texts: pa.Array, plain: _Mask, columns: iceberg.StructType | None = None) -> Iterator[tuple[Node, _Rows]]:
    """Yield each distinct structure and the rows that have it.

    DuckDB tells structures fast, but not all exactly: rows that are not plain, or where it says `JSON` (an empty
    object, mixed elements, a duplicate name), or which have an empty name, are read one by one.
    """
    if not len(texts):
        return
    plain = plain & ~with_extreme_exponents(texts)
    groups: list[Group] = []
    for shape, at, members in _grouped(texts, plain):
        if '"JSON"' in shape or '"":' in shape:
            plain[members] = False
        else:
            groups.append(
                Group(from_structure(json.loads(shape)), _from_value(parse_object(texts[at].as_py())), members)
            )
    nodes = refined(groups, texts, partial(_is_new, columns))
    for node, group in zip(nodes, groups, strict=True):
        yield (node if node.kind is Kind.STRUCT else Node(Kind.STRUCT)), group.rows
    for row in np.flatnonzero(~plain).tolist():
        try:
            node = _from_value(parse_object(texts[row].as_py()))
        except MalformedError:
            continue
        yield (node if node.kind is Kind.STRUCT else Node(Kind.STRUCT)), np.array([row])


def _grouped(texts: pa.Array, plain: _Mask) -> Iterator[tuple[str, int, Any]]:
    """Group the plain rows by structure.

    Rows that DuckDB refuses, that may be too deep for it or that are no objects stop being plain.
    """
    sql = (
        "SELECT json_structure(json)::VARCHAR AS shape, min(row) AS first, list(row) AS rows"
        " FROM events GROUP BY shape ORDER BY first"
    )
    at = np.flatnonzero(plain)
    try:
        groups = duck.run(sql, events=_numbered(texts, at))
    except duckdb.InvalidInputException:
        mine = texts.take(pa.array(at))
        plain[at[~valid_mask(mine)]] = False
        plain[at[Texts(mine).deep(_DUCKDB_LEVELS)]] = False
        groups = duck.run(sql, events=_numbered(texts, np.flatnonzero(plain)))
    for shape, first, rows in zip(
        groups["shape"].to_pylist(), groups["first"].to_pylist(), groups["rows"], strict=True
    ):
        members = rows.values.to_numpy()
        if shape.startswith("{"):
            yield shape, first, members
        else:
            plain[members] = False


def _numbered(texts: pa.Array, at: Any) -> pa.Table:
    return pa.table({JSON: texts if len(at) == len(texts) else texts.take(pa.array(at)), "row": pa.array(at)})


def _is_new(columns: iceberg.StructType | None, path: Sequence[str | None]) -> bool:
    """Return whether the field at a path has no column."""
    kind: iceberg.IcebergType | None = columns
    for name in path:
        match kind:
            case iceberg.StructType():
                kind = next((each.field_type for each in kind.fields if each.name == name), None)
            case iceberg.ListType():
                kind = kind.element_type
            case iceberg.MapType():
                kind = kind.value_type
    return kind is None


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
        return Node(Kind.STRUCT, fields) if fields else Node(Kind.EMPTY_OBJECT)
    element = Node(Kind.NULL)
    for each in value:
        element = join(element, _from_value(each, depth + 1))
    return list_of(element)
