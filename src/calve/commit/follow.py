"""Brings a table's columns after those of another table, whose rows it gets: added, widened, renamed.

What a column of the other table was called when it was last looked at is a property of this one, by the other one's
field ids: so a rename is told from a column that was dropped beside one that was added.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from calve.commit.catalog import Catalog
from calve.commit.retry import retried
from calve.convert.schema import read_schema
from calve.engine.jvm import java_errors
from calve.errors import CalveError
from calve.sources.source import SourceTable

__all__ = ["follow"]

_PROPERTY = "calve.follows."
_STEP = "follow the source's schema"


def follow(catalog: Catalog, identifier: str, source: SourceTable) -> list[str]:
    """Make a table have what another one has; may be repeated safely (driver).

    Columns that the other one no longer has stay, and so do those that are of a type that cannot become its.

    Returns:
        What was done, in words; empty when the table had it all.

    Raises:
        CommitError: The table cannot be changed.
        NoTargetError: There is no such table.
    """

    def attempt() -> list[str]:
        java_table = catalog.load_java(identifier)
        with java_errors(_STEP, identifier):
            return _follow(catalog, java_table, source)

    return retried(attempt)


def _follow(catalog: Catalog, java_table: Any, source: SourceTable) -> list[str]:
    names = _names(source)
    key = f"{_PROPERTY}{source.name}"
    seen = {"uuid": source.uuid, "names": names, "schema": zlib.crc32(source.schema_json.encode())}
    wanted = json.dumps(seen, separators=(",", ":"))
    held = java_table.properties().get(key)
    if held == wanted:
        return []
    known = json.loads(held) if held else {}
    before = known.get("names", {}) if known.get("uuid") == source.uuid else {}
    had = _columns(java_table)
    renamed = _renamed(before, names, had)
    if renamed:
        _rename(java_table, renamed)
    key_columns = set(java_table.schema().identifierFieldNames())
    fields = [_as_key(field, key_columns) for field in json.loads(source.schema_json)["fields"]]
    fits = [field for field in fields if _fits(catalog, java_table, field)]
    transaction = java_table.newTransaction()
    _union(catalog, transaction.updateSchema(), fits).commit()
    transaction.updateProperties().set(key, wanted).commit()
    transaction.commitTransaction()
    java_table.refresh()
    now = _columns(java_table)
    was = {renamed.get(name, name): kind for name, kind in had.items()}
    changed = [name for name in now if name in was and now[name] != was[name]]
    return [
        *(f"{old} is now {new}" for old, new in renamed.items()),
        *(f"{name} was added" for name in now if name not in was),
        *(f"{name} is now of type {now[name]}" for name in changed),
    ]


def _names(source: SourceTable) -> dict[str, str]:
    schema = read_schema(source.schema_json)
    numbers = sorted(schema.find_field(name).field_id for name in schema.column_names)
    return {str(number): schema.find_column_name(number) or "" for number in numbers}


def _columns(java_table: Any) -> dict[str, str]:
    """The types of all columns, however deep, by name."""
    schema = java_table.schema()
    fields = {str(schema.findColumnName(number)): schema.findField(number) for number in schema.idToName().keySet()}
    return {
        name: f"{'optional' if field.isOptional() else 'required'} {field.type()}" for name, field in fields.items()
    }


def _rename(java_table: Any, renamed: Mapping[str, str]) -> None:
    update = java_table.updateSchema()
    for old, new in renamed.items():
        update = update.renameColumn(old, new.rpartition(".")[2])
    update.commit()
    java_table.refresh()


def _renamed(before: Mapping[str, str], names: Mapping[str, str], had: Mapping[str, str]) -> dict[str, str]:
    """Give the columns to rename, by their old names; only what is there, to what is not."""
    changed = {
        before[number]: name
        for number, name in names.items()
        if number in before and before[number].rpartition(".")[2] != name.rpartition(".")[2] and before[number] in had
    }
    return {old: new for old, new in changed.items() if new not in had or new in changed}


def _as_key(field: dict[str, Any], key_columns: set[str]) -> dict[str, Any]:
    """A column, required if it is of this table's key, whatever it is in the other one."""
    return {**field, "required": field["required"] or field["name"] in key_columns}


def _fits(catalog: Catalog, java_table: Any, field: Mapping[str, Any]) -> bool:
    """Whether a column can be added, or become what the other table has."""
    try:
        with java_errors(_STEP, str(field["name"])):
            _union(catalog, java_table.updateSchema(), [field]).apply()
    except CalveError:
        return False
    return True


def _union(catalog: Catalog, update: Any, fields: list[Any]) -> Any:
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    return update.unionByNameWith(catalog.schema(json.dumps(schema)))
