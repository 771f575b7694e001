"""Where the dead letters of a pipeline go: folders, and tables."""

from __future__ import annotations

from collections.abc import Sequence

from calve.dead_letters.publish import publish
from calve.dead_letters.table import LetterTable
from calve.record.written import Rejects
from calve.sinks.sink import Sink

__all__ = ["PipelineLetters"]


class PipelineLetters:
    """The dead letters of all sinks of a pipeline; runs on the driver.

    Args:
        sinks: All sinks of the pipeline.

    Attributes:
        locations: The folders, or of a table's note, without repetition.
        tables: The names of the tables.
    """

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._locations = [sink.dead_letters for sink in sinks]
        self._tables = [sink.tables.letters for sink in sinks if sink.tables and sink.tables.letters]
        self.locations = list(dict.fromkeys(folder.location for folder in self._locations))
        self.tables = frozenset(table.identifier for table in self._tables)

    def open(self) -> None:
        """Find or create the tables.

        Raises:
            CalveError: A catalog does not answer, or a table cannot have dead letters.
        """
        for table in self._tables:
            table.open()

    def note(self) -> None:
        """Write down where the tables are."""
        for table in self._tables:
            table.note()

    @property
    def readable(self) -> list[LetterTable]:
        """Where the tables are by now.

        Raises:
            CalveError: One was dropped or changed.
        """
        return [table.readable for table in self._tables]

    def io_properties(self) -> dict[str, dict[str, str]]:
        """Return what a FileIO needs, by location."""
        return {folder.location: folder.io_properties for folder in self._locations}

    def publish(self, rejects: Sequence[Rejects]) -> None:
        """Publish staged dead letters; may be repeated.

        Raises:
            CalveError: They cannot be written.
        """
        publish(rejects, self.io_properties())
