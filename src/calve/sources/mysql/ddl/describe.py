"""Finds out which columns the rows of a table have: the log says it, or the catalog does if nothing changed since.

The catalog has the columns of now, and a row may be older. So its columns count only if the log has no statement that
may change them between the row and the moment of reading, and if their types are those that the log has for the row.
"""

from __future__ import annotations

from collections.abc import Sequence

from calve.errors import SourceUnavailableError
from calve.sources.database.follow import conflict
from calve.sources.database.table import Column, DatabaseTable
from calve.sources.mysql.catalog.database import BinlogPosition, MysqlCatalog
from calve.sources.mysql.ddl.follow import Describer, same
from calve.sources.mysql.ddl.later_statements import LaterStatements
from calve.sources.mysql.protocol.table_map import Mapped

__all__ = ["Descriptions"]

_WAY_OUT = "its log does not describe columns (binlog_row_metadata is not FULL)"


class Descriptions:
    """The columns of tables at places of the log.

    Args:
        catalog: The catalog of the server.
        describer: Makes columns of what the log says.
        ahead: Looks ahead in the log.
    """

    def __init__(self, catalog: MysqlCatalog, describer: Describer, ahead: LaterStatements) -> None:
        self._catalog = catalog
        self._describer = describer
        self._ahead = ahead

    def columns(self, mapped: Mapped, former: DatabaseTable | None, at: int) -> Sequence[Column]:
        """Return the columns of a table as they are for its rows.

        Args:
            mapped: What the log says.
            former: The table as it was until now.
            at: Where the transaction of the rows begins.

        Raises:
            ClosedError: The connection was lost.
            SchemaConflictError: They cannot be known.
            ServerError: The server refuses.
        """
        if mapped.is_complete:
            return self._describer.columns(mapped)
        now, until = self._catalog.columns_now(mapped.database, mapped.table)
        misfit = self._describer.misfit(mapped, now)
        is_certain = former is not None and not former.is_outdated
        if former is not None and is_certain and not misfit and same(now, former.columns):
            return now
        is_later = self._changes((mapped.database, mapped.table), at, until, at)
        table = former or DatabaseTable("", 0, mapped.database, mapped.table, ())
        if former is not None and is_certain:
            if is_later and not self._describer.misfit(mapped, former.columns):
                return former.columns
            reason = misfit or "the catalog has others"
            raise conflict(table, f"its columns changed without a statement in the log ({reason}), and {_WAY_OUT}")
        if is_later:
            raise conflict(table, f"it changed again before its columns could be read, and {_WAY_OUT}")
        if misfit:
            raise conflict(table, f"its columns cannot be known: {misfit}, and {_WAY_OUT}")
        return now

    def require(self, tables: Sequence[DatabaseTable], start: int) -> None:
        """Check that tables have the same columns at a position, which every later query sees, and now.

        Raises:
            ClosedError: The connection was lost.
            ServerError: The server refuses.
            SourceUnavailableError: A table has changed meanwhile.
        """
        now = self._catalog.described(tables, self._catalog.name)
        place = self._catalog.log_end()
        for former, table in zip(tables, now, strict=True):
            is_same = former.columns == table.columns
            if not is_same or place is None or self._changes((table.schema, table.name), start, place, start - 1):
                raise SourceUnavailableError(f"{table.full_name} has just been changed", step="start")

    def _changes(self, table: tuple[str, str], start: int, until: BinlogPosition, after: int) -> bool:
        """Return whether a statement may give a table other columns; see `LaterStatements.described`."""
        fold = self._catalog.folded
        database, name = map(fold, table)
        changed = {(fold(schema), fold(other)) for schema, other in self._ahead.described(start, until, after)}
        return not changed.isdisjoint({(database, name), (database, "")})
