"""Makes a table's columns follow those of the table that it mirrors: added, widened, renamed, replaced.

A property of the mirror keeps the source's column names by field id, from the last run. They distinguish a renamed
column from a dropped column beside a new one, and a column that was dropped and added again from one that stayed.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pyiceberg.types import StructType

from calve.catalog.catalog import Catalog
from calve.catalog.retry import retried
from calve.commit.mirror_defaults import new_defaults
from calve.engine.java.errors import java_errors
from calve.errors import CalveError
from calve.event.column_names import ColumnNames, ColumnPath
from calve.sources.source import SourceTable
from calve.table.defaults import without_defaults
from calve.table.schema import names_by_id, read_schema

__all__ = ["Dropped", "follow", "noted"]

Dropped = Literal["keep", "optional", "drop"]
"""What becomes of a column that the source has dropped."""

_PROPERTY = "calve.follows."
_STEP = "follow the source's schema"
_WITH_DEFAULTS = 3
"""The first format version with defaults."""


def follow(
    catalog: Catalog,
    identifier: str,
    source: SourceTable,
    key: Sequence[str] = (),
    has_deletes: bool = False,
    on_dropped: Dropped = "optional",
) -> list[str]:
    """Add, widen and rename a table's columns as another table has them; may be repeated safely (driver).

        Columns whose type cannot be widened to the source's stay.

    Args:
        catalog: The catalog of the table.
        identifier: The table.
        source: The table that it mirrors.
        key: The columns that rows are deleted by; empty: the table's identifier fields.
        has_deletes: Rows are deleted by equality deletes. With these, old or new, the key keeps its types: Iceberg's
            Java readers (1.12) do not apply the deletes of a narrower key, so deleted rows come back.
        on_dropped: What becomes of columns that the source has dropped. An event from before, sent again, adds a
            column that was removed once more, which this does not remove again.

    Returns:
        Sentences about what changed and what did not; empty if there was nothing to do.

    Raises:
        CommitError: The table cannot be changed.
        NoTargetError: There is no such table.
    """

    def attempt() -> list[str]:
        java_table = catalog.load_java(identifier)
        with catalog.steady.commits(lambda: java_table), java_errors(_STEP, identifier):
            return _follow(catalog, java_table, source, _Key(tuple(key), has_deletes), on_dropped)

    return retried(attempt)


def noted(source: SourceTable) -> tuple[str, str]:
    """Return the property, name and value, of a table whose columns are as its source has them."""
    current = {
        "uuid": source.uuid,
        "names": names_by_id(source.schema_json),
        "schema": zlib.crc32(source.schema_json.encode()),
    }
    return f"{_PROPERTY}{source.name}", json.dumps(current, separators=(",", ":"))


def _follow(catalog: Catalog, java_table: Any, source: SourceTable, key: _Key, on_dropped: Dropped) -> list[str]:
    names = names_by_id(source.schema_json)
    property_name, property_value = noted(source)
    stored = java_table.properties().get(property_name)
    if stored == property_value:
        return []
    previous = json.loads(stored or "{}")
    before = previous.get("names", {}) if previous.get("uuid") == source.uuid else {}
    had = _columns(java_table)
    renamed = _renamed(before, names, had)
    if renamed:
        _rename(java_table, renamed)
    key_types, key_columns = key.types(java_table), set(java_table.schema().identifierFieldNames())
    source_fields = [_as_key(field, key_columns) for field in json.loads(source.schema_json)["fields"]]
    fields = [_with_types(field, field["name"], key_types) for field in source_fields]
    fields, lost = _with_defaults(fields, java_table)
    ambiguous = _ambiguous(fields, _columns(java_table))
    fits = [field for field in fields if field["name"] not in ambiguous and _fits(catalog, java_table, field)]
    dropped = _dropped(before, names, _columns(java_table))
    replaced, kept = _deletable(java_table, _replaced(before, names, had))
    removed, held = _removable(java_table, dropped if on_dropped == "drop" else [], key, property_name)
    transaction = java_table.newTransaction()
    _delete(transaction, [*replaced, *removed])
    update = _union(catalog, transaction.updateSchema(), fits)
    for name in dropped if on_dropped != "keep" else []:
        if name not in {*key_columns, *removed}:
            update = update.makeColumnOptional(name)  # rows without it are valid rows of the table
    update.commit()
    transaction.updateProperties().set(property_name, property_value).commit()
    transaction.commitTransaction()
    java_table.refresh()
    return [
        *(
            f"{name} is NULL in the rows that are there, although it is {json.dumps(default)} in those of the source: "
            "update these rows, or read the source again into a table of format version 3, which can have defaults"
            for name, default in lost.items()
        ),
        *(f"{name} is another column in the source now, so its older values were removed" for name in replaced),
        *(
            f"{name} is another column in the source now, but keeps its older values, because it cannot be removed "
            f"({reason}): to have it right, drop this table and read the source again"
            for name, reason in kept.items()
        ),
        *_changes(had, _columns(java_table), renamed),
        *(f"{name} was not added, because {fault}" for name, fault in ambiguous.items()),
        *(f"{name} was removed, because the source dropped it" for name in removed),
        *_staying(dropped, held, _columns(java_table)),
        *(f"{name} stays of type {kind} because of equality deletes" for name, kind in _narrower(key_types, source)),
    ]


def _with_defaults(fields: list[dict[str, Any]], java_table: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return columns with the defaults of new ones, and the defaults that the table cannot have, by name."""
    fields, defaults = new_defaults(fields, _columns(java_table))
    if java_table.operations().current().formatVersion() >= _WITH_DEFAULTS:
        return fields, {}
    return without_defaults(fields), defaults


