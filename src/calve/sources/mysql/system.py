"""MySQL in the life of a source: the first position, ranges of keys, then the changes of the binary log."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from calve.errors import CalveError, SourceError, SourceUnavailableError
from calve.observe.log import Log
from calve.sources.database.own_targets import OwnTargets
from calve.sources.database.reload import ReloadStart
from calve.sources.database.stream import StreamContext
from calve.sources.database.survey import as_texts
from calve.sources.database.system import ANY, STEP, DatabaseSystem
from calve.sources.database.table import DatabaseTable
from calve.sources.mysql import load, prepare
from calve.sources.mysql.catalog.database import MysqlCatalog, MysqlCatalogTable
from calve.sources.mysql.catalog.survey import odd_columns
from calve.sources.mysql.ddl.describe import Descriptions
from calve.sources.mysql.ddl.follow import Describer, renumbered
from calve.sources.mysql.ddl.later_statements import LaterStatements
from calve.sources.mysql.failure import session
from calve.sources.mysql.position.begin import first_place, probe_id
from calve.sources.mysql.position.gtids import DurableGtids
from calve.sources.mysql.position.servers import Server, current, followed
from calve.sources.mysql.protocol.wire import MysqlConnection
from calve.sources.mysql.settings import MysqlSettings
from calve.sources.mysql.stream import BinlogStream
from calve.sources.source import SharedTargets, no_shared_targets
from calve.sources.source_files import encoded, read_json

__all__ = ["MysqlSystem", "check"]

_LOADED = "loaded.json"
_MOMENT_SECONDS = 0.5


class MysqlSystem(DatabaseSystem):
    """Loads the tables, and reads every change since before the load."""

    name = "MySQL"

    def prepare(self, begun: dict[str, Any] | None) -> tuple[dict[str, Any], int]:
        """See `DatabaseSystem`."""
        parts = self._parts
        with session(parts.settings, STEP, f"calve {parts.pipeline}") as connection:
            database = MysqlCatalog(connection)
            prepare.warn(database, parts.lines)
            if begun is None:
                begun = self._begin(connection, database)
            else:
                server = followed(connection, parts.settings, parts.files, begun["database"], parts.lines)
                self._go_on(begun, begun["database"].partition("#")[0])
                database = MysqlCatalog(connection, server.generation)
                prepare.require_logged(database, parts.settings, parts.epochs.tables.values())
            return begun, self._end(database)

    def _begin(self, connection: MysqlConnection, database: MysqlCatalog) -> dict[str, Any]:
        parts = self._parts
        preparation = prepare.inspect(connection, parts.settings)
        if preparation.faults:  # MySQL 5.7 may show a table without its key, for the moment in which it is replaced
            time.sleep(_MOMENT_SECONDS)
            preparation = prepare.inspect(connection, parts.settings)
        preparation.require(parts.settings, self.name)
        parts.own_targets.require(preparation.tables, parts.epochs.tables.values())
        server_id = parts.settings.server_id_of(parts.pipeline)
        visible = database.variable("gtid_executed")  # the rows of the load have all of these
        start = first_place(database, connection, parts.settings.address, server_id)
        gtids = DurableGtids(parts.files)
        gtids.forget()
        if database.variable("gtid_mode") == "ON":
            gtids.begin(visible, start)
        gtids.save()
        self._require_unchanged(database, preparation.tables, start)
        chosen = prepare.chosen(database, parts.settings)
        chunks = load.chunks(connection, preparation.tables, chosen)
        return self._began(database.name, start, chunks, self._surveyed(connection, preparation.tables, chosen))

    def _surveyed(
        self, connection: MysqlConnection, tables: Sequence[DatabaseTable], catalog_tables: Sequence[MysqlCatalogTable]
    ) -> list[DatabaseTable]:
        """Return tables, those that are read for the first time with texts where values have no place in their type."""
        names = {table.full_name for table in self._parts.epochs.tables.values() if table.columns}
        new = [table for table in tables if table.full_name not in names]
        odd = odd_columns(
            connection, new, {catalog_table.full_name: catalog_table.size_bytes for catalog_table in catalog_tables}
        )
        return as_texts(tables, odd, self._parts.lines)

    def follow(self, context: StreamContext, until: int | None) -> BinlogStream:
        """See `DatabaseSystem`."""
        return BinlogStream(context, until)

    def loaded_until(self) -> int:
        """Return the end of the log after the load; as long as the server does not answer, a position after all."""
        parts = self._parts
        server = current(parts.files, parts.load.begun["database"])
        if (noted := read_json(parts.files, _LOADED)) is not None:
            return max(int(noted), server.until)
        try:
            with session(parts.settings, STEP, f"calve {parts.pipeline}") as connection:
                end = self._end(self._same(connection, server))
        except CalveError as error:
            parts.lines.debug(str(error))
            return ANY
        parts.files.write(_LOADED, encoded(end))
        return end

    def begin_reload(self, settings: MysqlSettings) -> ReloadStart:
        """See `DatabaseSystem`."""
        parts = self._parts
        with session(parts.settings, STEP, f"calve {parts.pipeline} reload") as connection:
            database = self._same(connection, current(parts.files, parts.load.begun["database"]))
            preparation = prepare.inspect(connection, settings)
            preparation.require(parts.settings, self.name)
            parts.own_targets.require(preparation.tables, parts.epochs.tables.values())
            start = first_place(database, connection, parts.settings.address, probe_id())
            self._require_unchanged(database, preparation.tables, start)
            chosen, read_tables = prepare.chosen(database, settings), parts.epochs.tables.values()
            tables = self._surveyed(connection, renumbered(preparation.tables, read_tables), chosen)
            chunks = load.chunks(connection, tables, chosen)
            return ReloadStart(start, tables, chunks, self._end(database))

    def _same(self, connection: MysqlConnection, server: Server) -> MysqlCatalog:
        """Return the catalog of the server that is read.

        Raises:
            SourceUnavailableError: Another one answers, which the stream follows first.
        """
        database = MysqlCatalog(connection, server.generation)
        if database.name != server.name:
            raise SourceUnavailableError("another server answers, whose log is read first", step=STEP)
        return database

    def _require_unchanged(self, database: MysqlCatalog, tables: Sequence[DatabaseTable], start: int) -> None:
        charsets = database.charsets()
        ahead = LaterStatements(self._parts.settings.address, charsets)
        Descriptions(database, Describer(database.name, charsets), ahead).require(tables, start)

    def _end(self, database: MysqlCatalog) -> int:
        place = database.log_end()
        if place is None:
            raise SourceError(
                f"MySQL at {self._parts.settings.shown} has no binary log",
                step=STEP,
                target=self._parts.settings.shown,
                hint="Set log_bin in the server's configuration, and start it again",
            )
        return place.number

    def begin_load(self) -> None:
        """Forget where an earlier load ended; every chunk is read in a session of its own."""
        self._parts.files.remove([_LOADED])

    def end_load(self) -> None:
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
        prepare.warn(MysqlCatalog(connection), Log(pipeline))
        preparation = prepare.inspect(connection, settings)
        preparation.require(settings, MysqlSystem.name)
        OwnTargets(shared, settings, lambda table: table.schema).require(preparation.tables)
