"""The plugins that a configuration may name, and how they are opened.

The module of a source or sink is imported only when it is opened, not to read a configuration.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from calve.expression import compile_condition, compile_format
from calve.object_store import StateFolder
from calve.pipeline.faults import faults
from calve.processors.registry import PROCESSORS, REFUSED
from calve.serde.sample import values_of
from calve.serde.settings import Serde
from calve.settings import FromPipeline, PipelineSettings, Plugins, ToPipeline
from calve.sources.file.settings import FileSettings
from calve.sources.http.settings import HttpSettings
from calve.sources.iceberg.metadata import METADATA, ORIGIN
from calve.sources.iceberg.settings import IcebergSourceSettings
from calve.sources.kafka.settings import KafkaSettings
from calve.sources.mysql.attributes import METADATA as MYSQL
from calve.sources.mysql.settings import MysqlSettings
from calve.sources.postgres.attributes import METADATA as POSTGRES
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.rds.settings import RdsSettings
from calve.sources.s3.attributes import METADATA as S3
from calve.sources.s3.settings import S3SourceSettings
from calve.sources.source import Reader, Source

if TYPE_CHECKING:
    from calve.engine.engine import Engine
    from calve.route.shared_targets import SharedTargets
    from calve.sinks.settings import SinkSettings
    from calve.sinks.sink import CatalogOf, Opening, Sink

__all__ = [
    "PLUGINS",
    "accepts",
    "emits_changes",
    "is_replicated",
    "local_log",
    "metadata_of",
    "narrowed",
    "open_sink",
    "open_source",
    "origin_of",
    "probe_sink",
    "reads_tables",
    "sample_of",
    "serde_of",
    "source_kind",
    "targets_of",
]


Opened = Callable[[PipelineSettings, Any, "CatalogOf"], Source]
"""Creates a source from its pipeline, its folder, and the function that opens catalogs."""


@dataclass(frozen=True)
class _Kind:
    """One kind of source.

    Attributes:
        settings: Its settings class.
        open: Creates it.
        metadata: Returns the metadata attributes of its events, and their types, for its settings.
        accepts: Whether it accepts events from clients, into a log; then a run writes them before it ends.
        origin: The metadata attributes that identify the parts that are read in parallel, each in order.
        narrow: Returns a reader without unused metadata that is expensive.
        changes: Whether its events are changes, whose operation is the metadata attribute `operation`.
    """

    settings: type
    open: Opened
    metadata: Callable[[Any], Mapping[str, pa.DataType]]
    accepts: bool = False
    origin: tuple[str, ...] = ()
    narrow: Callable[[Any, frozenset[str]], Reader] = lambda reader, used: reader
    changes: bool = False


_KAFKA = {
    "kafka_topic": pa.string(),
    "kafka_partition": pa.int32(),
    "kafka_offset": pa.int64(),
    "kafka_key": pa.string(),
    "kafka_timestamp": pa.int64(),
    "kafka_timestamp_type": pa.string(),
    "kafka_headers": pa.string(),
}
_FILE = {"file_path": pa.string(), "file_row": pa.int64()}


def _http(settings: HttpSettings) -> dict[str, pa.DataType]:
    names = settings.kept_headers
    return {"headers": pa.struct([(name, pa.string()) for name in names])} if names else {}


def _alone(
    name: str, *parts: Callable[[PipelineSettings], Any]
) -> Callable[[PipelineSettings, Any, CatalogOf], Source]:
    """Return the opener of a source that needs no catalog, by its folder name; `parts` make more of its arguments."""

    def opened(settings: PipelineSettings, folder: StateFolder, catalog_of: CatalogOf) -> Source:
        module, more = importlib.import_module(f"calve.sources.{name}.source"), [part(settings) for part in parts]
        source: Source = module.open(settings.source.value, folder, settings.name, *more)
        return source

    return opened


def _open_iceberg(settings: PipelineSettings, folder: StateFolder, catalog_of: CatalogOf) -> Source:
    from calve.sources.iceberg.source import IcebergSource

    value: IcebergSourceSettings = settings.source.value
    return IcebergSource(value, folder, settings.name, lambda properties: catalog_of(properties)[1])


def targets_of(settings: PipelineSettings) -> SharedTargets:
    """Return what finds the targets of a pipeline that get rows of several source tables."""
    from calve.route.gates import gates  # brings pyarrow.compute, which reading a configuration does not need
    from calve.route.route import SinkRoute
    from calve.route.shared_targets import shared_targets

    metadata = metadata_of(settings)
    routes = [
        SinkRoute(compile_format(name, metadata), gates(sink, metadata))
        for sink in settings.sinks
        if (name := sink.value.target_name) is not None
    ]
    return partial(shared_targets, routes)


_SOURCES = {
    "http": _Kind(HttpSettings, _alone("http"), _http, accepts=True),
    "kafka": _Kind(
        KafkaSettings,
        _alone("kafka"),
        lambda kafka: _KAFKA,
        origin=("kafka_topic", "kafka_partition"),
        narrow=lambda reader, used: replace(reader, metadata=used),
    ),
    "file": _Kind(FileSettings, _alone("file"), lambda file: _FILE),
    "s3": _Kind(
        S3SourceSettings,
        _alone("s3"),
        lambda s3: S3,
        narrow=lambda reader, used: replace(reader, metadata=used),
    ),
    "iceberg": _Kind(
        IcebergSourceSettings,
        _open_iceberg,
        lambda iceberg: METADATA,
        origin=(ORIGIN,),
        narrow=lambda reader, used: replace(reader, metadata=used),
    ),
    "mysql": _Kind(
        MysqlSettings,
        _alone("mysql", targets_of),
        lambda mysql: MYSQL,
        narrow=lambda reader, used: replace(reader, metadata=used),
        changes=True,
    ),
    "postgres": _Kind(
        PostgresSettings,
        _alone("postgres", targets_of),
        lambda postgres: POSTGRES,
        narrow=lambda reader, used: replace(reader, metadata=used),
        changes=True,
    ),
}

_SINKS = (
    "iceberg",
    "opensearch",
)
"""The kinds of sinks, each a folder: `calve.sinks.<name>` (`calve.sinks.sink` describes its contents)."""


def _sink_module(name: str, part: str) -> Any:
    return importlib.import_module(f"calve.sinks.{name}.{part}")


def metadata_of(settings: PipelineSettings) -> Mapping[str, pa.DataType]:
    """Return the metadata attributes of the events of a pipeline's source, and their types."""
    return _SOURCES[settings.source.name].metadata(settings.source.value)


