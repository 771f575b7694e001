"""The protocols of sources that read tables again, because they changed without a trace."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from calve.sources.source import SourceTable

__all__ = ["CanReload", "Compares", "Comparing"]


@runtime_checkable
class CanReload(Protocol):
    """A source that may have to load tables again, into empty targets."""

    @property
    def tables_to_empty(self) -> list[SourceTable] | None:
        """The tables whose rows are to be removed from their targets; None: nothing has to be done."""
        ...

    @property
    def to_keep(self) -> list[SourceTable]:
        """The tables whose rows stay; a target with rows of both is not emptied."""
        ...

    def emptied(self, is_complete: bool) -> None:
        """Load the tables: every batch is committed, and then the rows were removed. May be repeated after a crash.

        Args:
            is_complete: Whether all targets were emptied; otherwise the loaded rows replace those with the same key.
        """
        ...


class Comparing(Protocol):
    """The tables of a source that are read again, whose targets then get only the differences.

    The rows are loaded apart from those of the targets, by splits with `APART`. After a crash a step may be repeated.
    """

    @property
    def to_load(self) -> list[SourceTable] | None:
        """The tables that are to be loaded apart; None: nothing has to be done."""
        ...

    @property
    def to_keep(self) -> list[SourceTable]:
        """All other tables; a target with rows of both cannot be compared."""
        ...

    def load(self, fault: str) -> None:
        """Load the tables: every batch is committed, and nothing is where their rows will be.

        Args:
            fault: Why they cannot be compared with their targets, so that they are stopped; empty: they can.
        """
        ...

    @property
    def to_compare(self) -> list[SourceTable] | None:
        """The tables that are loaded; None: nothing has to be done."""
        ...

    def end(self, fault: str) -> None:
        """Go on: the targets have the rows of the tables.

        Args:
            fault: Why they do not have them, so that the tables are stopped; empty: they do.
        """
        ...


@runtime_checkable
class Compares(Protocol):
    """A source that may read tables again, because they changed without a trace."""

    @property
    def comparing(self) -> Comparing | None:
        """Those tables; None while something else has to be done."""
        ...
