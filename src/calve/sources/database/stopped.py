"""Tables that are not read any more, while the others go on: why, and the marks of tasks that could not read one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePath

import msgspec

from calve.observe.humanize import listed
from calve.observe.log import Log
from calve.sources.database.connection import ServerError
from calve.sources.database.epochs import Epochs
from calve.sources.database.table import DatabaseTable
from calve.sources.source_files import FilesAt, encoded, files_in, posted_as
from calve.sources.tables import Tables

__all__ = [
    "INTERRUPTED",
    "UnreadableError",
    "condition",
    "log_stopped",
    "mark",
    "marked",
    "stop",
    "unmark",
    "unreadable",
    "why_stopped",
]

_FOLDER = "unreadable"
_SHOWN = 3
_WAY_OUT = "All changes before are written. Exclude the table, or load it again: calve source reload <configuration> {}"
"""The hint of a stopped table, with its name."""


INTERRUPTED = "its load was interrupted, and it has no key by which its rows could be known again"
"""Why a table is read again whatever the settings are: its history begins again."""


class UnreadableError(Exception):
    """A table is not what it was when the load began. Internal: the load goes on without it."""


@contextmanager
def unreadable(codes: frozenset[str]) -> Iterator[None]:
    """Turn refusals with these codes into `UnreadableError`.

    Raises:
        UnreadableError: See there.
    """
    try:
        yield
    except ServerError as error:
        if error.code in codes:
            raise UnreadableError(str(error)) from error
        raise


def stop(epochs: Epochs, table: DatabaseTable, why: str, lines: Log, hint: str = "") -> None:
    """Begin an epoch in which a table is not read any more; nothing may wait for the log.

    Args:
        epochs: The descriptions of tables.
        table: The table.
        why: Why.
        lines: The pipeline's log.
        hint: What follows; empty: what somebody can do.
    """
    epochs.add([msgspec.structs.replace(table, stopped=why)])
    lines.warning(
        f"{table.full_name} is stopped, and the other tables go on: {why}",
        table=table.full_name,
        hint=hint or _WAY_OUT.format(table.full_name),
    )


def why_stopped(tables: Iterable[DatabaseTable], selected: Tables) -> dict[str, str]:
    """Return why tables are not read any more, by name; one that the settings exclude by now is not missed."""
    return {
        table.full_name: table.stopped for table in tables if table.stopped and selected.has(table.schema, table.name)
    }


def log_stopped(stopped: Mapping[str, str], lines: Log) -> None:
    """Log which tables are not read, and why."""
    for name, why in stopped.items():
        lines.warning(f"{name} is stopped, and is not read: {why}", table=name, hint=_WAY_OUT.format(name))


def mark(folder: FilesAt, oid: int, why: str) -> None:
    """Write down that the load cannot read a table; in tasks, may be repeated."""
    files_in(folder).post(_name(oid), encoded(why))


def marked(folder: FilesAt, now: bool = False) -> dict[int, str]:
    """Return why the load cannot read tables, by their numbers.

    Args:
        folder: The source's files.
        now: Everything until now; otherwise a mark of the last seconds may be missing.
    """
    marks = posted_as(files_in(folder), _FOLDER, str, now)
    return {int(PurePath(name).stem): why for name, why in marks.items()}


def unmark(folder: FilesAt, oids: Iterable[int]) -> None:
    """Remove the marks of tables, because they are loaded again; no task reads chunks."""
    files_in(folder).unpost([_name(oid) for oid in oids])


def _name(oid: int) -> str:
    return f"{_FOLDER}/{oid}.json"


def condition(stopped: Mapping[str, str]) -> str:
    """Return a sentence about the tables that are stopped, with the reasons; empty if none is."""
    return listed([f"{name} is stopped ({why})" for name, why in stopped.items()], _SHOWN)
