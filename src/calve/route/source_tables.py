"""Finds the targets of whole source tables, where only attributes decide that all rows of a table share."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from calve.event import duckdb_session
from calve.event.columns import JSON
from calve.expression import Format
from calve.route.joined import joined
from calve.route.sink_route import SinkRoute
from calve.sources.source import SourceTable

__all__ = ["certain_targets", "names_by_table", "passing"]

_TABLE_NAME = "iceberg_table_name"


def names_by_table(text: Format, tables: Sequence[SourceTable]) -> dict[str, str]:
    """Return the target name of each source table, if only attributes decide it that all its rows share."""
    names = [table.name for table in tables]
    if text.static is not None:
        return dict.fromkeys(names, text.static)
    if text.fields or (events := _shared(tables, text.metadata)) is None:
        return {}
    named = joined(text, events, is_name=True)
    if named is None:
        named = duckdb_session.run(f"select {text.name_sql} as name from events", events=events)["name"]
    return {table: name for table, name in zip(names, named.to_pylist(), strict=True) if name}


def certain_targets(route: SinkRoute, tables: Sequence[SourceTable]) -> list[str]:
    """Return the targets that get all rows of a source table, whatever these are."""
    names, passing_tables = names_by_table(route.table, tables), passing(route, tables)
    targets = dict.fromkeys(names[table.name] for table in passing_tables or [] if table.name in names)
    return [name for name in targets if not route.fault(name)]  # rows of a bad name are rejected


def passing(route: SinkRoute, tables: Sequence[SourceTable]) -> list[SourceTable] | None:
    """Return the source tables all of whose rows pass a sink's gates; None: the fields of a row decide it."""
    if not route.gates:
        return list(tables)
    conditions = [condition for gate in route.gates for condition in gate.conditions.values()]
    used = frozenset[str]().union(*(condition.metadata for condition in conditions))
    reads_fields = any(condition.fields is None or condition.fields for condition in conditions)
    if reads_fields or (events := _shared(tables, used)) is None:
        return None
    matches = duckdb_session.run(
        f"select {' and '.join(gate.sql for gate in route.gates)} as matches from events", events=events
    )
    return [table for table, is_match in zip(tables, matches["matches"].to_pylist(), strict=True) if is_match]


def _shared(tables: Sequence[SourceTable], used: frozenset[str]) -> pa.Table | None:
    """Return an event of each table, with attributes that all its rows share; None: some are not shared, or none."""
    shared = [table.attributes or {_TABLE_NAME: table.name} for table in tables]
    if not tables or not used or any(name not in attributes for name in used for attributes in shared):
        return None
    columns = {name: [attributes[name] for attributes in shared] for name in sorted(used)}
    return pa.table({JSON: ["{}"] * len(tables), **columns})
