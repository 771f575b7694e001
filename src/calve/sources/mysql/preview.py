"""The tables of a MySQL server, to set up a pipeline."""

from __future__ import annotations

from calve.sources.database.preview import MOST_TABLES, previewed
from calve.sources.mysql.catalog.database import MysqlCatalog
from calve.sources.mysql.failure import explained, session
from calve.sources.mysql.protocol.quote import quoted
from calve.sources.mysql.settings import MysqlSettings
from calve.sources.preview import DatabasePreview

__all__ = ["preview"]

_STEP = "init"


def preview(settings: MysqlSettings) -> DatabasePreview:
    """Return the tables that the settings select.

    Raises:
        SourceError: The server refuses.
        SourceUnavailableError: The server does not answer.
    """
    with session(settings, _STEP, "calve init") as connection, explained(settings, _STEP):
        database = MysqlCatalog(connection)
        selected = [table for table in database.tables() if settings.selected.has(table.schema, table.name)]
        described = database.described(selected[:MOST_TABLES], settings.shown)
        tables = tuple(previewed(table, quoted, connection.query) for table in described)
        return DatabasePreview(tables, len(selected) - len(tables))
