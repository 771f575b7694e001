"""The `iceberg` sinks of a converted connector: tables, routes, catalog, properties."""

from __future__ import annotations

import re
from typing import Any

from calve.errors import SettingsError
from calve.migrate.properties import Properties, listed, shown
from calve.migrate.transforms import Transforms

__all__ = ["Sinks", "iceberg_sinks"]

Sinks = tuple[list[dict[str, str]], list[dict[str, Any]]]
"""The routes and the sinks of a pipeline."""
_OF_A_TABLE = ("route-regex", "commit-branch", "id-columns", "partition-by")
_BETWEEN = r",(?![^()]*\))"
"""Commas outside of parentheses."""
_PERIODS = {"years": "year", "months": "month", "days": "day", "hours": "hour"}
_MINUTES = "300000"
_NO_KEYS = "Without effect in the connector. To keep one row for each key, set identifier_columns and upsert: true"
_UNKNOWN = "No table of iceberg.tables has this name, so the connector ignores it, too"
_ROUTE = "_calve_route"
"""The field with the text of the route field, for patterns that may match a number or a boolean."""
_TEXT_ONLY = re.compile(r"(?![tf])[A-Za-z_](?![?*{])")
"""How alternatives of a pattern begin that match neither a number nor `true` and `false`."""
_NUMBERS = re.compile(r"partition|offset|timestamp|ts_ms|pos|lsn")
"""Words in the names of attributes that are numbers."""


def iceberg_sinks(properties: Properties, transforms: Transforms, applies_changes: bool) -> Sinks:
    """Return routes and sinks.

    Args:
        properties: The connector's.
        transforms: Its transforms.
        applies_changes: Whether this version of the sink applies updates and deletes by key.

    Raises:
        SettingsError: The connector names no table.
    """
    tables = listed(properties.pop("iceberg.tables"))
    field = properties.pop("iceberg.tables.route-field")
    of_tables = _of_tables(properties)
    shared = _shared(properties, transforms, applies_changes)
    by_key = bool(shared.get("upsert") or shared.get("operation"))
    for name, given in of_tables.items():
        if given.get("id-columns") and not by_key:
            properties.remarks.append((f"iceberg.table.{name}.id-columns = {given['id-columns']}", _NO_KEYS))
    if properties.flag("iceberg.tables.dynamic-enabled"):
        entries = [(name, _settings(given, by_key)) for name, given in of_tables.items()]
        by_table = [{"name": name, **entry} for name, entry in entries if entry]
        sink = {"table_identifier": _dynamic(properties, transforms, field), **shared}
        return [], [{"iceberg": {**sink, "tables": by_table} if by_table else sink}]
    if not tables:
        hint = "Add iceberg.tables, or iceberg.tables.dynamic-enabled with iceberg.tables.route-field"
        raise SettingsError("The connector names no table", step="settings", hint=hint)
    _remark_on_unknown(properties, of_tables, tables)
    routes, sinks = [], []
    for number, table in enumerate(tables, 1):
        own = of_tables.get(table, {})
        sink = {"table_identifier": table, **shared, **_settings(own, by_key)}
        if field:
            pattern = own.get("route-regex")
            if pattern is None:
                advice = "The connector sends no record to a table without a route-regex; its sink was left out"
                properties.remarks.append((f"iceberg.tables: {table}", advice))
                continue
            routes.append({f"route{number}": f"{_matched(properties, transforms, field, pattern)} =~ {_text(pattern)}"})
            sink["routes"] = [f"route{number}"]
        sinks.append({"iceberg": sink})
    if transforms.adds_route:
        for sink in sinks:
            sink["iceberg"]["exclude_keys"] = [_ROUTE]
    if not sinks:
        raise SettingsError("No table has a route-regex, so no record has a target", step="settings")
    return routes, sinks


def _matched(properties: Properties, transforms: Transforms, field: str, pattern: str) -> str:
    """Return the expression of the text that a pattern is matched with, as the connector matches any value's text."""
    added = transforms.fields.get(field)
    parts = re.fullmatch(r"\$\{([^}]*)\}", added) if added else None
    if added and parts is None:
        hint = (
            "Set iceberg.tables.dynamic-enabled instead, or match one part, such as the table, by a field of add.fields"
        )
        raise SettingsError(f"Calve cannot match {field} with a pattern: it is {added}", step="settings", hint=hint)
    is_text = bool(parts and not _NUMBERS.search(parts[1])) or all(map(_TEXT_ONLY.match, pattern.split("|")))
    if is_text or transforms.is_change_stream:
        if not is_text:
            advice = (
                f"The route {pattern} only matches texts; the connector also matches the text of a number or boolean"
            )
            properties.advise(f"{advice}: for these write conditions such as {_pointer(field)} == 1")
        return parts[1] if parts else _pointer(field)
    if not transforms.adds_route:
        transforms.adds_route = True
        value = parts[1] if parts else _pointer(field)
        entry = {"key": _ROUTE, "format": f"${{{value}}}", "add_when": f"{value} != null"}
        transforms.processors.append({"add_entries": {"entries": [entry]}})
    return f"/{_ROUTE}"


def _of_tables(properties: Properties) -> dict[str, dict[str, str]]:
    """Return the settings of single tables: table → name → value."""
    settings: dict[str, dict[str, str]] = {}
    for name, value in properties.below("iceberg.table.").items():
        table, _, option = name.rpartition(".")
        if option in _OF_A_TABLE:
            settings.setdefault(table, {})[option] = value
        else:
            properties.remarks.append((f"iceberg.table.{name} = {value}", "The connector has no such property either"))
    return settings


