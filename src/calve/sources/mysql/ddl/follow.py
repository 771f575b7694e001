"""Follows what is said about the columns of a table: new, widened and dropped ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from calve.observe.humanize import many
from calve.sources.database.follow import check, conflict
from calve.sources.database.survey import kept_text
from calve.sources.database.table import Column, DatabaseTable
from calve.sources.mysql.catalog.column_types import CODECS, REFUSED_TYPES, decoded, kind_of
from calve.sources.mysql.ddl.alter import Alteration
from calve.sources.mysql.protocol.addresses import ADDRESSES
from calve.sources.mysql.protocol.table_map import (
    BLOB_COMPRESSED,
    ENUM,
    SET,
    VARCHAR_COMPRESSED,
    YEAR,
    Mapped,
    MappedColumn,
)

__all__ = ["Describer", "altered", "is_sequence", "renumbered", "same", "unreadable"]

_NAMES = {
    1: "tinyint",
    2: "smallint",
    9: "mediumint",
    3: "int",
    8: "bigint",
    4: "float",
    5: "double",
    10: "date",
    17: "timestamp",
    18: "datetime",
    19: "time",
    YEAR: "year",
    16: "bit",
    245: "json",
    246: "decimal",
    ENUM: "enum",
    SET: "set",
    255: "geometry",
}
_TEXTS = frozenset({15, 252, 253, 254, BLOB_COMPRESSED, VARCHAR_COMPRESSED})
_SEQUENCE = (
    *("next_not_cached_value", "minimum_value", "maximum_value", "start_value", "increment", "cache_size"),
    *("cycle_option", "cycle_count"),
)
"""The columns of a SEQUENCE of MariaDB, which is a table in its log."""
_WITH_CHARSET = _TEXTS | {ENUM, SET}
_BINARY, _STRING = "binary", 254


@dataclass(frozen=True)
class Describer:
    """Makes tables of the descriptions in the log.

    Attributes:
        database: What identifies the server.
        charsets: The character set of each collation.
    """

    database: str
    charsets: Mapping[int, str]

    def columns(self, mapped: Mapped) -> tuple[Column, ...]:
        """Return the columns that the log describes."""
        return tuple(self._column(column, number) for number, column in enumerate(mapped.columns, 1))

    def misfit(self, mapped: Mapped, columns: Sequence[Column]) -> str:
        """Return in what columns differ from all that the log says; empty: in nothing."""
        if len(mapped.columns) != len(columns):
            return f"the log has {many(len(mapped.columns), 'column')}, and the user sees {len(columns) or 'none'}"
        for said, column in zip(mapped.columns, columns, strict=True):
            logged = self._column(said, 0)
            if (
                (logged.oid, logged.modifier) != (column.oid, column.modifier)
                or (said.is_unsigned is not None and said.kind != YEAR and said.is_unsigned != column.is_unsigned)
                or (said.collation is not None and said.kind in _WITH_CHARSET and logged.charset != column.charset)
            ):
                return f"the log has another type for {column.name}"
        return ""

    def described(
        self,
        name: tuple[str, str],
        now: Sequence[Column],
        former: DatabaseTable | None,
        oid: int,
        types: Mapping[str, str],
    ) -> DatabaseTable:
        """Return a table with the columns that it has now.

        Args:
            name: Its database, and its name.
            now: The columns.
            former: The table as it was until now.
            oid: The number of a table that is not known.
            types: The names of its columns' types, as the catalog has them by now.

        Raises:
            SchemaConflictError: The table has changed in a way that Iceberg cannot follow, or cannot be read.
        """
        before = {column.name: column for column in former.columns} if former else {}
        free = max((column.number for column in before.values()), default=0)
        free = max(free, former.last_number if former else 0)
        columns = []
        for column in now:
            old = before.get(column.name)
            column = _typed(column, types.get(column.name, ""))
            free += old is None
            columns.append(msgspec.structs.replace(kept_text(column, old), number=old.number if old else free))
        table = DatabaseTable(self.database, former.oid if former else oid, *name, tuple(columns), last_number=free)
        if former is not None:
            table = msgspec.structs.replace(table, since=former.since, dropped=former.dropped)
        for declared in columns:
            if fault := unreadable(declared, types.get(declared.name, "")):
                raise conflict(table, f"{declared.name} {fault}")
        if former is not None:
            check(former, table)
        return table

    def _column(self, column: MappedColumn, number: int) -> Column:
        charset = self.charsets.get(column.collation, "") if column.collation else ""
        name, precision, scale = _declared(column, charset)
        kind = kind_of(name, name + (" unsigned" if column.is_unsigned else ""), precision, scale)
        charset = "" if kind == "binary" or charset == _BINARY else charset
        labels = tuple(decoded(label, charset if charset in CODECS else "latin1") for label in column.labels)
        logged = column.kind, int.from_bytes(column.meta, "little")
        is_unsigned = bool(column.is_unsigned)
        return Column(column.name, number, kind, name, *logged, column.is_key, charset, labels, is_unsigned)


def is_sequence(mapped: Mapped) -> bool:
    """Return whether the log describes a sequence, if it has the names of columns."""
    names = tuple(column.name for column in mapped.columns)
    return names == _SEQUENCE and not any(column.is_key for column in mapped.columns)


def same(columns: Sequence[Column], others: Sequence[Column]) -> bool:
    """Return whether columns have the same names, values and key."""
    return [_shape(column) for column in columns] == [_shape(column) for column in others]


def unreadable(column: Column, type_name: str) -> str:
    """Return why a column cannot be read, or nothing."""
    if type_name in REFUSED_TYPES:
        return f"is a {type_name}, which is not supported"
    if column.declared.startswith("type "):
        return f"has the unsupported {column.declared} of the log (times from before MySQL 5.6: ALTER TABLE … FORCE)"
    if column.charset and column.charset not in CODECS:
        return f"has the character set {column.charset}, which is not supported"
    return ""


def renumbered(tables: Iterable[DatabaseTable], former: Iterable[DatabaseTable]) -> list[DatabaseTable]:
    """Return tables that the catalog describes, with the numbers that they and their columns have already."""
    before = {table.full_name: table for table in former}
    free = max((table.oid for table in before.values()), default=0)
    numbered = []
    for table in tables:
        old = before.get(table.full_name)
        free += old is None
        numbers = {column.name: column.number for column in old.columns} if old else {}
        last = max([old.last_number if old else 0, *numbers.values()])
        for column in table.columns:
            if column.name not in numbers:
                last += 1
                numbers[column.name] = last
        columns = tuple(msgspec.structs.replace(column, number=numbers[column.name]) for column in table.columns)
        oid = old.oid if old else free
        numbered.append(msgspec.structs.replace(table, oid=oid, columns=columns, last_number=last))
    return numbered


def altered(table: DatabaseTable, alteration: Alteration) -> DatabaseTable:
    """Return a table without the columns that a statement drops, and with the new names of others."""
    gone = {name.lower() for name in alteration.dropped}
    again = {name.lower() for name, _ in alteration.added} | {new.lower() for _, new in alteration.renamed}
    names = {old.lower(): new for old, new in alteration.renamed}
    dropped = [column for column in table.columns if column.name.lower() in gone]
    columns = [column for column in table.columns if column.name.lower() not in gone]
    columns = [
        msgspec.structs.replace(old_column, name=names.get(old_column.name.lower(), old_column.name))
        for old_column in columns
    ]
    dropped = [column for column in (*table.dropped, *dropped) if column.name.lower() not in again]
    last = max([table.last_number, *(column.number for column in table.columns)])
    return msgspec.structs.replace(table, columns=tuple(columns), dropped=tuple(dropped), last_number=last)


def _typed(column: Column, name: str) -> Column:
    """Return a column of bytes with the type that the catalog has for it, if its values are texts."""
    size, _ = ADDRESSES.get(name, (0, None))
    if column.oid != _STRING or column.kind != "binary" or column.modifier >> 8 != size:
        return column
    return msgspec.structs.replace(column, kind=kind_of(name, name, 0, 0), declared=name)


def _shape(column: Column) -> tuple[object, ...]:
    kind = "binary" if column.declared in ADDRESSES else column.text_of or column.kind
    return column.name, kind, column.charset, column.labels, column.is_unsigned, column.is_key


def _declared(column: MappedColumn, charset: str) -> tuple[str, int, int]:
    """Return the name of a column's type, and its digits."""
    if column.kind in _TEXTS:
        is_text = bool(charset) and charset != _BINARY
        return "text" if is_text else "blob", 0, 0
    if column.kind == 246:
        return "decimal", column.meta[0], column.meta[1]
    if column.kind == 16:
        return "bit", column.meta[1] * 8 + column.meta[0], 0
    return _NAMES.get(column.kind, f"type {column.kind}"), 0, 0
