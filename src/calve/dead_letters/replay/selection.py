"""Which dead letters are sent again, and to which sink."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calve.dead_letters.reader import DeadLetter
from calve.errors import SourceError

__all__ = ["Selection"]


@dataclass(frozen=True)
class Selection:
    """What one replay takes.

    Attributes:
        pipeline: The pipeline's name; entries of others may lie in the same folder.
        sinks: The numbers of its sinks by every name that entries may have for them.
        code: Entries of this code only.
        table: Entries of this table only.
    """

    pipeline: str
    sinks: Mapping[str, int]
    code: str | None = None
    table: str | None = None

    def takes(self, entry: DeadLetter) -> bool:
        """Return whether the entry is to be sent."""
        return entry.is_of(self.pipeline) and self.code in (None, entry.code) and self.table in (None, entry.table)

    def sink(self, entry: DeadLetter, where: str) -> int | None:
        """Return the number of the sink that rejected an entry; None: it never got as far as one.

        Args:
            entry: The entry.
            where: Its file and line, for the message.

        Raises:
            SourceError: The pipeline does not have the sink.
        """
        if not entry.sink or (entry.code == "MALFORMED" and not entry.table):
            return None
        found = self.sinks.get(entry.sink)
        if found is None:
            raise SourceError(
                f"The dead letter {where} was rejected by the sink {entry.sink}, and the pipeline {self.pipeline} "
                f"has {', '.join(self.sinks)}",
                step="replay",
                target=where,
                hint="Replay with a configuration that has this sink in its place; --table and --code choose others",
            )
        return found
