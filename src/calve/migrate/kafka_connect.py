"""A connector of Kafka Connect's Iceberg sink as a pipeline in YAML.

What the properties mean was read in the sources of Apache Iceberg's sink, and of the sink from which it was made.
"""

from __future__ import annotations

import re
import textwrap
from typing import Any

import yaml  # type: ignore[import-untyped]

from calve.errors import SettingsError
from calve.migrate.connector_file import Connector
from calve.migrate.iceberg_sinks import iceberg_sinks
from calve.migrate.kafka_source import kafka_source, topic_entries
from calve.migrate.properties import Properties
from calve.migrate.transforms import converted

__all__ = ["pipeline_text"]

_CLASS = "IcebergSinkConnector"
_KEEPS_KEYS = "io.tabular"
"""The first part of the class of the older sink, which applies updates and deletes."""
_COORDINATION = "Not needed: there is no control topic and no coordinator. The ledger in the state folder decides"
_CORES = "Spark uses all cores; for another number: --master 'local[N]'"
_REJECTS = "Every rejected event is a dead letter with its reason: see `dlq` and docs/dead-letters.md"
_WIDTH = 118


class _Plain(yaml.SafeDumper):  # type: ignore[misc]
    """Writes equal parts in full, and lists below their keys."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def pipeline_text(connector: Connector, file: str) -> str:
    """Return the YAML of a connector, with a comment for each property that has no counterpart.

    Args:
        connector: The connector.
        file: The name of its file, for the comment at the top.

    Raises:
        SettingsError: It is no Iceberg sink, or it lacks topics, tables or a catalog.
    """
    properties = Properties(dict(connector.properties))
    kind = properties.pop("connector.class")
    if kind.rpartition(".")[2] != _CLASS:
        hint = f"calve convert reads connectors whose connector.class ends in {_CLASS}"
        actual = f"is a {kind}" if kind else "has no connector.class"
        raise SettingsError(f"{file} {actual}", step="settings", target=file, hint=hint)
    name = connector.name or "connect"
    properties.pop("name")
    document = _document(properties, name, kind.startswith(_KEEPS_KEYS))
    _remark_on_the_rest(properties)
    text: str = yaml.dump(document, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return "\n".join(_header(properties, file, next(iter(document)))) + "\n" + text


def _document(properties: Properties, name: str, applies_changes: bool) -> dict[str, Any]:
    topics = topic_entries(properties)
    transforms = converted(properties)
    source = kafka_source(properties, name, topics, transforms.serde)
    routes, sinks = iceberg_sinks(properties, transforms, applies_changes)
    if dlq := _dead_letters(properties, source):
        for sink in sinks:
            sink["iceberg"]["dlq"] = dlq
    rest: dict[str, Any] = {"processor": transforms.processors} if transforms.processors else {}
    rest |= {"route": routes} if routes else {}
    rest["sink"] = sinks
    title = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-._") or "connect"
    return {title: {"source": {"kafka": source}, **rest}}


def _dead_letters(properties: Properties, source: dict[str, Any]) -> dict[str, Any]:
    """Return the topic of dead letters, which Kafka Connect creates in the cluster of the source; empty: none."""
    topic = properties.pop("errors.deadletterqueue.topic.name")
    replicas = properties.pop("errors.deadletterqueue.topic.replication.factor")
    if not topic:
        return {}
    shared = {name: source[name] for name in ("bootstrap_servers", "encryption", "authentication") if name in source}
    created = {"replication_factor": int(replicas)} if replicas.isdecimal() else {}
    return {"kafka": {"topic": topic, **shared, "create_topic": True, "number_of_partitions": 1, **created}}


def _remark_on_the_rest(properties: Properties) -> None:
    properties.remark(_CORES, "tasks.max")
    properties.remark_below(_COORDINATION, "iceberg.control.")
    properties.remark_below(_COORDINATION, "iceberg.coordinator")
    properties.remark_below(_REJECTS, "errors.")
    properties.remark_below("No counterpart", "")


def _header(properties: Properties, file: str, name: str) -> list[str]:
    """Return comment lines: where the YAML comes from, how to go on, and all remarks."""
    lines = [
        f"# Made by `calve convert {file}`. Where to continue reading: docs/from-kafka-connect.md",
        f"#   calve state rebuild {name}.yaml --from group",
    ]
    whole = [text for names, text in properties.remarks if not names]
    single: dict[str, list[str]] = {}
    for names, text in properties.remarks:
        if names:
            single.setdefault(text, []).append(names)
    if whole:
        lines += ["#", "# Check:", *[line for text in whole for line in _comment(text, "# - ", "#   ")]]
    if single:
        lines += ["#", "# Properties without a counterpart:"]
        for text, every in single.items():
            lines += [*[f"#   {' '.join(remark.split())}" for remark in every], *_comment(text, "#     ", "#     ")]
    return lines


def _comment(text: str, first: str, later: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False)
