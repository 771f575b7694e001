"""Removes what a pipeline has in the database: its slot, and the publication if it has Calve's name."""

from __future__ import annotations

import time

from calve.errors import SourceError, SourceUnavailableError
from calve.observe.log import Log
from calve.sources.postgres.catalog.database import PostgresCatalog, Slot
from calve.sources.postgres.failure import explained, session
from calve.sources.postgres.protocol.quote import literal, quoted
from calve.sources.postgres.protocol.wire import PostgresConnection
from calve.sources.postgres.settings import PostgresSettings

__all__ = ["drop", "end_former", "slot_name"]

_STEP = "drop"
_END_SECONDS = 20.0
_POLL_SECONDS = 0.1


def drop(settings: PostgresSettings, pipeline: str) -> list[str]:
    """Drop the slot, and the publication unless the settings name it; return a sentence for each step.

    Raises:
        SourceError: A session uses the slot, or the server refuses.
        SourceUnavailableError: The server does not answer.
    """
    publication = settings.publication_of(pipeline)
    with session(settings, _STEP, "calve drop") as connection:
        database = PostgresCatalog(connection, settings.shown)
        name = _slot_name(database, settings, pipeline)
        slot = database.slot(name)
        if slot is not None:
            _drop_slot(connection, settings, name, slot)
        done = [f"the slot {name} {'was dropped' if slot else 'does not exist'}"]
        if settings.publication is not None:
            return [*done, f"the publication {publication} stays, because the configuration names it"]
        is_there = database.publication(publication) is not None
        if is_there:
            with explained(settings, _STEP, f"to drop the publication {publication}"):
                connection.query(f"DROP PUBLICATION {quoted(publication)}")
        return [*done, f"the publication {publication} {'was dropped' if is_there else 'does not exist'}"]


def slot_name(settings: PostgresSettings, pipeline: str) -> str:
    """Return the name of the slot that `drop` drops: an older state may have begun with the one before.

    Raises:
        SourceError: The server refuses.
        SourceUnavailableError: The server does not answer.
    """
    with session(settings, _STEP, "calve drop") as connection:
        return _slot_name(PostgresCatalog(connection, settings.shown), settings, pipeline)


def _slot_name(database: PostgresCatalog, settings: PostgresSettings, pipeline: str) -> str:
    names = settings.slot_of(pipeline), settings.former_slot_of(pipeline)
    slots = ((name, database.slot(name)) for name in names)
    return next((name for name, slot in slots if slot and slot.database == settings.database), names[0])


def _drop_slot(connection: PostgresConnection, settings: PostgresSettings, name: str, slot: Slot) -> None:
    if slot.database != settings.database:
        raise SourceError(
            f"The slot {name} at {settings.shown} is not of this pipeline ({slot.owner})",
            step=_STEP,
            target=settings.shown,
        )
    if slot.is_active:
        raise SourceError(
            f"A session reads the slot {name} at {settings.shown} ({slot.owner})",
            step=_STEP,
            target=settings.shown,
            hint="Stop the pipeline first",
        )
    with explained(settings, _STEP, f"to drop the slot {name}"):
        connection.query(f"SELECT pg_drop_replication_slot({literal(name)})")


def end_former(database: PostgresCatalog, settings: PostgresSettings, pipeline: str, lines: Log) -> None:
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
            state = database.slot(slot)
            raise SourceUnavailableError(
                f"Another session reads the slot {slot} at {settings.shown}" + (f" ({state.owner})" if state else ""),
                step="start",
                target=settings.shown,
                hint="End that session, if it is not another pipeline's; otherwise set another `slot`",
            )
        time.sleep(_POLL_SECONDS)