def _remark_on_unknown(properties: Properties, of_tables: dict[str, dict[str, str]], tables: list[str]) -> None:
    for table in of_tables.keys() - set(tables):
        for name, value in of_tables[table].items():
            properties.remarks.append((f"iceberg.table.{table}.{name} = {value}", _UNKNOWN))


def _shared(properties: Properties, transforms: Transforms, applies_changes: bool) -> dict[str, Any]:
    """Return the settings of all sinks."""
    settings: dict[str, Any] = {"catalog": _catalog(properties)}
    changes = _changes(properties, transforms, applies_changes)
    defaults = {name: properties.pop(f"iceberg.tables.default-{name}") for name in _OF_A_TABLE[1:]}
    if defaults["id-columns"] and not changes:
        properties.remarks.append((f"iceberg.tables.default-id-columns = {defaults['id-columns']}", _NO_KEYS))
    settings |= changes | _settings(defaults, bool(changes))
    flags = {"auto-create-enabled": "auto_create", "evolve-schema-enabled": "schema_evolution"}
    flags["schema-case-insensitive"] = "case_insensitive"
    settings |= {ours: True for theirs, ours in flags.items() if properties.flag(f"iceberg.tables.{theirs}")}
    properties.remark("Not needed: columns that Calve creates are optional", "iceberg.tables.schema-force-optional")
    for prefix, ours in (("auto-create-props", "table_properties"), ("write-props", "write_properties")):
        if values := properties.below(f"iceberg.tables.{prefix}."):
            settings[ours] = values
    if transforms.objects:
        settings["objects"] = transforms.objects
    if transforms.metadata_columns:
        settings["metadata_columns"] = transforms.metadata_columns
    milliseconds = properties.pop("iceberg.control.commit.interval-ms", _MINUTES)
    settings["commit_interval"] = settings["flush_interval"] = re.sub(r"(\d)000ms$", r"\1s", f"{milliseconds}ms")
    return settings


def _changes(properties: Properties, transforms: Transforms, applies_changes: bool) -> dict[str, Any]:
    """Return how rows are updated and deleted; the sink of Apache Iceberg ignores these properties."""
    if not applies_changes:
        advice = "Without effect in Apache Iceberg's sink, which only appends; Calve has `operation` and `upsert`"
        properties.remark(advice, "iceberg.tables.cdc-field", "iceberg.tables.upsert-mode-enabled")
        return {"upsert": True} if transforms.is_change_stream else {}
    settings: dict[str, Any] = {"upsert": True} if properties.flag("iceberg.tables.upsert-mode-enabled") else {}
    operation = properties.pop("iceberg.tables.cdc-field")
    if transforms.is_change_stream:
        return {"upsert": True}  # the envelopes have the operation
    return settings | ({"operation": f"${{{_pointer(operation)}}}"} if operation else {})


def _settings(given: dict[str, str], by_key: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if given.get("commit-branch"):
        settings["branch"] = given["commit-branch"]
    if given.get("id-columns") and by_key:
        settings["identifier_columns"] = listed(given["id-columns"])
    if given.get("partition-by"):
        settings["partition_by"] = [_partition(part) for part in listed(given["partition-by"], _BETWEEN)]
    return settings


def _partition(text: str) -> str:
    """Return a partition field in the specification's order: `bucket(id, 16)` is `bucket(16, id)`."""
    match = re.fullmatch(r"(\w+)\s*\(\s*([^,()]+?)\s*(?:,\s*(\d+)\s*)?\)", text)
    if match is None:
        return text
    transform = _PERIODS.get(match[1], match[1])
    return f"{transform}({match[3]}, {match[2]})" if match[3] else f"{transform}({match[2]})"


def _dynamic(properties: Properties, transforms: Transforms, field: str) -> str:
    if not field:
        hint = "Add iceberg.tables.route-field: the field with the name of the table"
        raise SettingsError("The connector has dynamic tables but no route field", step="settings", hint=hint)
    properties.advise(
        "The connector writes names of tables in lower case, and drops records without one. Calve takes names as they "
        "are, and such records become dead letters (BAD_TABLE_NAME)"
    )
    return transforms.fields.get(field, f"${{{_pointer(field)}}}")


def _catalog(properties: Properties) -> dict[str, str]:
    catalog = properties.below("iceberg.catalog.")
    if not catalog:
        hint = "Add its properties, iceberg.catalog.type, iceberg.catalog.uri and so on"
        raise SettingsError("The connector names no catalog", step="settings", hint=hint)
    if not {"type", "catalog-impl"} & catalog.keys():
        properties.advise("Without a type the catalog is a Hive Metastore, as in the connector")
        catalog = {"type": "hive", **catalog}
    properties.remark(
        "Add this folder to Java's class path: --conf spark.driver.extraClassPath=FOLDER", "iceberg.hadoop-conf-dir"
    )
    for name, value in properties.below("iceberg.hadoop.").items():
        properties.remarks.append(
            (f"iceberg.hadoop.{name}", f"Run with --conf spark.hadoop.{name}={shown(name, value)}")
        )
    return {"name": properties.pop("iceberg.catalog", "iceberg"), **catalog}


def _pointer(field: str) -> str:
    return "/" + field.replace(".", "/")


def _text(pattern: str) -> str:
    return f'"""{pattern}"""'
