"""The option `tables` of the Iceberg sink: settings of single tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Literal

from calve.errors import SettingsError
from calve.expression import Format, compile_format
from calve.route.by_table import TablePattern
from calve.route.names import fault
from calve.settings import option
from calve.sinks.iceberg.expect import Expectation
from calve.sinks.iceberg.maintenance import LEAST_RETENTION, LONGEST_RETENTION, Maintenance
from calve.sinks.iceberg.new_table import ObjectType
from calve.sinks.iceberg.publish import Publish, check_branch

__all__ = [
    "FROM_KEY",
    "FULL_ROW",
    "RECORD_KEY",
    "SORT_BY",
    "TableOptions",
    "check_key",
    "check_table_name",
]

SORT_BY = (
    'The sort order of new tables, e.g. `["region", "at desc"]`; new files and compacted ones are sorted by it. Later '
    "ALTER TABLE … WRITE ORDERED BY changes it."
)
FROM_KEY = "from_key"
"""The columns of the key are those of the records' key."""
FULL_ROW = "full_row"
"""Rows have no key, and are found by all their columns."""
RECORD_KEY = "kafka_key"
"""The metadata attribute with a record's key."""
_NAMES = ("name", "regex")
_MERGED = ("column_types", "table_properties")
"""Maps that are added to those of the sink."""


def check_table_name(text: str) -> Format:
    """Check the name of a table, which may have `${…}`.

    Raises:
        SettingsError: It is not valid.
    """
    name = compile_format(text)
    if name.static is not None and (bad := fault(name.static)):
        raise SettingsError(bad)
    return name


def check_key(columns: list[str] | str) -> None:
    """Check the columns of a key.

    Raises:
        SettingsError: One appears twice.
    """
    if isinstance(columns, str):
        return
    repeated = [name for index, name in enumerate(columns) if name in columns[:index]]
    if repeated:
        raise SettingsError(f"the column {repeated[0]} appears twice")


def _check_regex(text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise SettingsError(f"is not a regular expression: {error}") from error


@dataclass(frozen=True)
class TableOptions:
    """Settings of tables by name, instead of those of the sink; an option that is left out is the sink's."""

    name: str | None = option(
        None, "A table as `namespace.table`, or a pattern with `*` and `?`, e.g. `shop.order*`.", minimum=1
    )
    regex: str | None = option(
        None, "Instead of `name`: a regular expression that matches the whole name.", minimum=1, check=_check_regex
    )
    identifier_columns: list[str] | Literal["from_key", "full_row"] | None = option(
        None, "The key of a row.", check=check_key
    )
    operation: str | None = option(None, "The operation of each event, e.g. `${/op}`.", check=compile_format)
    upsert: bool | None = option(None, "An INSERT replaces an existing row with the same key.")
    write_mode: Literal["equality-delete", "merge-on-read", "copy-on-write"] | None = option(
        None, "How older rows are removed."
    )
    partition_by: list[str] | None = option(None, "Partitions of a new table.")
    sort_by: list[str] | None = option(None, "The sort order of a new table.")
    branch: str | None = option(None, "The branch to write to.", check=check_branch)
    column_types: dict[str, str] | None = option(None, "Types of new columns, before those of the sink.")
    objects: ObjectType | dict[str, ObjectType] | None = option(None, "What objects become in new columns.")
    table_properties: dict[str, str] | None = option(None, "Properties of a new table, added to those of the sink.")
    table_location: str | None = option(None, "The location of a new table; only beside a `name`.", minimum=1)
    commit_interval: timedelta | None = option(
        None, "Interval of the table's commits. A longer one than the sink's ends when 64 batches wait."
    )
    on_type_mismatch: Literal["null", "dlq"] | None = option(None, "A value that does not fit an optional column.")
    on_dropped_column: Literal["keep", "optional", "drop"] | None = option(
        None, "What becomes of a column that the source has dropped."
    )
    publish: Publish | None = option(None, "Rules for the table's commits, instead of those of the sink.")
    expect: list[Expectation] | None = option(None, "Rules that rows must follow, instead of those of the sink.")
    maintenance: bool | Maintenance | None = option(None, "When the table needs maintenance; `false`: never.")

    retention: timedelta | None = option(
        None, "Delete rows that are older than this.", minimum=LEAST_RETENTION, maximum=LONGEST_RETENTION
    )

    @property
    def pattern(self) -> TablePattern:
        """The tables that it is for."""
        return TablePattern(self.regex or self.name or "", is_regex=self.regex is not None)

    @property
    def given(self) -> dict[str, Any]:
        """The options that replace those of the sink."""
        names = [field.name for field in fields(self) if field.name not in _NAMES]
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def over(self, sink: Any) -> dict[str, Any]:
        """Return the settings that differ from those of a sink (`IcebergSettings`)."""
        merged = {
            name: {**own, **_without(getattr(sink, name), own)} for name in _MERGED if (own := self.given.get(name))
        }
        instead = {"branch": "publish", "publish": "branch"}  # an entry's own one replaces the sink's other one
        return {**self.given, **merged, **{other: None for name, other in instead.items() if name in self.given}}

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse an entry without a name, or without a setting."""
        if (self.name is None) == (self.regex is None):
            yield "", "set either name or regex"
        elif not self.given:
            yield "", "sets nothing for its tables"
        elif self.table_location is not None and not self.pattern.is_name:
            yield "table_location", "several tables cannot have one location; set it for a `name` without * and ?"


def _without(values: dict[str, str], names: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if name not in names}
