"""What a configuration may name, and how each part is opened.

The module of a source or sink is imported when it is opened: a configuration is read without it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from calve.expression import compile_condition
from calve.pipeline.faults import faults
from calve.settings import FromPipeline, PipelineSettings, Plugins, ToPipeline
from calve.sources.file.settings import FileSettings
from calve.sources.http.settings import HttpSettings
from calve.sources.iceberg.metadata import METADATA, ORIGIN
from calve.sources.iceberg.settings import IcebergSourceSettings
from calve.sources.kafka.settings import KafkaSettings
from calve.sources.source import Reader, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from calve.sinks.settings import SinkSettings
    from calve.sinks.sink import CatalogOf, Opening, Sink

__all__ = [
    "PLUGINS",
    "accepts",
    "metadata_of",
    "narrowed",
    "open_sink",
    "open_source",
    "origin_of",
    "probe_sink",
    "reads_tables",
]


@dataclass(frozen=True)
class _Kind:
    """One kind of source.

    Attributes:
        settings: Its settings class.
        open: Makes it from settings, folder, pipeline name, and what opens catalogs.
        metadata: Gives the metadata attributes that its events carry, and their types, for its settings.
        accepts: Whether clients were told that it has their events, so that these are worked off before a run ends.
        origin: The metadata attributes that tell apart the parts that are read side by side, each in order.
        narrow: Gives the reader that leaves out metadata which costs something and which nothing uses.
    """

    settings: type
    open: Callable[[Any, Path, str, CatalogOf], Source]
    metadata: Callable[[Any], Mapping[str, pa.DataType]]
    accepts: bool = False
    origin: tuple[str, ...] = ()
    narrow: Callable[[Any, frozenset[str]], Reader] = lambda reader, used: reader


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


def _alone(name: str) -> Callable[[Any, Path, str, CatalogOf], Source]:
    """A source that needs no catalog, by its folder."""

    def opened(settings: Any, folder: Path, pipeline: str, catalog_of: CatalogOf) -> Source:
        source: Source = importlib.import_module(f"calve.sources.{name}.source").open(settings, folder, pipeline)
        return source

    return opened


def _open_iceberg(settings: IcebergSourceSettings, folder: Path, pipeline: str, catalog_of: CatalogOf) -> Source:
    from calve.sources.iceberg.source import IcebergSource

    return IcebergSource(settings, folder, pipeline, lambda properties: catalog_of(properties)[1])


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
    "iceberg": _Kind(
        IcebergSourceSettings,
        _open_iceberg,
        lambda iceberg: METADATA,
        origin=(ORIGIN,),
        narrow=lambda reader, used: replace(reader, metadata=used),
    ),
}

_SINKS = (
    "iceberg",
    "opensearch",
)
"""The kinds of sinks, each a folder: `calve.sinks.<name>` (`calve.sinks.sink` says what is in it)."""


def _sink_module(name: str, part: str) -> Any:
    return importlib.import_module(f"calve.sinks.{name}.{part}")


PLUGINS = Plugins(
    sources={**{name: kind.settings for name, kind in _SOURCES.items()}, "pipeline": FromPipeline},
    sinks={**{name: _sink_module(name, "settings").SETTINGS for name in _SINKS}, "pipeline": ToPipeline},
    condition=compile_condition,
    faults=faults,
)


def metadata_of(settings: PipelineSettings) -> Mapping[str, pa.DataType]:
    """Return the metadata attributes that the events of a pipeline's source carry, and their types."""
    return _SOURCES[settings.source.name].metadata(settings.source.value)


def accepts(settings: PipelineSettings) -> bool:
    """Whether a pipeline's source tells clients that it has their events."""
    return _SOURCES[settings.source.name].accepts


def reads_tables(settings: PipelineSettings) -> bool:
    """Whether a pipeline's source reads tables, so that Spark must be made for it."""
    return isinstance(settings.source.value, IcebergSourceSettings)


def origin_of(settings: PipelineSettings) -> tuple[str, ...]:
    """Return the metadata attributes that say which part of a pipeline's source an event came from; none: it is one."""
    return _SOURCES[settings.source.name].origin


def narrowed(settings: PipelineSettings, reader: Reader, used: frozenset[str]) -> Reader:
    """Return the reader that builds the metadata attributes that expressions use, and those that cost nothing."""
    return _SOURCES[settings.source.name].narrow(reader, used)


def open_source(settings: PipelineSettings, folder: Path, catalog_of: CatalogOf) -> Source:
    """Make a pipeline's source; `<state>/<pipeline>/<source>` is its folder. Nothing is reached before `start`."""
    name = settings.source.name
    return _SOURCES[name].open(settings.source.value, folder / name, settings.name, catalog_of)


def open_sink(opening: Opening) -> Sink:
    """Make one of a pipeline's sinks. Nothing is reached before `Sink.open`."""
    sink: Sink = _sink_module(opening.entry.name, "sink").open(opening)
    return sink


def probe_sink(name: str, settings: SinkSettings, spark: SparkSession | None) -> None:
    """Try whether what a sink names answers and can be written; everything is left as it was.

    Args:
        name: The sink's kind.
        settings: As parsed.
        spark: There if the sink has tables.

    Raises:
        CalveError: It does not.
    """
    _sink_module(name, "sink").probe(settings, spark)
