"""The plugins that a configuration may name, and how they are opened.

The module of a source or sink is imported only when it is opened, not to read a configuration.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from calve.expression import compile_condition, compile_format
from calve.pipeline.faults import faults
from calve.pipeline.refused import REFUSED
from calve.processors.entries import AddEntries, AddEntry
from calve.processors.registry import PROCESSORS
from calve.serde.sample import values_of
from calve.settings import FromPipeline, PipelineSettings, Plugins, ToPipeline
from calve.sources.settings import SourceSettings
from calve.sources.source import Reader, Source, SourceContext, SourceTable
from calve.sources.try_start import try_first_event
from calve.state.folder import StateFolder
from calve.state.local_folder import LocalFolder

if TYPE_CHECKING:
    from calve.engine.engine import Engine
    from calve.sinks.settings import SinkSettings
    from calve.sinks.sink import CatalogOf, Opening, Sink

__all__ = [
    "PLUGINS",
    "SOURCES",
    "check_start",
    "declared",
    "drop_source",
    "held_by",
    "local_log",
    "narrowed",
    "open_sink",
    "open_source",
    "preview_source",
    "probe_sink",
    "probe_source",
    "sample_of",
    "source_kind",
]

_SOURCES = (
    "http",
    "otlp",
    "otel_logs_source",
    "otel_trace_source",
    "otel_metrics_source",
    "kafka",
    "file",
    "s3",
    "iceberg",
    "mysql",
    "postgres",
    "rds",
    "spark",
)
"""The kinds of sources, each a folder: `calve.sources.<name>` (`calve.sources.source` describes its contents)."""
_OTHER_NAMES = {
    "otlp_logs": "otel_logs_source",
    "otlp_traces": "otel_trace_source",
    "otlp_metrics": "otel_metrics_source",
}
"""Newer names of sources in Data Prepper."""
_SINKS = (
    "iceberg",
    "kafka",
    "opensearch",
    "file",
    "http",
    "stdout",
)
"""The kinds of sinks, each a folder: `calve.sinks.<name>` (`calve.sinks.sink` describes its contents)."""


def _source_module(name: str, part: str) -> Any:
    return importlib.import_module(f"calve.sources.{name}.{part}")


def _sink_module(name: str, part: str) -> Any:
    return importlib.import_module(f"calve.sinks.{name}.{part}")


def _adding(attribute_by_key: Mapping[str, str]) -> AddEntries:
    """Return the processor that adds metadata attributes to events, in place of fields with the same keys."""
    return AddEntries(
        entries=[
            AddEntry(key=key, value_expression=f'getMetadata("{name}")', overwrite_if_key_exists=True)
            for key, name in attribute_by_key.items()
        ]
    )


SOURCES: dict[str, type[SourceSettings]] = {
    name: _source_module(_OTHER_NAMES.get(name, name), "settings").SETTINGS for name in (*_SOURCES, *_OTHER_NAMES)
}
"""The settings class of each kind of source."""
PLUGINS = Plugins(
    sources={**SOURCES, "pipeline": FromPipeline},
    sinks={**{name: _sink_module(name, "settings").SETTINGS for name in _SINKS}, "pipeline": ToPipeline},
    processors=PROCESSORS,
    refused=REFUSED,
    adding=_adding,
    condition=compile_condition,
    faults=faults,
)


def declared(settings: PipelineSettings) -> SourceSettings:
    """Return the settings of a pipeline's source, which answer what it is."""
    source: SourceSettings = settings.source.value
    return source


def local_log(settings: PipelineSettings) -> Path | None:
    """Return the local folder that the settings choose for the events which a source accepts; None: there is none."""
    chosen = declared(settings).log_folder
    return Path(chosen).expanduser().absolute() / settings.name / settings.source.name if chosen else None


def sample_of(settings: PipelineSettings, name: str) -> tuple[pa.Table, bool]:
    """Return sample events of a file, or of stdin for `-`, and whether they are values with a schema.

    Raises:
        SourceError: The file does not exist, cannot be read, is too large, or is of an unknown format.
        SettingsError: The file of the schema cannot be read.
    """
    from calve.sources.file.sample import (  # brings the codecs
        SAMPLE_BYTES,
        is_text,
        read_bytes,
        sample_lines,
        sample_values,
        shown_name,
    )

    data, serde = read_bytes(name), declared(settings).serde
    has_ids = serde is not None and serde.schema.registry_url is not None
    if serde and len(data) <= SAMPLE_BYTES and (values := values_of(data, has_ids)):
        return sample_values(values), True
    lines = sample_lines(data, shown_name(name), declared(settings))
    are_values = serde is not None and serde.format == "json_schema" and not has_ids and is_text(data)
    return lines, are_values


