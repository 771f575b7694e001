"""Decides the Iceberg type of a column from its declared type in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from calve.sources.database.table import depth_of
from calve.sources.postgres.protocol.wire import PostgresConnection, Row

__all__ = ["Types", "with_depth"]

_KINDS = {
    "bool": "boolean",
    "int2": "int",
    "int4": "int",
    "int8": "long",
    "oid": "long",
    "xid": "long",
    "float4": "float",
    "float8": "double",
    "bytea": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
    "uuid": "uuid",
}
"""Types of `pg_catalog` with a type of Iceberg that holds their values; all others are strings, as PostgreSQL writes
them."""
_NO_LISTS = frozenset({"int2vector", "oidvector"})
_MODIFIER_HEAD = 4
_MOST_DIGITS = 38
_SCALE_BITS, _SCALE_SIGN = 0x7FF, 0x400
_TYPES = """
select t.oid, t.typname, t.typnamespace = 'pg_catalog'::regnamespace, t.typtype, t.typcategory, t.typbasetype,
  t.typtypmod, case when t.typlen = -1 then t.typelem else 0 end, t.typdelim
from pg_catalog.pg_type t where t.oid in ({oids})
"""


class _Type(NamedTuple):
    name: str
    is_builtin: bool
    is_domain: bool
    is_array: bool
    base: int
    modifier: int
    element: int
    delimiter: str = ","


class Types:
    """The types of one database, loaded as columns need them."""

    def __init__(self) -> None:
        self._known: dict[int, _Type] = {}

    def load(self, connection: PostgresConnection, oids: Iterable[int]) -> None:
        """Load types, and those that they are made of.

        Raises:
            ClosedError: The connection was lost.
            ServerError: The server refuses.
        """
        missing = {oid for oid in oids if oid not in self._known}
        while missing:
            rows = connection.query(_TYPES.format(oids=", ".join(map(str, sorted(missing)))))
            loaded = {int(row[0] or 0): _type(row) for row in rows}
            self._known |= loaded
            made_of = {part for pg_type in loaded.values() for part in (pg_type.base, pg_type.element) if part}
            missing = made_of - self._known.keys()

    def kind(self, oid: int, modifier: int) -> str:
        """Return the Iceberg type of a column; a type that no longer exists is a string."""
        pg_type = self._known.get(oid)
        while pg_type is not None and pg_type.is_domain:
            oid, modifier = pg_type.base, pg_type.modifier if modifier < 0 else modifier
            pg_type = self._known.get(oid)
        if pg_type is None:
            return "string"
        if pg_type.is_array and pg_type.name not in _NO_LISTS:
            element = self._known.get(pg_type.element)
            inner = self.kind(pg_type.element, modifier)
            is_flat = element is not None and element.delimiter == "," and not inner.startswith("list<")
            return f"list<{inner}>" if is_flat else "string"
        if not pg_type.is_builtin:
            return "string"
        return _decimal(modifier) if pg_type.name == "numeric" else _KINDS.get(pg_type.name, "string")


def with_depth(kind: str, depth: int) -> str:
    """Return the type of a list with so many levels; other types stay as they are."""
    levels, inner = depth_of(kind)
    return f"{'list<' * max(depth, 1)}{inner}{'>' * max(depth, 1)}" if levels else kind


def _decimal(modifier: int) -> str:
    """Return the type of a numeric: a string if it has no fixed scale, or more digits than Iceberg has."""
    if modifier < _MODIFIER_HEAD:
        return "string"
    precision, scale = (modifier - _MODIFIER_HEAD) >> 16, (modifier - _MODIFIER_HEAD) & _SCALE_BITS
    scale = (scale ^ _SCALE_SIGN) - _SCALE_SIGN
    if not 0 <= scale <= precision <= _MOST_DIGITS:
        return "string"
    return f"decimal({precision}, {scale})"


def _type(row: Row) -> _Type:
    return _Type(
        name=row[1] or "",
        is_builtin=row[2] == "t",
        is_domain=row[3] == "d",
        is_array=row[4] == "A" and row[7] != "0",
        base=int(row[5] or 0),
        modifier=int(row[6] or -1),
        element=int(row[7] or 0),
        delimiter=row[8] or "",
    )