def _ambiguous(fields: Sequence[Mapping[str, Any]], had: Mapping[str, str]) -> dict[str, str]:
    """Return the new top-level columns that readers could not distinguish from those of the table, and why."""
    names = ColumnNames(StructType(), limit=sys.maxsize)
    for column in had:
        names.add_if_free(ColumnPath(), column)
    faults = {field["name"]: names.fault(ColumnPath(), field["name"]) for field in fields if field["name"] not in had}
    return {name: fault for name, fault in faults.items() if fault}


def _staying(dropped: Sequence[str], held: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each column that stays although the source dropped it, with what becomes of rows."""
    for name in (name for name in dropped if name in now):
        why = f", because it cannot be removed ({held[name]})" if name in held else ""
        is_required = now[name].startswith("required")
        fate = "; as it is required, rows without it are rejected: on_dropped_column: optional" if is_required else ""
        yield f"{name} stays, although the source dropped it{why}{fate}"


def _changes(had: Mapping[str, str], now: Mapping[str, str], renamed: Mapping[str, str]) -> list[str]:
    was = {renamed.get(name, name): kind for name, kind in had.items()}
    return [
        *(f"{old} is now {new}" for old, new in renamed.items()),
        *(f"{name} was added" for name in now if name not in was),
        *(f"{name} is now of type {now[name]}" for name in now if name in was and now[name] != was[name]),
    ]


def _dropped(before: Mapping[str, str], names: Mapping[str, str], had: Mapping[str, str]) -> list[str]:
    """Return the table's columns that the source has dropped; of a dropped struct only the struct itself."""
    gone = {name for number, name in before.items() if number not in names and name in had}
    return sorted(name for name in gone - set(names.values()) if name.rpartition(".")[0] not in gone)


def _replaced(before: Mapping[str, str], names: Mapping[str, str], had: Mapping[str, str]) -> list[str]:
    """Return the table's columns that the source has dropped and added again; of a struct only the struct itself."""
    numbers = {name: number for number, name in names.items()}
    again = {name for number, name in before.items() if number not in names and name in numbers and name in had}
    return sorted(name for name in again if name.rpartition(".")[0] not in again)


def _deletable(java_table: Any, columns: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """Return the columns that can be deleted, and why the others cannot: the key or the partitions need them."""
    deletable, kept = list[str](), dict[str, str]()
    for name in columns:
        try:
            with java_errors(_STEP, name):
                _delete(java_table.newTransaction(), [name])
        except CalveError as error:
            kept[name] = error.message
        else:
            deletable.append(name)
    return deletable, kept


def _removable(
    java_table: Any, dropped: Sequence[str], key: _Key, own_property: str
) -> tuple[list[str], dict[str, str]]:
    """Return the columns that can be removed, and why the others cannot: other sources of the table have them, too."""
    keys = [f"{column}." for column in key.columns]
    held = {name: "rows are found by it" for name in dropped if any(column.startswith(f"{name}.") for column in keys)}
    for name, value in dict(java_table.properties()).items():
        if name.startswith(_PROPERTY) and name != own_property:
            others = {*json.loads(value).get("names", {}).values()}
            held |= {column: f"{name.removeprefix(_PROPERTY)} has it" for column in dropped if column in others}
    removable, kept = _deletable(java_table, [name for name in dropped if name not in held])
    return removable, held | kept


def _delete(transaction: Any, columns: Sequence[str]) -> None:
    if not columns:
        return
    update = transaction.updateSchema()
    for name in columns:
        update = update.deleteColumn(name)
    update.commit()


class _Key(NamedTuple):
    """The columns by which rows are deleted (none: the identifier fields), and whether by equality deletes."""

    columns: tuple[str, ...]
    has_deletes: bool

    def types(self, java_table: Any) -> dict[str, str]:
        """Return the types of the columns that must keep their type, by name."""
        if not self.has_deletes and not _has_equality_deletes(java_table):
            return {}
        schema = java_table.schema()
        fields = {name: schema.findField(name) for name in self.columns or schema.identifierFieldNames()}
        return {str(name): str(field.type()) for name, field in fields.items() if field is not None}


def _has_equality_deletes(java_table: Any) -> bool:
    snapshots = [java_table.snapshot(ref.snapshotId()) for ref in java_table.refs().values()]
    return any(int(snapshot.summary().get("total-equality-deletes") or 0) for snapshot in snapshots)


def _narrower(types: Mapping[str, str], source: SourceTable) -> list[tuple[str, str]]:
    """Return those columns that have another type in the source."""
    schema = read_schema(source.schema_json)
    columns = [name for name in types if name in schema.column_names]
    return [(name, types[name]) for name in columns if str(schema.find_type(name)) != types[name]]


def _with_types(field: dict[str, Any], path: str, types: Mapping[str, str]) -> dict[str, Any]:
    """Return a column with some types replaced, its own or those of nested columns."""
    kind = field["type"]
    if path in types:
        return {**field, "type": types[path]}
    if not isinstance(kind, dict) or kind["type"] != "struct":
        return field
    fields = [_with_types(child, f"{path}.{child['name']}", types) for child in kind["fields"]]
    return {**field, "type": {**kind, "fields": fields}}


def _columns(java_table: Any) -> dict[str, str]:
    """Return the types of all columns at any depth, by name."""
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
    """Return the columns to rename, by old name: those that exist, to names that do not."""
    changed = {
        before[number]: name
        for number, name in names.items()
        if number in before and before[number].rpartition(".")[2] != name.rpartition(".")[2] and before[number] in had
    }
    return {old: new for old, new in changed.items() if new not in had or new in changed}


def _as_key(field: dict[str, Any], key_columns: set[str]) -> dict[str, Any]:
    """Return a column, required if it is part of this table's key, even if it is optional in the source."""
    return {**field, "required": field["required"] or field["name"] in key_columns}


def _fits(catalog: Catalog, java_table: Any, field: Mapping[str, Any]) -> bool:
    """Return whether a column can be added or widened to the source's."""
    try:
        with java_errors(_STEP, str(field["name"])):
            _union(catalog, java_table.updateSchema(), [field]).apply()
    except CalveError:
        return False
    return True


def _union(catalog: Catalog, update: Any, fields: list[Any]) -> Any:
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    return update.unionByNameWith(catalog.schema(json.dumps(schema)))
