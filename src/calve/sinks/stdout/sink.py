"""A stdout sink on the driver: its tasks return lines, which the driver prints before the batch is recorded."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from calve.engine.engine import Engine
from calve.errors import SinkRefusedError
from calve.observe.humanize import harmless_text
from calve.observe.standard_output import flush_output, write_output
from calve.sinks.records.sink import LineSink
from calve.sinks.sink import Opening, Sink
from calve.sinks.stdout.job import LineJob
from calve.sinks.stdout.settings import StdoutSettings

__all__ = ["StdoutSink", "open", "print_lines", "probe"]


class StdoutSink(LineSink):
    """The stdout sink (`Sink`); runs on the driver.

    Args:
        opening: Its settings and tools.
    """

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening, "stdout", "stdout", LineJob)

    def open(self) -> None:
        """Do nothing: the standard output is always there."""


def open(opening: Opening) -> Sink:
    """Create a stdout sink."""
    return StdoutSink(opening)


def probe(settings: StdoutSettings, spark: Engine | None) -> None:
    """Do nothing: the standard output is always there."""


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on the standard output; on a terminal what could control it is escaped.

    Raises:
        SinkRefusedError: Nobody reads it any more, or its disk is full.
    """
    text = "".join(lines)
    if sys.stdout.isatty():
        text = harmless_text(text)
    try:
        write_output(text.encode())
        flush_output()
    except OSError as error:
        raise SinkRefusedError(
            f"The standard output cannot be written: {error.strerror}",
            step="write",
            target="stdout",
            hint="Nothing is lost: the next run prints what this one could not",
        ) from error
