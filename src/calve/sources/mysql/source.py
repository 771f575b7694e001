"""The mysql source on the driver: the first position, ranges of keys, then the changes of the binary log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from calve.errors import CalveError, SourceError, SourceUnavailableError
from calve.observe.log import Log
from calve.sources.database.own_targets import OwnTargets
from calve.sources.database.reload import Beginning
from calve.sources.database.source import ANY, STEP, DatabaseSource
from calve.sources.database.stream import Target
from calve.sources.database.survey import as_texts
from calve.sources.database.table import Table
from calve.sources.mysql import load, prepare
from calve.sources.mysql.ahead import Ahead
from calve.sources.mysql.begin import first_place, probe_id
from calve.sources.mysql.database import Database, Found
from calve.sources.mysql.describe import Descriptions
from calve.sources.mysql.failure import session
from calve.sources.mysql.follow import Describer, renumbered
from calve.sources.mysql.gtids import DurableGtids
from calve.sources.mysql.reader import MysqlReader
from calve.sources.mysql.servers import Server, current, followed
from calve.sources.mysql.settings import MysqlSettings
from calve.sources.mysql.stream import Stream
from calve.sources.mysql.survey import odd_columns
from calve.sources.mysql.wire import Connection
from calve.sources.source import ALONE, SharedTargets, SourceContext, no_shared_targets
from calve.sources.source_files import encoded, read_json
from calve.state.folder import StateFolder

__all__ = ["MysqlSource", "check", "open", "probe"]

_LOADED = "loaded.json"
_MOMENT_SECONDS = 0.5


class MysqlSource(DatabaseSource):
    """Loads the tables, and reads every change since before the load."""

    system = "MySQL"

    def _prepare(self, begun: dict[str, Any] | None) -> tuple[dict[str, Any], int]:
        with session(self._settings, STEP, f"calve {self._pipeline}") as connection:
            database = Database(connection)
            prepare.warn(database, self._lines)
            if begun is None:
                begun = self._begin(connection, database)
            else:
                server = followed(connection, self._settings, self._files, begun["database"], self._lines)
                self._go_on(begun, begun["database"].partition("#")[0])
                database = Database(connection, server.generation)
                prepare.require_logged(database, self._settings, self._epochs.tables.values())
            return begun, self._end(database)

    def _begin(self, connection: Connection, database: Database) -> dict[str, Any]:
        found = prepare.look(connection, self._settings)
        if found.faults:  # MySQL 5.7 may show a table without its key, for the moment in which it is replaced
            time.sleep(_MOMENT_SECONDS)
            found = prepare.look(connection, self._settings)
        found.require(self._settings, self.system)
        self._own_targets.require(found.tables, self._epochs.tables.values())
        server_id = self._settings.server_id_of(self._pipeline)
        visible = database.variable("gtid_executed")  # the rows of the load have all of these
        start = first_place(database, connection, self._settings.address, server_id)
        if database.variable("gtid_mode") == "ON":
            gtids = DurableGtids(self._files)
            gtids.begin(visible, start)
            gtids.save()
        self._require_unchanged(database, found.tables, start)
        chosen = prepare.chosen(database, self._settings)
        chunks = load.chunks(connection, found.tables, chosen)
        return self._began(database.name, start, chunks, self._surveyed(connection, found.tables, chosen))

    def _surveyed(self, connection: Connection, tables: Sequence[Table], found: Sequence[Found]) -> list[Table]:
        """Return tables, those that are read for the first time with texts where values have no place in their type."""
        names = {table.full_name for table in self._epochs.tables.values() if table.columns}
        new = [table for table in tables if table.full_name not in names]
        odd = odd_columns(connection, new, {each.full_name: each.size_bytes for each in found})
        return as_texts(tables, odd, self._lines)

    def _follow(self, target: Target, until: int | None) -> Stream:
        return Stream(target, until)

    def _loaded_until(self) -> int:
        """Return the end of the log after the load; as long as the server does not answer, a position after all."""
        server = current(self._files, self._load.begun["database"])
        if (known := read_json(self._files, _LOADED)) is not None:
            return max(int(known), server.until)
        try:
            with session(self._settings, STEP, f"calve {self._pipeline}") as connection:
                end = self._end(self._same(connection, server))
        except CalveError as error:
            self._lines.debug(str(error))
            return ANY
        self._files.write(_LOADED, encoded(end))
        return end

    def _begin_reload(self, settings: MysqlSettings) -> Beginning:
        with session(self._settings, STEP, f"calve {self._pipeline} reload") as connection:
            database = self._same(connection, current(self._files, self._load.begun["database"]))
            found = prepare.look(connection, settings)
            found.require(self._settings, self.system)
            self._own_targets.require(found.tables, self._epochs.tables.values())
            start = first_place(database, connection, self._settings.address, probe_id())
            self._require_unchanged(database, found.tables, start)
            chosen, known = prepare.chosen(database, settings), self._epochs.tables.values()
            tables = self._surveyed(connection, renumbered(found.tables, known), chosen)
            chunks = load.chunks(connection, tables, chosen)
            return Beginning(start, tables, chunks, self._end(database))

    def _same(self, connection: Connection, server: Server) -> Database:
        """Return the catalog of the server that is read.

        Raises:
            SourceUnavailableError: Another one answers, which the stream follows first.
        """
        database = Database(connection, server.generation)
        if database.name != server.name:
            raise SourceUnavailableError("another server answers, whose log is read first", step=STEP)
        return database

    def _require_unchanged(self, database: Database, tables: Sequence[Table], start: int) -> None:
        charsets = database.charsets()
        ahead = Ahead(self._settings.address, charsets)
        Descriptions(database, Describer(database.name, charsets), ahead).require(tables, start)

    def _end(self, database: Database) -> int:
        place = database.place()
        if place is None:
            raise SourceError(
                f"MySQL at {self._settings.shown} has no binary log",
                step=STEP,
                target=self._settings.shown,
                hint="Set log_bin in the server's configuration, and start it again",
            )
        return place.number

    def _begin_load(self) -> None:
        """Forget where an earlier load ended; every chunk is read in a session of its own."""
        self._files.remove([_LOADED])

    def _end_load(self) -> None:
        """Do nothing."""


def check(settings: MysqlSettings, pipeline: str, shared: SharedTargets = no_shared_targets) -> None:
    """Check what a first start needs, and change nothing.

    Args:
        settings: The source.
        pipeline: The pipeline's name.
        shared: Finds targets of several tables.

    Raises:
        SourceError: The server is not ready; the hint has the SQL that mends it.
        SourceUnavailableError: The server does not answer.
    """
    with session(settings, "connect", f"calve check {pipeline}") as connection:
        prepare.warn(Database(connection), Log(pipeline))
        found = prepare.look(connection, settings)
        found.require(settings, MysqlSource.system)
        OwnTargets(shared, settings, lambda table: table.schema).require(found.tables)


def open(settings: MysqlSettings, folder: StateFolder, pipeline: str, context: SourceContext = ALONE) -> MysqlSource:
    """Return the source of a pipeline; it has no side effects before `start`."""
    return MysqlSource(MysqlReader(settings, str(folder.absolute()), pipeline), context.shared_targets)


def probe(settings: MysqlSettings, folder: StateFolder, pipeline: str, context: SourceContext) -> None:
    """Check what a first start needs, and change nothing; see `check`."""
    check(settings, pipeline, context.shared_targets)
