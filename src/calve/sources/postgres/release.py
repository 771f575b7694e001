"""Removes what a pipeline has in the database: its slot, and the publication if it has Calve's name."""

from __future__ import annotations

import time

from calve.errors import SourceError, SourceUnavailableError
from calve.observe.log import Log
from calve.sources.postgres.database import Database
from calve.sources.postgres.failure import explained, session
from calve.sources.postgres.quote import literal, quoted
from calve.sources.postgres.settings import PostgresSettings

__all__ = ["drop", "end_former"]

_STEP = "drop"
_END_SECONDS = 20.0
_POLL_SECONDS = 0.1


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


def end_former(database: Database, settings: PostgresSettings, pipeline: str, lines: Log) -> None:
    """End the session with which a former driver of the pipeline reads the slot: it may be paused, or cut off.

    Its next session finds that it was replaced before it tells the server anything.

    Raises:
        SourceUnavailableError: The slot is still in use.
    """
    slot, until = settings.slot_of(pipeline), time.monotonic() + _END_SECONDS
    if not database.end_reader(slot, f"calve {pipeline}"):
        return
    lines.info(f"ends the session of the former driver, which reads the slot {slot}")
    while database.end_reader(slot, f"calve {pipeline}"):
        if time.monotonic() > until:
            raise SourceUnavailableError(
                f"Another session reads the slot {slot} at {settings.shown}",
                step="start",
                target=settings.shown,
                hint=f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{slot}'",
            )
        time.sleep(_POLL_SECONDS)
