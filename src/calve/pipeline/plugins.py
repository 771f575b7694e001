"""What a configuration may name, and how each part is opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calve.expression import compile_condition
from calve.settings import PipelineSettings, Plugins
from calve.sinks.iceberg.settings import IcebergSettings
from calve.sources.file import source as file
from calve.sources.file.settings import FileSettings
from calve.sources.http import source as http
from calve.sources.http.settings import HttpSettings
from calve.sources.kafka import source as kafka
from calve.sources.kafka.settings import KafkaSettings
from calve.sources.source import Source

__all__ = ["PLUGINS", "accepts", "metadata_of", "open_source"]


@dataclass(frozen=True)
class _Kind:
    """One kind of source.

    Attributes:
        settings: Its settings class.
        open: Makes it from settings, folder and pipeline name.
        metadata: The metadata attributes that its events carry.
        accepts: Whether clients were told that it has their events, so that these are worked off before a run ends.
    """

    settings: type
    open: Callable[[Any, Path, str], Source]
    metadata: frozenset[str]
    accepts: bool = False


_SOURCES = {
    "http": _Kind(HttpSettings, http.open, frozenset({"headers"}), accepts=True),
    "kafka": _Kind(
        KafkaSettings,
        kafka.open,
        frozenset({"kafka_topic", "kafka_partition", "kafka_offset", "kafka_key", "kafka_timestamp", "kafka_headers"}),
    ),
    "file": _Kind(FileSettings, file.open, frozenset({"file_path", "file_row"})),
}

PLUGINS = Plugins(
    sources={name: kind.settings for name, kind in _SOURCES.items()},
    sinks={"iceberg": IcebergSettings},
    condition=compile_condition,
)


def metadata_of(settings: PipelineSettings) -> frozenset[str]:
    """Give the metadata attributes that the events of a pipeline's source carry."""
    return _SOURCES[settings.source.name].metadata


def accepts(settings: PipelineSettings) -> bool:
    """Whether a pipeline's source tells clients that it has their events."""
    return _SOURCES[settings.source.name].accepts


def open_source(settings: PipelineSettings, folder: Path) -> Source:
    """Make a pipeline's source; `<state>/<pipeline>/<source>` is its folder."""
    name = settings.source.name
    return _SOURCES[name].open(settings.source.value, folder / name, settings.name)