PLUGINS = Plugins(
    sources={**{name: kind.settings for name, kind in _SOURCES.items()}, "rds": RdsSettings, "pipeline": FromPipeline},
    sinks={**{name: _sink_module(name, "settings").SETTINGS for name in _SINKS}, "pipeline": ToPipeline},
    processors=PROCESSORS,
    refused_processors=REFUSED,
    condition=compile_condition,
    faults=partial(faults, metadata_of),
)


def accepts(settings: PipelineSettings) -> bool:
    """Return whether a pipeline's source accepts events from clients."""
    return _SOURCES[settings.source.name].accepts


def local_log(settings: PipelineSettings) -> Path | None:
    """Return the local folder that the settings choose for the events which a source accepts; None: there is none."""
    chosen = settings.source.value.log_folder if accepts(settings) else None
    return Path(chosen).expanduser().absolute() / settings.name / settings.source.name if chosen else None


def is_replicated(settings: PipelineSettings) -> bool:
    """Return whether a pipeline's source keeps all that it must remember on the state's object store."""
    source = settings.source.value
    return not isinstance(source, HttpSettings) or source.durable == "replicated"


def serde_of(settings: PipelineSettings) -> Serde | None:
    """Return how values with a schema become rows; None: a pipeline's source has none.

    Raises:
        SettingsError: The file of the schema cannot be read.
    """
    source = settings.source.value
    return source.serde if isinstance(source, KafkaSettings) else None


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

    data, serde, source = read_bytes(name), serde_of(settings), settings.source.value
    has_ids = serde is not None and serde.schema.registry_url is not None
    if serde and len(data) <= SAMPLE_BYTES and (values := values_of(data, has_ids)):
        return sample_values(values), True
    files = source.format if isinstance(source, S3SourceSettings) else source
    lines = sample_lines(data, shown_name(name), files if isinstance(files, FileSettings) else None)
    are_values = serde is not None and serde.format == "json_schema" and not has_ids and is_text(data)
    return lines, are_values


def emits_changes(settings: PipelineSettings) -> bool:
    """Return whether the events of a pipeline's source are changes with an operation of their own."""
    return _SOURCES[settings.source.name].changes


def reads_tables(settings: PipelineSettings) -> bool:
    """Return whether a pipeline's source reads tables, which needs Spark SQL."""
    return isinstance(settings.source.value, IcebergSourceSettings)


def source_kind(settings: PipelineSettings) -> str:
    """Return what a pipeline's source is called where its positions are kept: only the same kind understands them."""
    source = settings.source
    return f"{source.name} with tail" if isinstance(source.value, FileSettings) and source.value.tail else source.name


def origin_of(settings: PipelineSettings) -> tuple[str, ...]:
    """Return the metadata attributes that identify an event's part of the source; none: it has one part."""
    return _SOURCES[settings.source.name].origin


def narrowed(settings: PipelineSettings, reader: Reader, used: frozenset[str]) -> Reader:
    """Return the reader that builds only metadata that expressions use or that is free."""
    return _SOURCES[settings.source.name].narrow(reader, used)


def open_source(settings: PipelineSettings, folder: StateFolder, catalog_of: CatalogOf) -> Source:
    """Create a pipeline's source; it connects in `start`.

    Args:
        settings: The pipeline.
        folder: `<state>/<pipeline>`; the source keeps what it must remember in `<folder>/<source>`.
        catalog_of: Opens catalogs.
    """
    name = settings.source.name
    own = local_log(settings) or folder / name
    return _SOURCES[name].open(settings, own, catalog_of)


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
