"""Removes what a pipeline has in the database: its slot, and the publication if it has Calve's name."""

from __future__ import annotations

from calve.errors import SourceError
from calve.sources.postgres.database import Database
from calve.sources.postgres.failure import explained, session
from calve.sources.postgres.quote import literal, quoted
from calve.sources.postgres.settings import PostgresSettings

__all__ = ["drop"]

_STEP = "drop"


def drop(settings: PostgresSettings, pipeline: str) -> list[str]:
    """Drop the slot, and the publication unless the settings name it; return a sentence for each step.

    Raises:
        SourceError: A session uses the slot, or the server refuses.
        SourceUnavailableError: The server does not answer.
    """
    slot, publication = settings.slot_of(pipeline), settings.publication_of(pipeline)
    done = []
    with session(settings, _STEP, "calve drop") as connection:
        database = Database(connection, settings.shown)
        found = database.slot(slot)
        if found is not None and found.is_active:
            raise SourceError(
                f"A session reads the slot {slot} at {settings.shown}",
                step=_STEP,
                target=settings.shown,
                hint="Stop the pipeline first",
            )
        if found is not None:
            with explained(settings, _STEP, f"to drop the slot {slot}"):
                connection.query(f"SELECT pg_drop_replication_slot({literal(slot)})")
        done.append(f"the slot {slot} {'was dropped' if found else 'does not exist'}")
        if settings.publication is not None:
            return [*done, f"the publication {publication} stays, because the configuration names it"]
        is_there = database.publication(publication) is not None
        if is_there:
            with explained(settings, _STEP, f"to drop the publication {publication}"):
                connection.query(f"DROP PUBLICATION {quoted(publication)}")
        return [*done, f"the publication {publication} {'was dropped' if is_there else 'does not exist'}"]
