"""The postgres source on the driver: publication, slot and snapshot, then the changes of the slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from calve.sources.database import reload
from calve.sources.database.connection import ServerError
from calve.sources.database.own_targets import OwnTargets
from calve.sources.database.reload import Beginning
from calve.sources.database.source import STEP, DatabaseSource
from calve.sources.database.stream import Target
from calve.sources.database.survey import as_texts
from calve.sources.database.table import Table
from calve.sources.postgres import load, prepare, publication, release, slots
from calve.sources.postgres.acknowledged import Acknowledged
from calve.sources.postgres.database import Database
from calve.sources.postgres.depths import with_depths
from calve.sources.postgres.failure import explained
from calve.sources.postgres.new_tables import NewTables
from calve.sources.postgres.reader import PostgresReader
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.postgres.slots import NewSlot
from calve.sources.postgres.snapshot import KeptSnapshot, SnapshotName
from calve.sources.postgres.stream import Stream
from calve.sources.postgres.survey import odd_columns
from calve.sources.postgres.wire import Connection, connect
from calve.sources.source import ALONE, SharedTargets, SourceContext, no_shared_targets
from calve.state.folder import StateFolder

__all__ = ["PostgresSource", "check", "drop", "held", "open", "probe"]

_NO_RIGHT = "42501"


class PostgresSource(DatabaseSource):
    """Loads the tables under one snapshot, and reads every change from exactly there on."""

    system = "PostgreSQL"

    def _reset(self) -> None:
        super()._reset()
        self._new_tables = NewTables(self._settings, self._pipeline, self._lines, self._epochs, self._request)
        self._snapshot = KeptSnapshot(self._settings, self._files, self._pipeline)

    def _request(self, name: str) -> None:
        reload.request(self._files, self._number, [name])

    def _prepare(self, begun: dict[str, Any] | None) -> tuple[dict[str, Any], int]:
        self._settings = slots.named(self._settings, self._files, self._pipeline, begun is not None)
        if begun is None:
            check(self._settings, self._pipeline)
        name = f"calve {self._pipeline}"
        with explained(self._settings, STEP), connect(self._settings.address, name, replication=True) as connection:
            database = Database(connection)
            if begun is None:
                begun = self._begin(connection, database)
            else:
                self._go_on(begun, database.name)
                slots.require_slot(database, self._settings, self._pipeline)
                self._new_tables.add(connection, database)
                if self._folder.is_shared:
                    release.end_former(database, self._settings, self._pipeline, self._lines)
            return begun, database.flushed()

    def _begin(self, connection: Connection, database: Database) -> dict[str, Any]:
        """Begin a new state: the slot first, whose snapshot is exactly where the stream begins."""
        found = prepare.look(database, self._settings, self._pipeline)
        prepare.warn(found, self._settings, self._pipeline, self._lines)
        found.require(self._settings, self.system)
        self._own_targets.require(found.tables, self._epochs.tables.values())
        publication.publish(connection, self._settings, self._pipeline, found.tables)
        tables: Sequence[Table] = with_depths(connection, found.tables, {})
        slot = slots.take_slot(connection, self._settings, self._pipeline, self._lines)
        if slot.snapshot is None:  # the slot has changes, and definitions of tables, from before the load
            slot, tables = self._skipping(connection, slot, tables)
        Acknowledged(self._files).write(slot.start)
        self._snapshot.open(slot.snapshot)
        chunks = load.chunks(database, tables, int(database.setting("block_size")))
        return self._began(database.name, slot.start, chunks, self._surveyed(connection, tables))

    def _surveyed(self, connection: Connection, tables: Sequence[Table]) -> list[Table]:
        """Return tables, those that are read for the first time with texts where values have no place in their type."""
        names = {table.full_name for table in self._epochs.tables.values() if table.columns}
        odd = odd_columns(connection, [table for table in tables if table.full_name not in names])
        return as_texts(tables, odd, self._lines)

    def _skipping(
        self, connection: Connection, slot: NewSlot, tables: Sequence[Table]
    ) -> tuple[NewSlot, Sequence[Table]]:
        """Let the tables begin at a position of their own: a TRUNCATE or an older type before it is not followed."""
        exact = slots.try_position(connection, self._settings, self._pipeline)
        if exact is None:
            return slot, tables
        return exact, [msgspec.structs.replace(table, since=exact.start - 1) for table in tables]

    def _follow(self, target: Target, until: int | None) -> Stream:
        return Stream(target, until, self._new_tables)

    def _loaded_until(self) -> int:
        return SnapshotName.read(self._files).until

    def _begin_load(self) -> None:
        if not self._snapshot.is_open:
            self._snapshot.open(None)

    def _begin_reload(self, settings: PostgresSettings) -> Beginning:
        name = f"calve {self._pipeline} reload"
        with explained(settings, STEP), connect(settings.address, name, replication=True) as connection:
            database = Database(connection)
            found = prepare.look(database, settings, self._pipeline)
            found.require(settings, self.system)
            self._own_targets.require(found.tables, self._epochs.tables.values())
            known = {table.full_name: table for table in self._epochs.tables.values()}
            tables = with_depths(connection, found.tables, known)
            slot = slots.take_position(connection, settings, self._pipeline)
            self._snapshot.close()
            self._snapshot.open(slot.snapshot)
            chunks = load.chunks(database, tables, int(database.setting("block_size")))
            tables = self._surveyed(connection, tables)
            return Beginning(slot.start, tables, chunks, database.flushed())

    def _end_load(self) -> None:
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
            database = Database(connection, "" if may_replicate else settings.database)
            found = prepare.look(database, settings, pipeline, may_replicate)
            found.require(settings, PostgresSource.system)
            OwnTargets(shared, settings, lambda table: settings.database).require(found.tables)


def open(
    settings: PostgresSettings, folder: StateFolder, pipeline: str, context: SourceContext = ALONE
) -> PostgresSource:
    """Return the source of a pipeline; it has no side effects before `start`."""
    return PostgresSource(PostgresReader(settings, str(folder.absolute()), pipeline), context.shared_targets)


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
