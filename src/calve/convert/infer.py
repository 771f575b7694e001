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
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from calve.convert.column_types import ColumnTypes
from calve.convert.declared import by_schema, covered, overlay
from calve.convert.digits import long_numbers, with_extreme_exponents
from calve.convert.evolve import Budget, column_type, known_fields
from calve.convert.familiar import familiar
from calve.convert.fields import ALL_FIELDS, Fields
from calve.convert.kinds import number_kind, text_kind
from calve.convert.moments import Group, refined
from calve.convert.node import Kind, Node, join
from calve.convert.structure import from_structure, list_of
from calve.convert.widen import widened
from calve.event import duck
from calve.event.columns import EVENT, JSON
from calve.event.scan import Texts
from calve.event.sound import as_text, valid_mask
from calve.event.strict import MalformedError, Number, parse_object

__all__ = ["Inferred", "infer", "unknown_fields"]

_Mask = npt.NDArray[np.bool_]
_Seen = Iterator[tuple[Node, int, bool]]
_FIRST_LOOK = 2048  # rows that tell most of what there is to know


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

    def to_schema(self, limit: int = 1000, types: ColumnTypes | None = None) -> Schema:
        """Give the schema of a new table: all columns optional, at most `limit`; none where every field is null."""
        found = column_type(self.root, Budget(limit, types or ColumnTypes()), ())
        return Schema(*found.fields) if isinstance(found, iceberg.StructType) else Schema()

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
    for node, count, is_told in _seen(rows, known, fields):
        found = found.merge(Inferred(Node(Kind.STRUCT, fields.of(node.fields)), count, is_told or not count))
    return found


def unknown_fields(
    rows: pa.Table, schema: Schema, case_insensitive: bool = False, fields: Fields = ALL_FIELDS
) -> Inferred | None:
    """Infer those of the fields that a schema has no column for, at any depth; None if there are none.

    Fields that the rows' own schema makes wider than the column are among them (`widen.widened`).
    """
    found = Inferred()
    for node, count, is_told in _seen(rows, columns=schema.as_struct()):
        own = Node(Kind.STRUCT, fields.of(node.fields))
        new = known_fields(own, schema.as_struct(), case_insensitive)
        if is_told:
            new = join(new, widened(own, schema.as_struct()))
        if new.fields:
            found = found.merge(Inferred(Node(Kind.STRUCT, new.fields), count, is_told))
    return found if found.root.fields else None


def _seen(
    rows: pa.Table,
    known: Inferred | None = None,
    fields: Fields = ALL_FIELDS,
    columns: iceberg.StructType | None = None,
) -> _Seen:
    """Give what rows tell, their counts and whether a schema told it, in the order of first appearance.

    What adds nothing to what is known may be left out. Texts in fields that have a column are not looked at.
    """
    texts, sure, plain = _texts(rows)
    found: list[tuple[int, Node, int, bool]] = []
    for told, at in by_schema(rows):
        mine = texts if len(at) == len(texts) else texts.take(pa.array(at))
        new = ~_nothing_new(mine, sure[at], told, known, fields)
        first, nothing = (0, Node(Kind.STRUCT)) if told is None or not len(at) else (int(at[0]), told)
        found.append((first, nothing, len(at) - int(np.count_nonzero(new)), told is not None))
        at = at[new]
        for row, node, count in _shapes(mine.filter(pa.array(new)), plain[at], columns):
            found.append((int(at[row]), overlay(told, node) if told else node, count, told is not None))
    for _, node, count, is_told in sorted(found, key=lambda each: each[0]):
        yield node, count, is_told


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

    Not among them is what DuckDB reads although it is no JSON.
    """
    texts = as_text(rows[JSON] if JSON in rows.column_names else rows[EVENT])
    filled = pc.fill_null(texts, "") if texts.null_count else texts
    scan = Texts(filled)
    sure, long = np.ones(len(texts), bool), long_numbers(filled, scan)
    sure[scan.lenient()] = False
    sure[long.lost] = False
    plain = sure.copy()
    plain[long.wide] = False
    return filled, sure, plain


def _shapes(
    texts: pa.Array, plain: _Mask, columns: iceberg.StructType | None = None
) -> Iterator[tuple[int, Node, int]]:
    """Give each distinct structure, the first row that has it, and its count.

    DuckDB tells structures fast, but not all exactly: rows that are not plain, or where it says `JSON` (an empty
    object, mixed elements, a duplicate name), or which have an empty name, are read one by one.
    """
    if not len(texts):
        return
    plain = plain & ~with_extreme_exponents(texts)
    found: list[tuple[int, Node, int]] = []
    starts: list[int] = []
    groups: list[Group] = []
    for shape, at, members in _grouped(texts, plain):
        if '"JSON"' in shape or '"":' in shape:
            plain[members] = False
        else:
            starts.append(at)
            groups.append(
                Group(from_structure(json.loads(shape)), _from_value(parse_object(texts[at].as_py())), members)
            )
    nodes = refined(groups, texts, partial(_is_new, columns))
    found += [(at, node, len(each.rows)) for at, node, each in zip(starts, nodes, groups, strict=True)]
    for row in np.flatnonzero(~plain).tolist():
        try:
            found.append((row, _from_value(parse_object(texts[row].as_py())), 1))
        except MalformedError:
            continue
    for row, node, count in found:
        yield row, (node if node.kind is Kind.STRUCT else Node(Kind.STRUCT)), count


def _grouped(texts: pa.Array, plain: _Mask) -> Iterator[tuple[str, int, Any]]:
    """Group the plain rows by structure; rows that DuckDB refuses or that are no objects stop being plain."""
    sql = (
        "SELECT json_structure(json)::VARCHAR AS shape, min(row) AS first, list(row) AS rows"
        " FROM events GROUP BY shape ORDER BY first"
    )
    at = np.flatnonzero(plain)
    try:
        groups = duck.run(sql, events=_numbered(texts, at))
    except duckdb.InvalidInputException:
        refused = at[~valid_mask(texts.take(pa.array(at)))]
        plain[refused] = False
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


def _from_value(value: Any) -> Node:
    if value is None:
        return Node(Kind.NULL)
    if type(value) is bool:
        return Node(Kind.BOOLEAN)
    if type(value) is Number:
        return Node(number_kind(value))
    if type(value) is dict:
        fields = {name: _from_value(below) for name, below in value.items()}
        return Node(Kind.STRUCT, fields) if fields else Node(Kind.EMPTY_OBJECT)
    if type(value) is list:
        element = Node(Kind.NULL)
        for each in value:
            element = join(element, _from_value(each))
        return list_of(element)
    return Node(text_kind(value))
