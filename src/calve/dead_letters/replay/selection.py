"""Selects the dead letters to replay, and their sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calve.dead_letters.reader import DeadLetter
from calve.errors import SourceError
from calve.event.columns import WITHHELD

__all__ = ["ReplaySelection"]


@dataclass(frozen=True)
class ReplaySelection:
    """The dead letters of one replay.

    Attributes:
        pipeline: The pipeline's name; the folder may have entries of others.
        sinks: The numbers of its sinks, by every name that entries may use for them.
        code: Entries of this code only.
        table: Entries of this table only.
    """

    pipeline: str
    sinks: Mapping[str, int]
    code: str | None = None
    table: str | None = None

    def matches(self, entry: DeadLetter) -> bool:
        """Return whether to replay an entry. One whose text was withheld has nothing to replay."""
        if WITHHELD in (entry.metadata or {}):
            return False
        return entry.is_of(self.pipeline) and self.code in (None, entry.code) and self.table in (None, entry.table)

    def sink(self, entry: DeadLetter, where: str) -> int | None:
        """Return the number of the sink that rejected an entry; None if it was rejected before any sink.

        Args:
            entry: The entry.
            where: Its file and line, for the message.

        Raises:
            SourceError: The pipeline has no such sink.
        """
        if not entry.sink or (entry.code == "MALFORMED" and not entry.table):
            return None
        number = self.sinks.get(entry.sink)
        if number is None:
            raise SourceError(
                f"The dead letter {where} was rejected by the sink {entry.sink}, but the pipeline {self.pipeline} "
                f"has only {', '.join(self.sinks)}",
                step="replay",
                target=where,
                hint="Replay with a configuration that has this sink; or select other entries with --table and --code",
            )
        return number
