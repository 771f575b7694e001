"""Single message transforms of Kafka Connect as processors, metadata columns and formats."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from calve.migrate.properties import Properties, listed

__all__ = ["Transforms", "converted"]

_TYPES = {"int8": "integer", "int16": "integer", "int32": "integer", "int64": "long", "float32": "double"}
_TYPES |= {"float64": "double", "boolean": "boolean", "string": "string"}
_PLACES = {
    "topic": "kafka_topic",
    "partition": "kafka_partition",
    "offset": "kafka_offset",
    "timestamp": "kafka_timestamp",
}
_CHANGES = {"DebeziumTransform": "debezium", "ExtractNewRecordState": "debezium", "DmsTransform": "dms"}
_CHANGES |= {"MongoDebeziumTransform": "debezium"}
_CHANGE_FIELDS = {"op": "debezium_op", "ts_ms": "debezium_ts_ms"}
_CHANGE_FIELDS |= {
    name: f"debezium_source_{name.removeprefix('source.')}"
    for plain in ("connector", "name", "db", "schema", "table", "snapshot", "file", "ts_ms", "pos", "lsn")
    for name in (plain, f"source.{plain}")
    if name != "ts_ms"
}
"""The metadata attributes of what `add.fields` names."""
_ADVICE = {
    "RegexRouter": 'Calve keeps the topic\'s name: use `getMetadata("kafka_topic")` in routes and table names',
    "TimestampConverter": "Types follow the column: see `timestamp_unit`, `timestamp_formats` and the processor `date`",
    "TimestampRouter": 'Partition the table instead: `partition_by: ["day(ts)"]`',
    "MaskField": "Use the processor `obfuscate`, or `delete_entries`",
    "Filter": "Use the processor `drop_events` with the condition in `drop_when`",
    "HoistField": "Use the processor `add_entries` or `sql`",
    "ExtractField": "Use the processor `sql`, or `flatten`",
}


@dataclass
class Transforms:
    """What the transforms of a connector become.

    Attributes:
        processors: Processors, in order.
        metadata_columns: Columns with the place of a record.
        fields: For a field that a transform adds, the format string with its value, for routing.
        adds_route: Whether a processor adds the text of the route field.
        serde: The format of the records, if it is JSON or a change stream; empty: the transforms say nothing about it.
        objects: What objects become in new columns; empty: the transforms say nothing about it.
    """

    processors: list[dict[str, Any]] = field(default_factory=list)
    metadata_columns: dict[str, str] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    adds_route: bool = False
    serde: str = ""
    objects: str = ""

    @property
    def is_change_stream(self) -> bool:
        """Whether the records are envelopes of changes."""
        return self.serde not in ("", "json")


_Convert = Callable[["Transforms", dict[str, str]], None]


def converted(properties: Properties) -> Transforms:
    """Convert the transforms; those without a counterpart get a remark."""
    transforms = Transforms()
    for alias in listed(properties.pop("transforms")):
        options = properties.below(f"transforms.{alias}.")
        kind = options.pop("type", "")
        name = kind.rpartition(".")[2].partition("$")[0]
        of_key = kind.endswith("$Key")
        if condition := options.pop("predicate", ""):
            advice = "Predicates have no counterpart: use the processor's own condition, such as `add_when`"
            properties.remarks.append((f"transforms.{alias}.predicate = {condition}", advice))
        if of_key:
            properties.remarks.append((f"transforms.{alias} = {kind}", "Calve keeps keys as the metadata `kafka_key`"))
        elif name in _CHANGES:
            _changes(transforms, properties, name, options)
        elif name == "JsonToMapTransform":
            _json_to_map(transforms, properties, options)
        elif name in _CONVERSIONS:
            _CONVERSIONS[name](transforms, options)
        else:
            advice = _ADVICE.get(name, "No counterpart; see the processors, and `sql` for all else")
            properties.remarks.append((f"transforms.{alias} = {kind}", advice))
    properties.remark_below("Predicates have no counterpart: use conditions of processors and routes", "predicates")
    if transforms.is_change_stream and transforms.processors:
        advice = "Processors cannot change the rows of change streams; these were left out: "
        properties.advise(advice + ", ".join(next(iter(processor)) for processor in transforms.processors))
        transforms.processors.clear()
    return transforms


def _changes(transforms: Transforms, properties: Properties, name: str, options: dict[str, str]) -> None:
    """Read the envelopes themselves: then updates and deletes are applied, not appended."""
    transforms.serde = _CHANGES[name]
    if transforms.serde == "debezium":
        pattern = options.get("cdc.target.pattern", "{db}.{table}")
        parts = {
            "{db}": '${getMetadata("debezium_source_schema")}',
            "{table}": '${getMetadata("debezium_source_table")}',
        }
        transforms.fields["_cdc.target"] = re.sub(r"\{db\}|\{table\}", lambda match: parts[match[0]], pattern)
        if "_cdc.target" in properties.values.get("iceberg.tables.route-field", "") and "{db}" in pattern:
            properties.advise("MySQL has no schemas: for it write debezium_source_db instead of debezium_source_schema")
        _added_fields(transforms, properties, options)
    serde = transforms.serde
    advice = f"The connector appended each change; Calve reads the envelopes (serde_format: {serde}) and applies them"
    properties.advise(f"{advice} by key: see docs/updates-and-deletes.md. For a log of changes use serde_format: json")


def _added_fields(transforms: Transforms, properties: Properties, options: dict[str, str]) -> None:
    """Add the columns that `ExtractNewRecordState` adds to each row."""
    for given in listed(options.get("add.fields", "")):
        name, _, renamed = given.partition(":")
        column = options.get("add.fields.prefix", "__") + (renamed or name.replace(".", "_"))
        if attribute := _CHANGE_FIELDS.get(name):
            transforms.metadata_columns[column] = attribute
            transforms.fields[column] = f'${{getMetadata("{attribute}")}}'
        else:
            properties.remarks.append(
                (f"add.fields = {name}", f"No metadata attribute has it; the column {column} is missing")
            )


def _json_to_map(transforms: Transforms, properties: Properties, options: dict[str, str]) -> None:
    """Read JSON, whose objects become maps, as those of the transform."""
    transforms.serde, transforms.objects = "json", "map"
    if options.get("json.root", "").lower() == "true":
        advice = (
            "The whole record in one map: without schema_evolution set overflow: {column: payload}, and create the "
        )
        properties.remarks.append(("json.root = true", f"{advice}table with that column, a map<string, string>"))


def _insert_field(transforms: Transforms, options: dict[str, str]) -> None:
    for what, attribute in _PLACES.items():
        if column := options.get(f"{what}.field", "").rstrip("!?"):
            transforms.metadata_columns[column] = attribute
            transforms.fields[column] = f'${{getMetadata("{attribute}")}}'
    if column := options.get("static.field", "").rstrip("!?"):
        entry = {"key": column, "value": options.get("static.value", ""), "overwrite_if_key_exists": True}
        transforms.processors.append({"add_entries": {"entries": [entry]}})


def _kafka_metadata(transforms: Transforms, options: dict[str, str]) -> None:
    is_nested = options.get("nested", "").lower() == "true"
    prefix = options.get("field_name", "_kafka_metadata") + ("/" if is_nested else "_")
    places = {f"{prefix}{what}": attribute for what, attribute in _PLACES.items()}
    entries = [
        {"key": key, "value_expression": f'getMetadata("{place}")'} for key, place in places.items() if is_nested
    ]
    if external := listed(options.get("external_field", "")):
        entries.append({"key": prefix + external[0], "value": ",".join(external[1:])})
    if entries:
        transforms.processors.append({"add_entries": {"entries": entries}})
    if not is_nested:
        transforms.metadata_columns |= places
    transforms.fields |= {key.replace("/", "."): f'${{getMetadata("{place}")}}' for key, place in places.items()}


def _copy_value(transforms: Transforms, options: dict[str, str]) -> None:
    entry = {"from_key": options.get("source.field", ""), "to_key": options.get("target.field", "")}
    transforms.processors.append({"copy_values": {"entries": [{**entry, "overwrite_if_to_key_exists": True}]}})


def _replace_field(transforms: Transforms, options: dict[str, str]) -> None:
    if excluded := listed(options.get("exclude") or options.get("blacklist", "")):
        transforms.processors.append({"delete_entries": {"with_keys": excluded}})
    if kept := listed(options.get("include") or options.get("whitelist", "")):
        transforms.processors.append({"select_entries": {"include_keys": kept}})
    names = [pair.partition(":") for pair in listed(options.get("renames", ""))]
    if names:
        entries = [{"from_key": old.strip(), "to_key": new.strip()} for old, _, new in names]
        transforms.processors.append({"rename_keys": {"entries": entries}})


def _cast(transforms: Transforms, options: dict[str, str]) -> None:
    for pair in listed(options.get("spec", "")):
        name, _, kind = pair.partition(":")
        if kind in _TYPES:
            transforms.processors.append({"convert_type": {"key": name, "type": _TYPES[kind]}})


def _flatten(transforms: Transforms, options: dict[str, str]) -> None:
    settings = {"source": "", "target": "", "remove_processed_fields": True}
    transforms.processors.append({"flatten": {**settings, "flatten_separator": options.get("delimiter", ".")}})


_CONVERSIONS: dict[str, _Convert] = {
    "InsertField": _insert_field,
    "KafkaMetadataTransform": _kafka_metadata,
    "CopyValue": _copy_value,
    "ReplaceField": _replace_field,
    "Cast": _cast,
    "Flatten": _flatten,
}
