"""Describes a pipeline for the dashboard: its parts by name, and its YAML without secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calve.catalog.sqlite import embedded, sqlite_file
from calve.observe.blueprint import Blueprint, SinkPart
from calve.settings import PipelineSettings, SinkEntry
from calve.settings.catalog import EMBEDDED

__all__ = ["blueprint_of"]

_OPEN = ("name", "type", "uri", "warehouse", "jdbc.schema-version")
"""The properties of a catalog in a file that say where it is, and no more."""


def blueprint_of(settings: PipelineSettings) -> Blueprint:
    """Return the blueprint of a pipeline with all its sinks."""
    return Blueprint(
        settings.source.name,
        (
            *(processor.name for processor in settings.processors),
            *(f"{branch.name}: {plugin.name}" for branch in settings.branches for plugin in branch.processors),
        ),
        tuple(_sink(settings, sink) for sink in settings.sinks),
        settings.shown,
    )


def _sink(settings: PipelineSettings, sink: SinkEntry) -> SinkPart:
    routes = tuple(gate.routes for gate in settings.gates(sink) if gate.routes)
    return SinkPart(sink.name, sink.value.target_name or "", routes, _catalog(sink.value))


def _catalog(settings: Any) -> dict[str, str]:
    """Return where a catalog is if it is a file of this machine, and its tables are, too: then it needs no secrets."""
    if not settings.has_tables:
        return {}
    properties = settings.catalog
    if properties is None:
        return embedded(Path(EMBEDDED))
    if sqlite_file(properties) is None or "://" in properties.get("warehouse", "").removeprefix("file://"):
        return {}
    return {name: properties[name] for name in _OPEN if name in properties}
