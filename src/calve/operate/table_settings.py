"""Lists which tables get which settings of `tables`, for `calve validate`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from calve.catalog.catalog import embedded
from calve.catalog.open_tables import OpenTables
from calve.errors import CalveError
from calve.observe.humanize import listed, many
from calve.route.by_table import ByTable
from calve.settings import PipelineSettings
from calve.settings.catalog import EMBEDDED
from calve.sinks.iceberg.settings import IcebergSettings

__all__ = ["table_settings"]

_MOST = 20
"""More tables of an entry are counted, not listed."""
_OF_THE_EVENT = re.compile(r"\$\{[^}]*\}")


def table_settings(pipelines: Sequence[PipelineSettings], is_connected: bool) -> Iterator[str]:
    """Yield a line for each entry of `tables`: what it sets, and the existing tables that it is the first match of.

    Args:
        pipelines: The pipelines.
        is_connected: Whether the catalogs are asked for their tables; one that does not answer has its own error.
    """
    for pipeline in pipelines:
        for sink in pipeline.sinks:
            if isinstance(sink.value, IcebergSettings) and sink.value.tables:
                existing = _existing(sink.value) if is_connected else None
                yield from (f"{sink.pipeline}.{sink.path}.{line}" for line in _of_sink(sink.value, existing))


def _of_sink(settings: IcebergSettings, existing: Sequence[str] | None) -> Iterator[str]:
    numbers = ByTable(-1, tuple((entry.pattern, at) for at, entry in enumerate(settings.tables)))
    number_of = {name: numbers.of(name) for name in existing or ()}
    for at, entry in enumerate(settings.tables):
        line = f"tables[{at}] ({entry.pattern.text}): {', '.join(entry.given)}"
        yield line if existing is None else f"{line}; {_listed([name for name in number_of if number_of[name] == at])}"
    if existing is not None:
        rest = [name for name, number in number_of.items() if number < 0]
        yield f"tables: no entry matches {_listed(rest)}" if rest else "tables: every existing table has an entry"


def _existing(settings: IcebergSettings) -> list[str]:
    """Return the tables of the catalog whose names the sink may write."""
    parts = [re.escape(part) for part in _OF_THE_EVENT.split(settings.table_identifier)]
    names: list[str] = []
    with suppress(CalveError):
        names = OpenTables(settings.catalog or embedded(Path(EMBEDDED))).names()
    return [name for name in names if re.fullmatch(".+".join(parts), name) and name != settings.dlq_table]


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "no table yet"
    return listed(names, _MOST) if len(names) <= _MOST else f"{many(len(names), 'table')}, e.g. {listed(names[:3], 3)}"
