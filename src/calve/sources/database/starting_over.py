"""The phase that starts over: all rows of the targets are removed, and all tables are loaded again."""

from __future__ import annotations

from collections.abc import Iterable

from calve.errors import PositionLostError
from calve.observe.log import Log
from calve.sources.database import full_reload
from calve.sources.database.full_reload import FullReload
from calve.sources.database.table import DatabaseTable
from calve.sources.source import SourceTable
from calve.sources.source_files import SourceFiles

__all__ = ["StartingOver"]


class StartingOver:
    """The decision to start over, which outlasts crashes until the source has begun (the pipeline's thread).

    Args:
        files: The source's files.
        lines: The pipeline's log.

    Attributes:
        decided: What was decided; None: nothing, or it is done.
    """

    def __init__(self, files: SourceFiles, lines: Log) -> None:
        self._files, self._lines = files, lines
        self.decided: FullReload | None = None

    def resume(self, load: int | None) -> None:
        """Go on with what an earlier run decided, unless that load has begun."""
        self.decided = full_reload.read(self._files, load)

    def decide_if_requested(self, load: int, tables: Iterable[DatabaseTable]) -> None:
        """Decide to start over, if somebody asks to replace the load."""
        if self.decided is None and full_reload.is_requested(self._files, load):
            self._decide("somebody has asked for it", load, tables)

    def lose(self, error: PositionLostError, load: int, tables: Iterable[DatabaseTable]) -> None:
        """Decide to start over, because the server lacks changes."""
        self._decide(error.message, load, tables)

    @property
    def tables(self) -> list[SourceTable]:
        """The tables whose rows are to be removed."""
        return [table.source_table() for table in self.decided.tables if table.is_readable] if self.decided else []

    def _decide(self, why: str, load: int, tables: Iterable[DatabaseTable]) -> None:
        self._lines.warning(f"all tables are loaded again: {why}")
        self.decided = full_reload.decide(self._files, load + 1, list(tables))
