"""Checks a source that only reads by starting it as in its first run."""

from __future__ import annotations

from calve.errors import SourceError
from calve.event.columns import MALFORMED
from calve.sources.source import Source, stop

__all__ = ["try_first_event", "try_start"]


def try_start(source: Source) -> None:
    """Start a source without a position, and stop it.

    Raises:
        CalveError: Its systems do not answer, or have nothing to read.
    """
    try:
        source.start(None, True)
    finally:
        stop(source)


def try_first_event(source: Source) -> None:
    """Start a source of files and read the start of the first: if it is unreadable, similar files probably are, too.

    Raises:
        SourceError: It cannot be read; a run would make it a dead letter.
    """
    try:
        source.start(None, True)
        planned = source.plan(None, 1)
        events = next(source.reader.read(planned.splits[0]), None) if planned else None
    finally:
        stop(source)
    if events and MALFORMED in events.schema.names and (reason := events[MALFORMED][0].as_py()):
        hint = "Correct the file, or the source's codec; otherwise `run` makes the file a dead letter and continues"
        raise SourceError(reason, step="connect", target="source", hint=hint)
