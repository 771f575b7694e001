"""What differs between databases in the life of a source; the rest is in `source.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from calve.sources.database.reload import Beginning
from calve.sources.database.stream import DatabaseStream, Target

__all__ = ["Phases"]


class Phases(ABC):
    """The beginning and the end of a load, and the stream.

    Attributes:
        system: What the database is called.
    """

    system: str

    @abstractmethod
    def _prepare(self, begun: dict[str, Any] | None) -> tuple[dict[str, Any], int]:
        """Check the database; begin a new state with `_began`, or check that an older one can go on.

        Returns:
            What was begun, and the position of the server's last change.
        """

    @abstractmethod
    def _follow(self, target: Target, until: int | None) -> DatabaseStream:
        """Return the stream."""

    @abstractmethod
    def _loaded_until(self) -> int:
        """Return a position after every commit that the loaded rows may have; called when the load is committed."""

    @abstractmethod
    def _begin_load(self) -> None:
        """Make sure that tasks can read chunks."""

    @abstractmethod
    def _begin_reload(self, settings: Any) -> Beginning:
        """Check the tables that the settings select, and prepare to load them anew; the stream does not run.

        Raises:
            SourceError: They cannot be loaded; the hint has the SQL that mends it.
            SourceUnavailableError: The database does not answer, or they cannot be loaded yet.
        """

    @abstractmethod
    def _end_load(self) -> None:
        """Clean up, because no chunk is read any more; may be called more than once, by any thread."""
