"""Checks the declared types, columns and partitions of the settings, which needs Iceberg's types.

Imported only for a configuration that declares some: importing PyIceberg takes longer than reading the settings.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import StructType

from calve.convert.event_time import fault as faulty_time
from calve.errors import SettingsError
from calve.event.column_names import PLAIN, RESERVED, ColumnNames, folded, type_faults
from calve.table.definition import partition_spec_fields, schema_from_columns
from calve.table.kinds import Limit, primitive
from calve.table.type_text import declared

__all__ = [
    "check_transform",
    "check_type",
    "has_default",
    "metadata_faults",
    "partition_faults",
    "schema_faults",
    "time_fault",
    "type_fault",
]


def check_type(text: str) -> None:
    """Check a type, and its default.

    Raises:
        SettingsError: Iceberg has no such type, or the default is none of its values.
    """
    declared(text)


def check_transform(text: str) -> None:
    """Check the name of a partition transform.

    Raises:
        SettingsError: Iceberg has no such transform.
    """
    partition_spec_fields([{"column": "…", "transform": text}])


def type_fault(text: str) -> str | None:
    """Return what is wrong with the name of a type, or None."""
    try:
        check_type(text)
    except SettingsError as error:
        return str(error)
    return None


def has_default(text: str) -> bool:
    """Return whether a type has a default; a text that is no type has none."""
    try:
        return declared(text)[1] is not None
    except SettingsError:
        return False


def schema_faults(
    columns: Sequence[Mapping[str, Any]], partitions: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str]]:
    """Yield duplicate columns, and partitions that the columns do not allow, each with its key."""
    names = [column["name"] for column in columns]
    repeated = [index for index, name in enumerate(names) if name in names[:index]]
    for index in repeated:
        yield f"columns[{index}].name", f"the column {names[index]} appears twice"
    for index, column in enumerate(columns):
        if column["required"] and Limit.ALWAYS_NULL in primitive(declared(column["type"])[0]).limits:
            yield f"columns[{index}].required", "a column of type unknown is always null"
    if not repeated:
        schema = schema_from_columns(columns)
        columns_so_far = ColumnNames(StructType(), limit=sys.maxsize)
        for index, field in enumerate(schema.fields):
            for name, fault in type_faults(StructType(field), columns_so_far):
                yield f"columns[{index}]", f"a table cannot have the column {name}: {fault}"
        yield from partition_faults("partition_spec", partitions, schema)


def partition_faults(
    key: str, entries: Sequence[str | Mapping[str, Any]], schema: Schema | None = None
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the fields of a partition spec, each with its key."""
    for index, entry in enumerate(entries):
        if entry in entries[:index]:
            yield f"{key}[{index}]", "this partition field appears twice"
        try:
            partition_spec_fields([entry], schema)
        except SettingsError as error:
            yield f"{key}[{index}]", str(error)


def metadata_faults(columns: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the names of metadata columns that a table cannot have, each with the reason."""
    names: dict[str, str] = {}
    for name in columns:
        if not PLAIN(name):
            yield name, "must consist of letters, digits and _, and not begin with a digit"
        elif folded(name) in RESERVED:
            yield (
                name,
                f"Iceberg reserves this name; use another one, e.g. source{name}",
            )
        elif (other := names.setdefault(folded(name), name)) != name:
            yield name, f"differs from {other} by case only"


def time_fault(columns: Sequence[Mapping[str, Any]], column: str) -> str | None:
    """Return why a column cannot be the event time, or None."""
    return faulty_time(schema_from_columns(columns), column)
