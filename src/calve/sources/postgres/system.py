"""PostgreSQL in the life of a source: publication, slot and snapshot, then the changes of the slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from calve.sources.database import reload
from calve.sources.database.connection import ServerError
from calve.sources.database.own_targets import OwnTargets
from calve.sources.database.parts import Parts
from calve.sources.database.reload import ReloadStart
from calve.sources.database.stream import StreamContext
from calve.sources.database.survey import as_texts
from calve.sources.database.system import STEP, DatabaseSystem
from calve.sources.database.table import DatabaseTable
from calve.sources.postgres import load, prepare
from calve.sources.postgres.catalog import publication
from calve.sources.postgres.catalog.database import PostgresCatalog
from calve.sources.postgres.catalog.depths import with_depths
from calve.sources.postgres.catalog.survey import odd_columns
from calve.sources.postgres.failure import explained
from calve.sources.postgres.new_tables import NewTables
from calve.sources.postgres.protocol.wire import PostgresConnection, connect
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.postgres.slot import release, slots
from calve.sources.postgres.slot.acknowledged import Acknowledged
from calve.sources.postgres.slot.slots import NewSlot
from calve.sources.postgres.slot.snapshot import KeptSnapshot, SnapshotName
from calve.sources.postgres.stream import SlotStream
from calve.sources.source import SharedTargets, no_shared_targets

__all__ = ["PostgresSystem", "check"]

_NO_RIGHT = "42501"


class PostgresSystem(DatabaseSystem):
    """Loads the tables under one snapshot, and reads every change from exactly there on."""

    name = "PostgreSQL"

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._new_tables = NewTables(parts.settings, parts.pipeline, parts.lines, parts.epochs, self._request)
        self._snapshot = KeptSnapshot(parts.settings, parts.files, parts.pipeline)

    def _request(self, name: str) -> None:
        reload.request(self._parts.files, self._parts.number, [name])

    def prepare(self, begun: dict[str, Any] | None) -> tuple[dict[str, Any], int]:
        """See `DatabaseSystem`."""
        parts = self._parts
        parts.settings = slots.named(parts.settings, parts.files, parts.pipeline, begun is not None)
        if begun is None:
            slots.keep(parts.settings, parts.files, parts.pipeline)
            check(parts.settings, parts.pipeline)
        name = f"calve {parts.pipeline}"
        with (
            explained(parts.settings, STEP),
            connect(parts.settings.address, name, replication=True) as connection,
        ):
            database = PostgresCatalog(connection)
            if begun is None:
                begun = self._begin(connection, database)
            else:
                self._go_on(begun, database.name)
                slots.require_slot(database, parts.settings, parts.files, parts.pipeline)
                slots.keep(parts.settings, parts.files, parts.pipeline)
                self._new_tables.add(connection, database)
                if parts.folder.is_shared:
                    release.end_former(database, parts.settings, parts.pipeline, parts.lines)
            return begun, database.flushed()

    def _begin(self, connection: PostgresConnection, database: PostgresCatalog) -> dict[str, Any]:
        """Begin a new state: the slot first, whose snapshot is exactly where the stream begins."""
        parts = self._parts
        preparation = prepare.inspect(database, parts.settings, parts.pipeline)
        prepare.warn(preparation, parts.settings, parts.pipeline, parts.lines)
        preparation.require(parts.settings, self.name)
        parts.own_targets.require(preparation.tables, parts.epochs.tables.values())
        publication.publish(connection, parts.settings, parts.pipeline, preparation.tables)
        tables: Sequence[DatabaseTable] = with_depths(connection, preparation.tables, {})
        slot = slots.acquire_slot(connection, parts.settings, parts.pipeline, parts.lines)
        if slot.snapshot is None:  # the slot has changes, and definitions of tables, from before the load
            slot, tables = self._skipping(connection, slot, tables)
        Acknowledged(parts.files).write(slot.start)
        self._snapshot.open(slot.snapshot)
        chunks = load.chunks(database, tables, int(database.setting("block_size")))
        return self._began(database.name, slot.start, chunks, self._surveyed(connection, tables))

    def _surveyed(self, connection: PostgresConnection, tables: Sequence[DatabaseTable]) -> list[DatabaseTable]:
        """Return tables, those that are read for the first time with texts where values have no place in their type."""
        names = {table.full_name for table in self._parts.epochs.tables.values() if table.columns}
        odd = odd_columns(connection, [table for table in tables if table.full_name not in names])
        return as_texts(tables, odd, self._parts.lines)

    def _skipping(
        self, connection: PostgresConnection, slot: NewSlot, tables: Sequence[DatabaseTable]
    ) -> tuple[NewSlot, Sequence[DatabaseTable]]:
        """Let the tables begin at a position of their own: a TRUNCATE or an older type before it is not followed."""
        exact = slots.try_position(connection, self._parts.settings, self._parts.pipeline)
        if exact is None:
            return slot, tables
        return exact, [msgspec.structs.replace(table, since=exact.start - 1) for table in tables]

    def follow(self, context: StreamContext, until: int | None) -> SlotStream:
        """See `DatabaseSystem`."""
        return SlotStream(context, until, self._new_tables)

    def loaded_until(self) -> int:
        """See `DatabaseSystem`."""
        return SnapshotName.read(self._parts.files).until

    def begin_load(self) -> None:
        """See `DatabaseSystem`."""
        if not self._snapshot.is_open:
            self._snapshot.open(None)

    def begin_reload(self, settings: PostgresSettings) -> ReloadStart:
        """See `DatabaseSystem`."""
        parts = self._parts
        name = f"calve {parts.pipeline} reload"
        with explained(settings, STEP), connect(settings.address, name, replication=True) as connection:
            database = PostgresCatalog(connection)
            preparation = prepare.inspect(database, settings, parts.pipeline)
            preparation.require(settings, self.name)
            parts.own_targets.require(preparation.tables, parts.epochs.tables.values())
            read_tables = {table.full_name: table for table in parts.epochs.tables.values()}
            tables = with_depths(connection, preparation.tables, read_tables)
            slot = slots.temporary_slot(connection, settings, parts.pipeline)
            self._snapshot.close()
            self._snapshot.open(slot.snapshot)
            chunks = load.chunks(database, tables, int(database.setting("block_size")))
            tables = self._surveyed(connection, tables)
            return ReloadStart(slot.start, tables, chunks, database.flushed())

    def end_load(self) -> None:
        """See `DatabaseSystem`."""
        self._snapshot.close()


def check(settings: PostgresSettings, pipeline: str, shared: SharedTargets = no_shared_targets) -> None:
    """Check what a first start needs, and change nothing.

    Args:
        settings: The source.
        pipeline: The pipeline's name.
        shared: Finds targets of several tables.

    Raises:
        SourceError: The database is not ready; the hint has the SQL that helps.
        SourceUnavailableError: The database does not answer.
    """
    may_replicate = True
    with explained(settings, "connect"):
        try:
            connection = connect(settings.address, "calve check", replication=True)
        except ServerError as error:
            if error.code != _NO_RIGHT:
                raise
            may_replicate, connection = False, connect(settings.address, "calve check")
        with connection:
            database = PostgresCatalog(connection, "" if may_replicate else settings.database)
            preparation = prepare.inspect(database, settings, pipeline, may_replicate)
            preparation.require(settings, PostgresSystem.name)
            OwnTargets(shared, settings, lambda table: settings.database).require(preparation.tables)
