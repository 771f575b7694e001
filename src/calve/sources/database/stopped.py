"""Tables that are not read any more, while the others go on: why, and the marks of tasks that could not read one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from calve import durable
from calve.observe.humanize import listed
from calve.observe.log import Log
from calve.sources.database.connection import ServerError
from calve.sources.database.epochs import Epochs
from calve.sources.database.settings import Tables
from calve.sources.database.table import Table

__all__ = ["UnreadableError", "condition", "mark", "marked", "stop", "tell", "unmark", "unreadable", "why_stopped"]

_FOLDER = "unreadable"
_SHOWN = 3
_WAY_OUT = "All changes before are written. Exclude the table, or load it anew: calve source reload <configuration> {}"
"""The hint of a stopped table, with its name."""


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


def stop(epochs: Epochs, table: Table, why: str, lines: Log) -> None:
    """Begin an epoch in which a table is not read any more; nothing may wait for the log."""
    epochs.add([msgspec.structs.replace(table, stopped=why)])
    lines.warning(
        f"{table.full_name} is stopped, and the other tables go on: {why}",
        table=table.full_name,
        hint=_WAY_OUT.format(table.full_name),
    )


def why_stopped(tables: Iterable[Table], selected: Tables) -> dict[str, str]:
    """Return why tables are not read any more, by name; one that the settings exclude by now is not missed."""
    return {one.full_name: one.stopped for one in tables if one.stopped and selected.has(one.schema, one.name)}


def tell(stopped: Mapping[str, str], lines: Log) -> None:
    """Log which tables are not read, and why."""
    for name, why in stopped.items():
        lines.warning(f"{name} is stopped, and is not read: {why}", table=name, hint=_WAY_OUT.format(name))


def mark(folder: Path, oid: int, why: str) -> None:
    """Write down that the load cannot read a table; in tasks, may be repeated."""
    durable.make_folder(folder / _FOLDER)
    durable.replace(folder / _FOLDER / f"{oid}.json", why)


def marked(folder: Path) -> dict[int, str]:
    """Return why the load cannot read tables, by their numbers."""
    paths = list((folder / _FOLDER).glob("*.json"))
    return {int(path.stem): str(durable.read(path)) for path in paths}


def unmark(folder: Path, oids: Iterable[int]) -> None:
    """Remove the marks of tables, because they are loaded anew; no task reads chunks."""
    for oid in oids:
        (folder / _FOLDER / f"{oid}.json").unlink(missing_ok=True)


def condition(stopped: Mapping[str, str]) -> str:
    """Return a sentence about the tables that are stopped, with the reasons; empty if none is."""
    return listed([f"{name} is stopped ({why})" for name, why in stopped.items()], _SHOWN)
