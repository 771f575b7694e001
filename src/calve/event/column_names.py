"""Checks the names of new columns against those of a table, so that every reader can distinguish them.

A name must be unique for Iceberg (dotted paths), for Spark (case is ignored) and in Parquet files (characters that
Avro does not allow are escaped). Only the table's schema decides, so tasks and the driver agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from pyiceberg import types as iceberg
from pyiceberg.schema import make_compatible_name

from calve.event.control_characters import has_control
from calve.event.reject import Code, cut

__all__ = [
    "COLUMN_LIMIT",
    "ELEMENT",
    "KEY",
    "NESTING_LIMIT",
    "PLAIN",
    "RESERVED",
    "VALUE",
    "ColumnNames",
    "ColumnPath",
    "Refusal",
    "folded",
    "has_half_surrogate",
    "type_faults",
    "unreserved",
]

ELEMENT, KEY, VALUE = "element", "key", "value"
"""Iceberg's names below a list and a map."""

COLUMN_LIMIT = 1_000
"""The most columns, with fields of structs, of a table after inference; random keys must not destroy it."""
NESTING_LIMIT = 16
"""The depth of nested columns; deeper values become JSON text. DuckDB's reader takes twice as long per level."""
_LONGEST = 255
"""The most characters of a name in Glue and other catalogs."""
RESERVED = {"_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id", "_last_updated_sequence_number"}
RESERVED |= {"_change_type", "_change_ordinal", "_commit_snapshot_id"}
"""Iceberg's metadata columns (`MetadataColumns`): Spark cannot read a table with a column of such a name."""
_HINT = "rename it or leave it out (exclude_keys)"
_BY_CASE = " by case only"
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


class Refusal(NamedTuple):
    """Why a field cannot become a column: the code, the field's path and the reason of a reject."""

    code: Code
    field: str
    reason: str


class ColumnPath(NamedTuple):
    """The path of a column: all steps, and those without elements and values (Iceberg's short name)."""

    steps: tuple[str, ...] = ()
    short: tuple[str, ...] = ()

    def field(self, name: str) -> ColumnPath:
        """Return the path of a field of this struct."""
        return ColumnPath((*self.steps, name), (*self.short, name))

    def inside(self, step: str) -> ColumnPath:
        """Return the path of a list's elements or a map's keys or values."""
        return ColumnPath((*self.steps, step), self.short)

    @property
    def name(self) -> str:
        """The dotted name of a column."""
        return ".".join(self.steps)


_TOP = ColumnPath()


def folded(name: str) -> str:
    """Fold the case of a name so that names that Java's `equalsIgnoreCase` or `toLowerCase` equates become equal.

    Character by character, so that `ß` is not `ss`, but `ſ` is `s` and `İ` is `i`.
    """
    if name.isascii():
        return name.lower()
    upper = (character.upper() if len(character.upper()) == 1 else character for character in name)
    return "".join(character.lower() for character in upper).replace("i̇", "i")


def has_half_surrogate(name: str) -> bool:
    """Return whether a name cannot be written as UTF-8."""
    return not name.isascii() and any("\ud800" <= character <= "\udfff" for character in name)


def unreserved(name: str) -> str:
    """Return a name of a column that Iceberg does not reserve: `_deleted` becomes `deleted_`."""
    return f"{name.lstrip('_')}_" if folded(name) in RESERVED else name


