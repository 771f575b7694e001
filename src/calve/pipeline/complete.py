"""Checks at the end of a run with `once` whether the source has read all that it should."""

from __future__ import annotations

from collections.abc import Mapping

from calve.errors import NothingFoundError, SourceError
from calve.observe.humanize import listed, many
from calve.sources.source import FindsFiles, Source, StopsTables

__all__ = ["check_complete", "stopped_tables"]

_SHOWN_TABLES = 3


def stopped_tables(source: Source) -> Mapping[str, str]:
    """Return the tables that the source does not read any more, and why."""
    return source.stopped if isinstance(source, StopsTables) else {}


def check_complete(source: Source, allow_empty: bool) -> None:
    """Check that the source has read all its tables, or has found files.

    Raises:
        SourceError: Some tables are stopped; everything of the others is committed.
        NothingFoundError: No file matches, unless this is allowed.
    """
    if stopped := stopped_tables(source):
        names = listed([f"{name} ({why})" for name, why in sorted(stopped.items())], _SHOWN_TABLES)
        raise SourceError(
            f"Everything is committed but the rows of {many(len(stopped), 'stopped table')}: {names}",
            step="read",
            hint="Exclude it; or load a table again: calve source reload <configuration> <table>; of a topic, "
            "continue at its oldest record: on_lost_position: earliest",
        )
    if isinstance(source, FindsFiles) and source.nothing_found and not allow_empty:
        hint = "Check the path, or set `codec`; if there may be nothing, run it with --allow-empty"
        raise NothingFoundError(f"Nothing to read: {source.nothing_found}", step="read", hint=hint)
