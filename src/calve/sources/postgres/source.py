"""The postgres source: opened, and probed."""

from __future__ import annotations

from calve.sources.database.source import DatabaseSource
from calve.sources.postgres.reader import PostgresReader
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.postgres.slot import release
from calve.sources.postgres.system import PostgresSystem, check
from calve.sources.source import ALONE, SourceContext
from calve.state.folder import StateFolder

__all__ = ["check", "drop", "held", "open", "probe"]


def open(
    settings: PostgresSettings, folder: StateFolder, pipeline: str, context: SourceContext = ALONE
) -> DatabaseSource:
    """Return the source of a pipeline; it has no side effects before `start`."""
    reader = PostgresReader(settings, str(folder.absolute()), pipeline)
    return DatabaseSource(reader, context.shared_targets, PostgresSystem)


def probe(settings: PostgresSettings, folder: StateFolder, pipeline: str, context: SourceContext) -> None:
    """Check what a first start needs, and change nothing; see `check`."""
    check(settings, pipeline, context.shared_targets)


def held(settings: PostgresSettings, pipeline: str) -> str:
    """Return what the pipeline has on the server until `drop`.

    Raises:
        CalveError: The server does not answer, or refuses.
    """
    return f"the slot {release.slot_name(settings, pipeline)} at {settings.shown}"


def drop(settings: PostgresSettings, pipeline: str) -> list[str]:
    """Drop it; return a sentence for each thing.

    Raises:
        CalveError: The server does not answer, or refuses.
    """
    return release.drop(settings, pipeline)
