"""The slot of a pipeline: takes or creates it, and checks that it still has the changes."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace

from calve.errors import PositionLostError, SettingsError, SourceError, SourceUnavailableError
from calve.observe.log import Log
from calve.sources.database.connection import ServerError
from calve.sources.database.failure import LOAD_AGAIN
from calve.sources.postgres.catalog.database import PostgresCatalog, lsn_of
from calve.sources.postgres.protocol.quote import literal, quoted
from calve.sources.postgres.protocol.wire import PostgresConnection
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.postgres.slot.waits import log_waits, open_writers
from calve.sources.source_files import SourceFiles, encoded, read_json

__all__ = ["PLUGIN", "NewSlot", "acquire_slot", "keep", "named", "require_slot", "temporary_slot", "try_position"]

PLUGIN = "pgoutput"
_FAILOVER = 170_000
_LOCKED = "55P03"
_ALL_IN_USE = "53400"
_LOCK_MILLISECONDS = 5_000
_LONGEST_PREFIX = 54
"""The name of a slot has at most 63 characters."""
_LOST = "lost"
_STEP = "start"
_FILE = "slot.json"


@dataclass(frozen=True)
class NewSlot:
    """Where a slot begins.

    Attributes:
        start: Every commit from here on is in the stream.
        snapshot: The name of a snapshot of exactly this moment; None: the slot was there already.
    """

    start: int
    snapshot: str | None


def named(settings: PostgresSettings, files: SourceFiles, pipeline: str, has_begun: bool) -> PostgresSettings:
    """Return settings with the slot's name, which a state keeps until the configuration has another one that exists."""
    former = settings.former_slot_of(pipeline) if has_begun else None
    return replace(settings, slot=settings.slot or read_json(files, _FILE) or former or settings.slot_of(pipeline))


def keep(settings: PostgresSettings, files: SourceFiles, pipeline: str) -> None:
    """Write down the slot's name.

    Raises:
        WriteError: It cannot be written down.
    """
    if (name := settings.slot_of(pipeline)) != read_json(files, _FILE):
        files.write(_FILE, encoded(name))


def acquire_slot(connection: PostgresConnection, settings: PostgresSettings, pipeline: str, lines: Log) -> NewSlot:
    """Take the slot, or create it, for a pipeline that has not read anything yet; waits for open transactions.

    Args:
        connection: A session with replication; an exported snapshot lives until its next command.
        settings: The source's settings.
        pipeline: The pipeline's name.
        lines: The pipeline's log.

    Raises:
        SourceError: Another plugin or database has the slot.
        ServerError: The server refuses.
    """
    name = settings.slot_of(pipeline)
    slot = PostgresCatalog(connection).slot(name)
    is_ours = slot is not None and slot.plugin == PLUGIN and slot.database == settings.database
    if slot is not None and is_ours and slot.status == _LOST and settings.on_lost_position == "reload":
        connection.query(f"SELECT pg_drop_replication_slot({literal(name)})")  # nobody can read it any more
        slot = None
    if slot is None:
        with log_waits(settings, lines):
            row = connection.query(
                f"CREATE_REPLICATION_SLOT {quoted(name)} LOGICAL pgoutput {_slot_options(connection)}"
            )[0]
        return NewSlot(lsn_of(row[1] or "0/0"), row[2])
    if not is_ours:
        raise SourceError(
            f"The slot {name} is not of this pipeline ({slot.owner})",
            step=_STEP,
            target=settings.shown,
            hint="Set another `slot`",
        )
    return NewSlot(slot.confirmed, None)


def _slot_options(connection: PostgresConnection) -> str:
    """Return the options of a slot, which standbys keep in step from PostgreSQL 17 on (`sync_replication_slots`)."""
    is_primary = connection.query("select pg_is_in_recovery()")[0][0] == "f"
    follows = is_primary and PostgresCatalog(connection).version >= _FAILOVER
    return "(SNAPSHOT 'export', FAILOVER)" if follows else "EXPORT_SNAPSHOT"


def temporary_slot(connection: PostgresConnection, settings: PostgresSettings, pipeline: str) -> NewSlot:
    """Create a slot for the time of the session, for the sake of its first position and the snapshot of that moment.

    Raises:
        SourceUnavailableError: A transaction that writes is open for long.
        ServerError: The server refuses.
    """
    name = f"{settings.slot_of(pipeline)[:_LONGEST_PREFIX]}_{uuid.uuid4().hex[:8]}"
    connection.query(f"SET lock_timeout = {_LOCK_MILLISECONDS}")
    try:
        row = connection.query(f"CREATE_REPLICATION_SLOT {quoted(name)} TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT")[0]
    except ServerError as error:
        if error.code != _LOCKED:
            raise
        writers = open_writers(connection) or "they have just ended"
        raise SourceUnavailableError(
            f"PostgreSQL waits for open transactions that have written: {writers}",
            step="load",
            target=settings.shown,
            hint="Commit them or roll them back; SELECT pg_terminate_backend(<pid>) ends a session that was forgotten",
        ) from error
    return NewSlot(lsn_of(row[1] or "0/0"), row[2])


def try_position(connection: PostgresConnection, settings: PostgresSettings, pipeline: str) -> NewSlot | None:
    """Do the same; return None if the server has no slot to spare (`max_replication_slots`).

    Raises:
        SourceUnavailableError: A transaction that writes is open for long.
        ServerError: The server refuses for another reason.
    """
    try:
        return temporary_slot(connection, settings, pipeline)
    except ServerError as error:
        if error.code != _ALL_IN_USE:
            raise
        return None


def require_slot(database: PostgresCatalog, settings: PostgresSettings, files: SourceFiles, pipeline: str) -> None:
    """Check that the slot of a pipeline that has run before still has its changes.

    Raises:
        PositionLostError: It does not.
        SettingsError: The configuration names another slot than before, which does not exist.
    """
    name = settings.slot_of(pipeline)
    slot = database.slot(name)
    if slot is not None and slot.status != _LOST:
        return
    kept = read_json(files, _FILE)
    if slot is None and kept and kept != name and database.slot(kept) is not None:
        message = f"There is no slot {name} at {settings.shown}: the changes since the last run are in the slot {kept}"
        hint = f"Remove `slot`, or set slot: {kept}. To begin with another slot: a new --state and an empty target"
        raise SettingsError(message, step=_STEP, target=settings.shown, hint=hint)
    why = "does not exist any more" if slot is None else "has lost changes: the server removed the log that it needs"
    raise PositionLostError(
        f"The slot {name} at {settings.shown} {why}",
        step=_STEP,
        target=settings.shown,
        hint=f"Changes are missing. {LOAD_AGAIN}"
        + ("" if slot is None else "; for the latter, run before: calve source drop <configuration>"),
    )
