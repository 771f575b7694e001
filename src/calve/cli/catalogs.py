"""The catalog of a command that reads tables: of its options, of a configuration, or the embedded one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calve.errors import SettingsError
from calve.observe.humanize import many
from calve.settings import SinkEntry, parse

if TYPE_CHECKING:
    from calve.observe.blueprint import SinkPart
    from calve.sinks.iceberg.settings import IcebergSettings

__all__ = ["catalog_of", "chosen_catalog", "iceberg_sinks", "pipelines", "sinks_at"]

pipelines = click.option(
    "--pipelines",
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="Take the catalog from the sinks of this YAML file or folder.",
)


def iceberg_sinks(path: Path) -> list[IcebergSettings]:
    """Return the settings of the Iceberg sinks of a configuration."""
    from calve.pipeline.plugins import PLUGINS

    return [
        sink.value for pipeline in parse(path, PLUGINS).pipelines for sink in pipeline.sinks if sink.name == "iceberg"
    ]


def sinks_at(path: Path) -> dict[str, tuple[SinkPart, ...]]:
    """Return the sinks of each pipeline of a configuration, with the properties of their catalogs."""
    from calve.catalog.sqlite import embedded  # brings PyIceberg
    from calve.observe.blueprint import SinkPart
    from calve.pipeline.plugins import PLUGINS

    def part(sink: SinkEntry) -> SinkPart:
        catalog = (sink.value.catalog or embedded(Path("lakehouse"))) if sink.name == "iceberg" else {}
        return SinkPart(sink.name, sink.value.target_name or "", (), dict(catalog))

    return {pipeline.name: tuple(map(part, pipeline.sinks)) for pipeline in parse(path, PLUGINS).pipelines}


def catalog_of(path: Path, sinks: Sequence[IcebergSettings]) -> dict[str, str]:
    """Return the properties of the catalog of all Iceberg sinks of a configuration.

    Raises:
        SettingsError: The sinks have several catalogs, or there is no such sink.
    """
    catalogs = {json.dumps(sink.catalog or {}, sort_keys=True): sink.catalog or {} for sink in sinks}
    if len(catalogs) != 1:
        raise SettingsError(
            f"The pipelines of {path} have {many(len(catalogs), 'catalog')} of Iceberg",
            step="settings",
            target="--pipelines",
            hint="Set the catalog: --catalog type=… --catalog uri=…",
        )
    return next(iter(catalogs.values()))


def chosen_catalog(path: Path | None, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the catalog; those of the options win. Without any it is the embedded one."""
    from calve.catalog.sqlite import embedded  # brings PyIceberg

    catalog = {**(catalog_of(path, iceberg_sinks(path)) if path else {}), **properties}
    return catalog or embedded(Path("lakehouse"))