def source_kind(settings: PipelineSettings) -> str:
    """Return what a pipeline's source is called where its positions are kept: only the same kind understands them."""
    return f"{settings.source.name} {declared(settings).mode}".rstrip()


def narrowed(reader: Reader, used: frozenset[str]) -> Reader:
    """Return a reader that builds only metadata that expressions use or that is free.

    A reader that can, because some of its metadata is expensive, is a dataclass with a field `metadata`.
    """
    parts: Any = reader
    names: list[str] = [field.name for field in fields(parts)] if is_dataclass(reader) else []
    chosen: Reader = replace(parts, metadata=used) if "metadata" in names else reader
    return chosen


def open_source(settings: PipelineSettings, folder: StateFolder, catalog_of: CatalogOf) -> Source:
    """Create a pipeline's source; it connects in `start`.

    Args:
        settings: The pipeline.
        folder: `<state>/<pipeline>`; the source keeps what it must remember in `<folder>/<source>`.
        catalog_of: Opens catalogs.
    """
    name = settings.source.name
    log, context = local_log(settings), _context(settings, catalog_of)
    own = folder / name if log is None else LocalFolder(log)
    source: Source = _source_module(name, "source").open(settings.source.value, own, settings.name, context)
    return source


def probe_source(settings: PipelineSettings, folder: StateFolder, catalog_of: CatalogOf) -> None:
    """Check that the systems of a pipeline's source answer and can be read; the check changes nothing.

    Args:
        settings: The pipeline.
        folder: An empty folder.
        catalog_of: Opens catalogs.

    Raises:
        CalveError: A system does not answer, or cannot be read.
    """
    module, context = _source_module(settings.source.name, "source"), _context(settings, catalog_of)
    arguments = settings.source.value, folder, settings.name, context
    if hasattr(module, "probe"):
        module.probe(*arguments)
    else:
        try_first_event(module.open(*arguments))


def check_start(settings: PipelineSettings, once: bool, is_new: bool) -> None:
    """Check, before Spark starts, what a pipeline's source needs of this machine.

    Args:
        settings: The pipeline.
        once: Whether it reads only the current events.
        is_new: Whether it has no batch yet.

    Raises:
        CalveError: It cannot start; the hint helps.
    """
    module = _source_module(settings.source.name, "source")
    if hasattr(module, "check_start"):
        module.check_start(settings.source.value, settings.name, once, is_new)


def preview_source(name: str, settings: Any) -> Any:
    """Return what a source has, as the `preview` of its kind returns it; nothing is changed there.

    Args:
        name: The source's kind.
        settings: Its settings.

    Raises:
        CalveError: The server does not answer, or refuses.
    """
    return _source_module(name, "preview").preview(settings)


def _context(settings: PipelineSettings, catalog_of: CatalogOf) -> SourceContext:
    def shared_targets(tables: Sequence[SourceTable]) -> list[tuple[str, list[str]]]:
        from calve.pipeline.row_changes import check_tables
        from calve.route.gates import gates  # brings pyarrow.compute, which reading a configuration does not need
        from calve.route.shared_targets import shared_targets
        from calve.route.sink_route import SinkRoute

        metadata = declared(settings).metadata
        names = [(sink, sink.value.target_name) for sink in settings.sinks]
        check_tables(settings, tables, metadata)
        every = [(replace(sink, gates=settings.gates(sink)), name) for sink, name in names if name]
        routes = [SinkRoute(compile_format(name, metadata), gates(sink, metadata)) for sink, name in every]
        return shared_targets(routes, tables)

    return SourceContext(lambda properties: catalog_of(properties)[1], shared_targets)


def held_by(settings: PipelineSettings) -> str:
    """Return what a pipeline has on its source's server until `drop_source`, for messages.

    Raises:
        CalveError: The server does not answer, or refuses.
    """
    held: str = _source_module(settings.source.name, "source").held(settings.source.value, settings.name)
    return held


def drop_source(settings: PipelineSettings) -> list[str]:
    """Drop what a pipeline has on its source's server; return a sentence for each thing.

    Raises:
        CalveError: The server does not answer, or refuses.
    """
    lines: list[str] = _source_module(settings.source.name, "source").drop(settings.source.value, settings.name)
    return lines


def open_sink(opening: Opening) -> Sink:
    """Create one of a pipeline's sinks; it connects in `Sink.open`."""
    sink: Sink = _sink_module(opening.entry.name, "sink").open(opening)
    return sink


def probe_sink(name: str, settings: SinkSettings, spark: Engine | None) -> None:
    """Check that a sink's systems answer and can be written; the check changes nothing.

    Args:
        name: The sink's kind.
        settings: As parsed.
        spark: The session, if the sink has tables.

    Raises:
        CalveError: A system does not answer, or cannot be written.
    """
    _sink_module(name, "sink").probe(settings, spark)
