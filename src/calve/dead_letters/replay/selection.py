"""Selects the dead letters to replay, and their sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from calve.dead_letters.reader import DeadLetter
from calve.errors import SourceError
from calve.event.columns import WITHHELD
from calve.event.reject import Code

_BEFORE_SINKS = {
    Code.MALFORMED.value,
    Code.UNDECODABLE.value,
    Code.UNKNOWN_SCHEMA.value,
    Code.UNKNOWN_OPERATION.value,
    Code.NO_KEY.value,
    Code.KEY_MISMATCH.value,
    Code.PROCESSOR_FAILED.value,
}
"""Reasons of events that are rejected before they have a table; those of a sink's own `operation` have its name."""

__all__ = ["ReplaySelection"]


@dataclass(frozen=True)
class ReplaySelection:
    """The dead letters of one replay.

    Attributes:
        pipeline: The pipeline's name; the folder may have entries of others.
        sinks: The numbers of its sinks, by every name that entries may use for them.
        code: Entries of this code only.
        table: Entries of this table only.
        fed: The numbers of the sinks of fed pipelines with processors, or behind them: each has its own dead letters.
    """

    pipeline: str
    sinks: Mapping[str, int]
    code: str | None = None
    table: str | None = None
    fed: frozenset[int] = frozenset()

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
        if not entry.sink:
            return None
        number = self.sinks.get(entry.sink)
        if self._is_before_sinks(entry, number):
            return None
        if number is None:
            raise SourceError(
                f"The dead letter {where} was rejected by the sink {entry.sink}, but the pipeline {self.pipeline} "
                f"has only {', '.join(self.sinks)}",
                step="replay",
                target=where,
                hint="Replay with a configuration that has this sink; or select other entries with --table and --code",
            )
        return number

    def _is_before_sinks(self, entry: DeadLetter, number: int | None) -> bool:
        """Return whether an event was rejected before it was routed; then its dead letter only names the first sink."""
        if entry.table or entry.code not in _BEFORE_SINKS:
            return False
        is_of_sink = {Code.UNKNOWN_OPERATION.value: bool(entry.field), Code.PROCESSOR_FAILED.value: number in self.fed}
        return not is_of_sink.get(entry.code, False)
