"""A table as the source reads it: its columns, their types, and its key. Kept in the state folder as JSON."""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import msgspec
import pyarrow as pa
from pyiceberg.types import DecimalType

from calve.event.column_names import unreserved
from calve.sources.database.settings import NoKey
from calve.sources.source import SourceTable
from calve.table import arrow_schema
from calve.table.kinds import widest_type
from calve.table.schema import read_type

__all__ = ["HISTORY", "MERGED", "Column", "DatabaseTable", "arrow_type", "can_widen", "depth_of"]

_SMALL = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
_LIST = re.compile(r"list<(.+)>").fullmatch
_ELEMENTS = 10_000
"""The field id of a list's element is that of the column and this number; databases have at most some 4,000 columns."""
MERGED = ("schema_name", "table_name")
"""Columns of targets that tables share."""
_MERGED_ID = 9_000
"""The field id of the first of them."""
HISTORY = {"change_type": pa.string(), "change_position": pa.int64(), "change_time": pa.timestamp("us", "UTC")}
"""Columns of targets that get a row for each change."""
_HISTORY_KINDS = ("string", "long", "timestamptz")
_HISTORY_ID = 9_100
"""The field id of the first of them."""


@functools.lru_cache(1024)
def arrow_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a column's type."""
    if match := _LIST(kind):
        return pa.list_(arrow_type(match[1]))
    arrow = arrow_schema.arrow_type(read_type(kind))
    return _SMALL.get(arrow, arrow)


def depth_of(kind: str) -> tuple[int, str]:
    """Return how often a type is a list, and the type inside; 0: it is none."""
    depth = 0
    while match := _LIST(kind):
        depth, kind = depth + 1, match[1]
    return depth, kind


def can_widen(before: str, after: str) -> bool:
    """Return whether Iceberg can change a column of one type to another without rewriting it."""
    depths, (narrow, wide) = zip(*map(depth_of, (before, after)), strict=True)
    narrow, wide = read_type(narrow), read_type(wide)
    if isinstance(narrow, DecimalType) and isinstance(wide, DecimalType):
        is_wider = narrow.scale == wide.scale and narrow.precision <= wide.precision
    else:
        is_wider = wide in (narrow, widest_type(narrow))
    return is_wider and len(set(depths)) == 1


class Column(msgspec.Struct, frozen=True):
    """One column.

    Attributes:
        number: Its number, which stays the same when it is renamed; the field id in Iceberg.
        kind: The Iceberg type that holds its values, e.g. `long`, `decimal(12, 2)`, `list<int>`.
        declared: The database's name of its type, for messages.
        oid: The type, and `modifier` its modifier, as the stream has them.
        is_key: Whether it identifies rows.
        charset: The character set of its texts, where columns have their own.
        labels: The values of an enumeration or set, where the stream has numbers.
        is_unsigned: Whether its integers have no sign.
        text_of: If its values are texts because some have no place in its type: that type; then `kind` is `string`.
    """

    name: str
    number: int
    kind: str
    declared: str
    oid: int
    modifier: int
    is_key: bool = False
    charset: str = ""
    labels: tuple[str, ...] = ()
    is_unsigned: bool = False
    text_of: str = ""

    @property
    def field_name(self) -> str:
        """Its name in events and targets: `_deleted`, which Iceberg reserves, is `deleted_` there."""
        return unreserved(self.name)


class DatabaseTable(msgspec.Struct, frozen=True, dict=True):
    """One table.

    Attributes:
        database: What identifies the database, so that `oid` is unique.
        oid: Its number in the database.
        columns: Its columns, in their order in the stream.
        last_number: The highest number that a column had, where the source numbers columns itself.
        is_dropped: Whether it was dropped.
        is_outdated: Whether a statement may have changed its columns since they were described.
        since: Changes and statements up to this position are not read: the table, and the rows of its load, are as
            after them.
        stopped: Why it is not read any more; empty: it is read.
        dropped: Columns that it had before; the target still has their values.
        mark: What the catalog had besides, where a stream has no statements.
        is_merged: Whether its schema and its name are columns, and a part of the key, in events and targets.
        appends: Whether it has no key, and is read all the same: its changes have whole rows.
        mirrors: Whether these are applied to its target, and not appended as rows of their own.
    """

    database: str
    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]
    last_number: int = 0
    is_dropped: bool = False
    since: int = 0
    stopped: str = ""
    is_outdated: bool = False
    dropped: tuple[Column, ...] = ()
    mark: str = ""
    is_merged: bool = False
    appends: bool = False
    mirrors: bool = False

    def completed(self, is_merged: bool, no_key: NoKey) -> DatabaseTable:
        """Return it as the settings want it in targets; one without a key that was read stays as it was.

        Args:
            is_merged: `merge_tables`.
            no_key: `no_key`.
        """
        appends = not self.keys and bool(self.columns) and (no_key != "fail" or self.appends)
        mirrors = appends and (self.mirrors if self.appends else no_key == "mirror")
        return msgspec.structs.replace(self, is_merged=is_merged, appends=appends, mirrors=mirrors)

    @property
    def full_name(self) -> str:
        """`schema.table`, for messages and patterns."""
        return f"{self.schema}.{self.name}"

    @property
    def is_readable(self) -> bool:
        """Whether a target can follow it: it has a key, or needs none."""
        return bool(self.keys) or self.appends

    @functools.cached_property
    def keys(self) -> tuple[int, ...]:
        """The positions of the columns of the key."""
        return tuple(index for index, column in enumerate(self.columns) if column.is_key)

    @functools.cached_property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow types of its columns."""
        own = [(column.field_name, arrow_type(column.kind)) for column in self.columns]
        return pa.schema([*((name, pa.string()) for name in self.merged), *self.history.items(), *own])

    @property
    def history(self) -> dict[str, pa.DataType]:
        """The columns before those of the table that tell what each row is of one whose changes become rows."""
        return HISTORY if self.appends and not self.mirrors else {}

    @property
    def merged(self) -> dict[str, str]:
        """The columns that all rows share, with their values, before those of the table."""
        return self.attributes if self.is_merged else {}

    @property
    def attributes(self) -> dict[str, str]:
        """The metadata attributes that all its rows share."""
        return dict(zip(MERGED, (self.schema, self.name), strict=True))

    def source_table(self) -> SourceTable:
        """Return it as sinks take it: with Iceberg's types, and its columns' numbers as field ids."""
        merged = [
            {"id": number, "name": name, "required": True, "type": "string"}
            for number, name in enumerate(self.merged, _MERGED_ID)
        ]
        history = [
            {"id": number, "name": name, "required": False, "type": kind}
            for number, (name, kind) in enumerate(zip(self.history, _HISTORY_KINDS, strict=False), _HISTORY_ID)
        ]
        fields = [*merged, *history, *(_field(column) for column in self.columns)]
        schema = {
            "type": "struct",
            "schema-id": 0,
            "fields": fields,
            "identifier-field-ids": [field["id"] for field in fields if field["required"]],
        }
        text = json.dumps(schema, separators=(",", ":"))
        uuid = f"{self.database}/{self.oid}"
        return SourceTable(
            self.full_name,
            uuid,
            text,
            self.attributes,
            is_history=self.appends and not self.mirrors,
            has_full_rows=self.mirrors,
        )


def _field(column: Column) -> dict[str, Any]:
    kind: Any
    depth, kind = depth_of(column.kind)
    for level in range(depth, 0, -1):
        number = column.number + level * _ELEMENTS
        kind = {"type": "list", "element-id": number, "element": kind, "element-required": False}
    return {"id": column.number, "name": column.field_name, "required": column.is_key, "type": kind}