class ColumnNames:
    """The names of a table's columns and of its new ones.

    Args:
        kind: The table's columns.
        limit: How many columns it may have.

    Attributes:
        refused: Whether a column was not added, because it cannot be one or others have its name or place.
    """

    def __init__(self, kind: iceberg.StructType, limit: int = COLUMN_LIMIT) -> None:
        self.refused = False
        self._limit = limit
        self._count = 0
        self._names: dict[str, str] = {}
        self._stored: dict[tuple[tuple[str, ...], str], str] = {}
        self.add_type(kind, ColumnPath())

    def refusal(self, parent: ColumnPath, name: str) -> Refusal | None:
        """Return why a struct cannot get a column with a name, or None if it can."""
        path = parent.field(name)
        reason = self.fault(parent, name)
        if reason:
            way_out = ", or set case_insensitive: true" if reason.endswith(_BY_CASE) else ""
            reason = f"the field cannot become a column: {reason}; {_HINT}{way_out}"
            return Refusal(Code.AMBIGUOUS_FIELD, cut(path.name), reason)
        if self._count >= self._limit:
            reason = "the table has the most columns that inference may add, and the field has none"
            return Refusal(Code.TOO_MANY_COLUMNS, cut(path.name), reason)
        return None

    def copy(self) -> ColumnNames:
        """Return the same names, to which others can be added."""
        names = ColumnNames(iceberg.StructType(), self._limit)
        names._count, names._names, names._stored = self._count, dict(self._names), dict(self._stored)
        return names

    def add_if_free(self, parent: ColumnPath, name: str) -> bool:
        """Add a column if the struct can have it; return whether it was added."""
        if self.refusal(parent, name):
            self.refused = True
            return False
        self._add(parent, name)
        return True

    def add_inside_if_free(self, path: ColumnPath, *steps: str) -> bool:
        """Add Iceberg's names below a list or a map if they are free; return whether they were added."""
        inside = {folded(name): name for name in (path.inside(step).name for step in steps)}
        if inside.keys() & self._names.keys():
            self.refused = True
            return False
        self._names.update(inside)
        return True

    def fault(self, parent: ColumnPath, name: str) -> str | None:
        """Return why readers could not distinguish a struct's column of this name, or None if they can."""
        path = parent.field(name)
        if not name:
            return "its name is empty"
        if len(name) > _LONGEST:
            return f"its name has {len(name):,} characters, more than {_LONGEST}"
        if has_half_surrogate(name):
            return "its name has half a surrogate pair"
        if has_control(name):
            return "its name has a control or format character"
        if not parent.steps and folded(name) in RESERVED:
            return "Iceberg reserves the name"
        other = self._same(path.name, True) or self._same(".".join(path.short), False)
        if other and folded(other) == folded(path.name) and other != path.name:
            return f"it differs from the column {cut(other)}{_BY_CASE}"
        if other:
            return f"it has the same full name as the column {cut(other)}"
        stored = self._stored.get((parent.steps, _stored(name)))
        return f"in Parquet files it has the same name as the column {cut(stored)}" if stored else None

    def _same(self, name: str, is_full: bool) -> str | None:
        """Return the column that has the name already; two equal short names do not conflict."""
        other = self._names.get(folded(name))
        return None if other == name and not is_full else other

    def _add(self, parent: ColumnPath, name: str) -> None:
        path = parent.field(name)
        self._count += 1
        self._names[folded(path.name)] = path.name
        self._names.setdefault(folded(".".join(path.short)), ".".join(path.short))
        self._stored[parent.steps, _stored(name)] = path.name

    def add_type(self, kind: iceberg.IcebergType, path: ColumnPath) -> None:
        """Add the columns of a type at a path."""
        match kind:
            case iceberg.StructType():
                for field in kind.fields:
                    self._add(path, field.name)
                    self.add_type(field.field_type, path.field(field.name))
            case iceberg.ListType():
                self.add_inside_if_free(path, ELEMENT)
                self.add_type(kind.element_type, path.inside(ELEMENT))
            case iceberg.MapType():
                self.add_inside_if_free(path, KEY, VALUE)
                self.add_type(kind.value_type, path.inside(VALUE))


def type_faults(kind: iceberg.IcebergType, names: ColumnNames, path: ColumnPath = _TOP) -> Iterator[tuple[str, str]]:
    """Add the columns of a type at a path; yield those that readers could not distinguish, each with the reason."""
    match kind:
        case iceberg.StructType():
            for field in kind.fields:
                below = path.field(field.name)
                if fault := names.fault(path, field.name):
                    yield below.name, fault
                elif names.add_if_free(path, field.name):
                    yield from type_faults(field.field_type, names, below)
        case iceberg.ListType() if names.add_inside_if_free(path, ELEMENT):
            yield from type_faults(kind.element_type, names, path.inside(ELEMENT))
        case iceberg.MapType() if names.add_inside_if_free(path, KEY, VALUE):
            yield from type_faults(kind.value_type, names, path.inside(VALUE))
        case iceberg.ListType() | iceberg.MapType():
            yield path.name, "another column has the name of what is inside of it"


def _stored(name: str) -> str:
    """Return a name in the form that Iceberg's Java writes into Parquet files."""
    return name if PLAIN(name) else make_compatible_name(name)
