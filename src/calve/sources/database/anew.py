"""The note that a source has to begin anew: it outlasts crashes until the source has begun."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from calve import durable
from calve.sources.database.table import Table
from calve.stop_point import reach

__all__ = ["Anew", "decide", "finish", "is_requested", "read", "request", "wipe"]

_FILE = "anew.json"
_REQUEST = "reload.json"
_KEPT = frozenset(("tables", _FILE))
"""Tasks may have descriptions of tables in memory, so their numbers are never used again."""


class Anew(msgspec.Struct, frozen=True):
    """What was decided.

    Attributes:
        load: The number of the load that follows; the first one of a state is 0.
        tables: The tables whose rows are removed.
    """

    load: int
    tables: list[Table]


def decide(folder: Path, load: int, tables: list[Table]) -> Anew:
    """Write down that a source has to begin anew."""
    anew = Anew(load, tables)
    durable.replace_bytes(folder / _FILE, msgspec.json.encode(anew))
    reach("anew.after-note")
    return anew


def read(folder: Path, load: int | None) -> Anew | None:
    """Return what was decided, unless the load has begun.

    Args:
        folder: The source's folder.
        load: The number of the load that has begun; None: none.
    """
    anew = durable.read_as(folder / _FILE, Anew)
    return None if anew is None or anew.load == load else anew


def request(folder: Path, load: int) -> None:
    """Ask a source to begin anew; it may be running, in another process.

    Args:
        folder: The source's folder.
        load: The number of the load that is to be replaced.
    """
    durable.replace(folder / _REQUEST, load)


def is_requested(folder: Path, load: int) -> bool:
    """Return whether somebody asks to replace a load."""
    return durable.read(folder / _REQUEST) == load


def wipe(folder: Path) -> None:
    """Remove what the source had until now; may be repeated."""
    for path in folder.iterdir():
        if path.name in _KEPT:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    durable.sync(folder)
    reach("anew.after-wipe")


def finish(folder: Path) -> None:
    """Remove the note, because the source has begun."""
    (folder / _FILE).unlink(missing_ok=True)
