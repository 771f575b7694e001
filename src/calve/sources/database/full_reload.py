"""The note that a source has to begin again: it outlasts crashes until the source has begun."""

from __future__ import annotations

import msgspec

from calve.sources.database.table import DatabaseTable
from calve.sources.source_files import FilesAt, encoded, files_in, posted_as, read_as
from calve.stop_point import stop_at

__all__ = ["FullReload", "decide", "finish", "is_requested", "read", "request", "wipe"]

_FILE = "anew.json"
_REQUESTS = "anew"
_REQUEST = f"{_REQUESTS}/reload.json"
_KEPT = ("tables/", "slot.json")
"""Tasks may have descriptions of tables in memory, so their numbers are never used again; and a slot keeps its name."""
_POSTED = (_REQUESTS, "requests", "unreadable")


class FullReload(msgspec.Struct, frozen=True):
    """What was decided.

    Attributes:
        load: The number of the load that follows; the first one of a state is 0.
        tables: The tables whose rows are removed.
    """

    load: int
    tables: list[DatabaseTable]


def decide(folder: FilesAt, load: int, tables: list[DatabaseTable]) -> FullReload:
    """Write down that a source has to begin again."""
    decided = FullReload(load, tables)
    files_in(folder).write(_FILE, encoded(decided))
    stop_at("anew.after-note")
    return decided


def read(folder: FilesAt, load: int | None) -> FullReload | None:
    """Return what was decided, unless the load has begun.

    Args:
        folder: The source's folder.
        load: The number of the load that has begun; None: none.
    """
    decided = read_as(files_in(folder), _FILE, FullReload)
    return None if decided is None or decided.load == load else decided


def request(folder: FilesAt, load: int) -> None:
    """Ask a source to begin again; it may be running, in another process.

    Args:
        folder: The source's folder.
        load: The number of the load that is to be replaced.
    """
    files_in(folder).post(_REQUEST, encoded(load))


def is_requested(folder: FilesAt, load: int) -> bool:
    """Return whether somebody asks to replace a load."""
    return posted_as(files_in(folder), _REQUESTS, int).get(_REQUEST) == load


def wipe(folder: FilesAt) -> None:
    """Remove what the source had until now, but its log; may be repeated."""
    files = files_in(folder)
    for requests in _POSTED:
        files.unpost(files.posted(requests, now=True))
    files.remove(name for name in files.names() if not name.startswith(_KEPT) and name != _FILE)
    stop_at("anew.after-wipe")


def finish(folder: FilesAt) -> None:
    """Remove the note, because the source has begun."""
    files_in(folder).remove([_FILE])
