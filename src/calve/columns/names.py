"""Which names a new column can have beside the columns of a table, so that every reader can tell them apart.

A name must be one of its own for Iceberg (dotted paths), for Spark (case is ignored) and in Parquet files (characters
that Avro does not allow are spelled out). The decision needs the table's schema alone: tasks and the driver agree.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pyiceberg import types as iceberg
from pyiceberg.schema import make_compatible_name

from calve.columns.node import ELEMENT, KEY, VALUE, has_half_surrogate
from calve.event.reject import Code, cut

__all__ = ["COLUMN_LIMIT", "NESTING_LIMIT", "ColumnNames", "Place", "Refusal", "folded"]

COLUMN_LIMIT = 1_000
"""So many columns (fields of structs counted) inference may bring a table to; random keys must not destroy it."""
NESTING_LIMIT = 16
"""How deep columns may be nested; what is nested deeper is JSON text. DuckDB's reader takes twice as long a level."""
_LONGEST = 255
"""Characters of a name, as many as Glue and other catalogs take."""
_RESERVED = {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
_RESERVED |= {"_change_type", "_change_ordinal", "_commit_snapshot_id"}
"""Iceberg's metadata columns (`MetadataColumns`): Spark cannot read a table that has a column of such a name."""
_HINT = "rename it or leave it out (exclude_keys)"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


class Refusal(NamedTuple):
    """Why a field cannot become a column: the code, the field's path and the reason of a reject."""

    code: Code
    field: str
    reason: str


class Place(NamedTuple):
    """A struct that may get columns: the steps to it, and these without elements and values (Iceberg's short name)."""

    path: tuple[str, ...] = ()
    short: tuple[str, ...] = ()

    def field(self, name: str) -> Place:
        """Return the place of a field of this struct."""
        return Place((*self.path, name), (*self.short, name))

    def inside(self, step: str) -> Place:
        """Return the place of a list's elements or a map's keys or values."""
        return Place((*self.path, step), self.short)

    @property
    def name(self) -> str:
        """The dotted name of a column."""
        return ".".join(self.path)


def folded(name: str) -> str:
    """Return a name without its case, as Java's `equalsIgnoreCase` and `toLowerCase` see it: the same for both of them.

    Character by character, so that `ß` is not `ss`, but `ſ` is `s` and `İ` is `i`.
    """
    if name.isascii():
        return name.lower()
    upper = (one.upper() if len(one.upper()) == 1 else one for one in name)
    return "".join(one.lower() for one in upper).replace("i̇", "i")


class ColumnNames:
    """The columns of a table, and those it gets.

    Args:
        kind: The table's columns.
        limit: How many columns it may have.
    """

    def __init__(self, kind: iceberg.StructType, limit: int = COLUMN_LIMIT) -> None:
        self._limit = limit
        self._count = 0
        self._names: dict[str, str] = {}
        self._stored: dict[tuple[tuple[str, ...], str], str] = {}
        self.add_type(kind, Place())

    def refusal(self, parent: Place, name: str) -> Refusal | None:
        """Return why a struct cannot get a column of a name, or None if it can."""
        place = parent.field(name)
        reason = self._fault(parent, place, name)
        if reason:
            return Refusal(Code.AMBIGUOUS_FIELD, cut(place.name), f"the field cannot become a column: {reason}")
        if self._count >= self._limit:
            reason = "the table has as many columns as inference may add, and the field has none"
            return Refusal(Code.TOO_MANY_COLUMNS, cut(place.name), reason)
        return None

    def take(self, parent: Place, name: str) -> bool:
        """Add a column if the struct can get it; return whether it did."""
        if self.refusal(parent, name):
            return False
        self._add(parent, name)
        return True

    def take_inside(self, place: Place, *steps: str) -> bool:
        """Add what Iceberg names below a list or a map if no column is named so; return whether it did."""
        inside = {folded(name): name for name in (place.inside(step).name for step in steps)}
        if inside.keys() & self._names.keys():
            return False
        self._names.update(inside)
        return True

    def _fault(self, parent: Place, place: Place, name: str) -> str | None:
        if not name:
            return f"it has no name; {_HINT}"
        if len(name) > _LONGEST:
            return f"its name has {len(name):,} characters, and {_LONGEST} are the most; {_HINT}"
        if has_half_surrogate(name):
            return f"its name has half a surrogate pair; {_HINT}"
        if "\0" in name:
            return f"its name has a NUL character; {_HINT}"
        if not parent.path and folded(name) in _RESERVED:
            return f"Iceberg keeps the name for itself; {_HINT}"
        other = self._same(place.name, True) or self._same(".".join(place.short), False)
        if other and folded(other) == folded(place.name) and other != place.name:
            return f"it differs from the column {cut(other)} by case only; {_HINT}, or set case_insensitive: true"
        if other:
            return f"its full name is that of the column {cut(other)}; {_HINT}"
        stored = self._stored.get((parent.path, _stored(name)))
        return f"in Parquet files it has the same name as the column {cut(stored)}; {_HINT}" if stored else None

    def _same(self, name: str, is_full: bool) -> str | None:
        """Return the column that has the name already. An equal short name does no harm to a new column's."""
        other = self._names.get(folded(name))
        return None if other == name and not is_full else other

    def _add(self, parent: Place, name: str) -> None:
        place = parent.field(name)
        self._count += 1
        self._names[folded(place.name)] = place.name
        self._names.setdefault(folded(".".join(place.short)), ".".join(place.short))
        self._stored[parent.path, _stored(name)] = place.name

    def add_type(self, kind: iceberg.IcebergType, place: Place) -> None:
        """Add the columns of a type at a place."""
        match kind:
            case iceberg.StructType():
                for each in kind.fields:
                    self._add(place, each.name)
                    self.add_type(each.field_type, place.field(each.name))
            case iceberg.ListType():
                self.take_inside(place, ELEMENT)
                self.add_type(kind.element_type, place.inside(ELEMENT))
            case iceberg.MapType():
                self.take_inside(place, KEY, VALUE)
                self.add_type(kind.value_type, place.inside(VALUE))


def _stored(name: str) -> str:
    """Return a name as Iceberg's Java writes it into Parquet files."""
    return name if _PLAIN(name) else make_compatible_name(name)
