"""What differs between databases in the life of a source; the phases are the same for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from calve.observe.humanize import many
from calve.sources.database.load import check_database
from calve.sources.database.parts import Parts
from calve.sources.database.reload import ReloadStart
from calve.sources.database.stream import DatabaseStream, StreamContext
from calve.sources.database.table import DatabaseTable

__all__ = ["ANY", "STEP", "DatabaseSystem"]

STEP = "start"
ANY = (1 << 63) - 1
"""Behind every position: until the load is committed it may be read again, when its rows are later ones."""


class DatabaseSystem(ABC):
    """The beginning and the end of a load, and the stream.

    Args:
        parts: What it shares with the phases.

    Attributes:
        name: What the database is called.
    """

    name: ClassVar[str]

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @abstractmethod
    def prepare(self, begun: dict[str, Any] | None) -> tuple[dict[str, Any], int]:
        """Check the database; begin a new state with `_began`, or check that an older one can go on.

        Returns:
            What was begun, and the position of the server's last change.
        """

    @abstractmethod
    def follow(self, context: StreamContext, until: int | None) -> DatabaseStream:
        """Return the stream."""

    @abstractmethod
    def loaded_until(self) -> int:
        """Return a position after every commit that the loaded rows may have; called when the load is committed."""

    @abstractmethod
    def begin_load(self) -> None:
        """Make sure that tasks can read chunks."""

    @abstractmethod
    def begin_reload(self, settings: Any) -> ReloadStart:
        """Check the tables that the settings select, and prepare to load them again; the stream does not run.

        Raises:
            SourceError: They cannot be loaded; the hint has the SQL that helps.
            SourceUnavailableError: The database does not answer, or they cannot be loaded yet.
        """

    @abstractmethod
    def end_load(self) -> None:
        """Clean up, because no chunk is read any more; may be called more than once, by any thread."""

    def _began(
        self, database: str, start: Any, chunks: list[dict[str, Any]], tables: Sequence[DatabaseTable]
    ) -> dict[str, Any]:
        """Write down where a new state begins: at the first position of the stream, with these tables and chunks."""
        parts = self._parts
        new = {"database": database, "start": start, "chunks": chunks}
        begun = parts.load.begin({**new, "load": parts.number, "replaces": parts.replaces}, parts.epochs, tables)
        server = parts.settings.shown
        parts.lines.info(f"loads {many(len(tables), 'table')} of {server}, then follows their changes")
        return begun

    def _go_on(self, begun: dict[str, Any], database: str) -> None:
        """Check that a state is of this database, and load its tables.

        Raises:
            SourceError: It is of another one.
        """
        parts = self._parts
        check_database(begun, database, parts.settings.shown)
        parts.epochs.load()
        parts.own_targets.go_on(parts.epochs.tables.values())
