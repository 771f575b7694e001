"""The tables of a PostgreSQL database, to set up a pipeline."""

from __future__ import annotations

from calve.sources.database.preview import MOST_TABLES, previewed
from calve.sources.postgres.catalog.database import PostgresCatalog
from calve.sources.postgres.failure import explained, session
from calve.sources.postgres.protocol.quote import quoted
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.preview import DatabasePreview

__all__ = ["preview"]

_STEP = "init"


def preview(settings: PostgresSettings) -> DatabasePreview:
    """Return the tables that the settings select.

    Raises:
        SourceError: The server refuses.
        SourceUnavailableError: The server does not answer.
    """
    with session(settings, _STEP, "calve init") as connection, explained(settings, _STEP):
        database = PostgresCatalog(connection, settings.shown)
        selected = [
            table
            for table in database.tables()
            if settings.selected.has(table.schema, table.name) and not table.is_partition
        ]
        described = database.described(selected[:MOST_TABLES], "")
        tables = tuple(previewed(table, quoted, connection.query) for table in described)
        return DatabasePreview(tables, len(selected) - len(tables))
