"""Tables that match `tables`, and are not in the publication: Calve's own takes them, others are named with the SQL."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from calve.errors import SourceError
from calve.observe.log import Log
from calve.sources.database.connection import ServerError
from calve.sources.database.epochs import Epochs
from calve.sources.database.preparation import without_key
from calve.sources.postgres.catalog.database import PostgresCatalog, PostgresCatalogTable
from calve.sources.postgres.catalog.marks import LEFT_OUT
from calve.sources.postgres.catalog.publication import change
from calve.sources.postgres.prepare import table_faults
from calve.sources.postgres.protocol.quote import quoted
from calve.sources.postgres.protocol.wire import PostgresConnection
from calve.sources.postgres.settings import PostgresSettings

__all__ = ["NewTables"]

_WITHOUT_ROOTS = 130_000
_LOCKED = "55P03"
_LOCK_MILLISECONDS = 1_000


@dataclass
class NewTables:
    """Publishes new tables, and asks for their load; what cannot be published is said once.

    Attributes:
        settings: The source's settings.
        pipeline: The pipeline's name.
        lines: The pipeline's log.
        epochs: The descriptions of the tables that are read.
        load: Asks for the load of a table, by its full name.
        named: The tables that were named.
    """

    settings: PostgresSettings
    pipeline: str
    lines: Log
    epochs: Epochs
    load: Callable[[str], None]
    named: set[str] = field(default_factory=set)

    def add(self, connection: PostgresConnection, database: PostgresCatalog) -> None:
        """Publish the tables that match, and are new.

        Raises:
            ClosedError: The connection was lost.
            ServerError: The server refuses to read its catalog.
        """
        name = self.settings.publication_of(self.pipeline)
        publication = database.publication(name)
        if publication is None or database.version < _WITHOUT_ROOTS:
            return
        for table in database.tables():
            is_selected = self.settings.selected.has(table.schema, table.name) and not table.is_partition
            is_published = (table.schema, table.name) in publication.columns
            if is_selected and not is_published and not self._was_left_out(table):
                self._add(connection, database, table, name)

    def _was_left_out(self, table: PostgresCatalogTable) -> bool:
        """Return whether somebody took a table out of the publication that was in it."""
        former = self.epochs.tables.get(table.oid)
        return former is not None and (not former.stopped or LEFT_OUT in former.stopped)

    def _add(
        self, connection: PostgresConnection, database: PostgresCatalog, table: PostgresCatalogTable, publication: str
    ) -> None:
        sql = f"ALTER PUBLICATION {quoted(publication)} ADD TABLE ONLY {quoted(table.schema)}.{quoted(table.name)}"
        fault = next(iter(table_faults(database, self.settings, table, publication)), None)
        if fault is not None:
            why = without_key([table.full_name])[0] if fault.is_keyless else fault.why
            self._name(table, why, f"Run: {fault.fix}; or exclude it" if fault.fix else "Exclude it")
            return
        if self.settings.publication is not None:
            self._name(table, f"the publication {publication} does not have it", f"Run: {sql}; then: {_reload(table)}")
            return
        timed = f"SET LOCAL lock_timeout = {_LOCK_MILLISECONDS}; {sql}"
        try:
            change(connection, self.settings, timed, [table.oid], lambda: self.load(table.full_name))
        except ServerError as error:
            if error.code != _LOCKED:  # else later
                self._name(table, error.reason, f"Let an owner of the table run: {sql}; then: {_reload(table)}")
        except SourceError as error:
            self._name(table, error.message, error.hint)
        else:
            self.lines.info(f"{table.full_name} is new: it was added to {publication}, and is loaded")

    def _name(self, table: PostgresCatalogTable, why: str, hint: str) -> None:
        if table.full_name not in self.named:
            self.named.add(table.full_name)
            self.lines.warning(f"{table.full_name} is not read: {why}", table=table.full_name, hint=hint)


def _reload(table: PostgresCatalogTable) -> str:
    return f"calve source reload <configuration> {table.full_name}"
