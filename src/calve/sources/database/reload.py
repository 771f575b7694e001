"""Tables that are read again while the others go on; the steps outlast crashes, and each may be repeated.

1. `calve source reload` writes a request, or the stream does, because a table changed without a trace in the log.
2. The stream is halted. The database gives a position from which on the tables can be loaded, and the note is written:
   from here on the tables have new descriptions, and changes up to that position are not read any more.
3. What the log has from before is written and committed.
4. The rows of the targets are removed; or, if they are to be compared, those that an earlier try has loaded apart.
5. The chunks of the tables are added to those of the load, and the note is removed. They are read before all changes
   that follow in the log, as those of the first load are.
6. What was loaded apart is compared with the targets, which get the differences; only then the log is read.
"""

from __future__ import annotations

import glob
import time
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import msgspec

from calve.errors import CalveError, SourceError, Verdict
from calve.network.backoff import delay
from calve.observe.log import Log
from calve.sources.database.epochs import Epochs
from calve.sources.database.follow import fitting
from calve.sources.database.settings import DatabaseSettings
from calve.sources.database.stopped import INTERRUPTED, unmark
from calve.sources.database.table import DatabaseTable
from calve.sources.source import APART, SourceTable
from calve.sources.source_files import FilesAt, encoded, files_in, posted_as, read_as
from calve.sources.tables import Tables
from calve.stop_point import stop_at

__all__ = [
    "Note",
    "ReloadRequest",
    "ReloadStart",
    "ReloadTracker",
    "policy_for",
    "read",
    "read_again",
    "request",
    "requests",
    "waiting",
]

_NOTE, _REQUESTS = "reloading.json", "requests"
_AGAIN = {
    "compare": "It is read again by itself, and its target gets the rows that differ",
    "reload": "It is loaded again by itself",
}
_WHAT = {False: "loaded again", True: "read again and compared"}


class ReloadRequest(msgspec.Struct, frozen=True):
    """What somebody asks for.

    Attributes:
        load: The load that the tables belong to; if all tables were loaded again since, nothing is left to do.
        tables: The tables, as `schema.table`.
        compares: Whether their targets get the differences; otherwise they are emptied.
    """

    load: int
    tables: list[str]
    compares: bool = False

    def narrowed(self, settings: DatabaseSettings) -> DatabaseSettings:
        """Return settings that select these tables alone, as far as they are selected at all."""
        names = [name for name in self.tables if settings.selected.has(*name.split(".", 1))]
        return replace(settings, tables=Tables(include=[glob.escape(name) for name in names]))


class Note(msgspec.Struct, frozen=True):
    """A reload that is under way.

    Attributes:
        number: How many reloads there were in this load, this one included.
        epoch: The first epoch with the new descriptions.
        tables: The new descriptions; stopped, if the target cannot hold them.
        chunks: Their chunks.
        request: The name of the request's file.
        compares: Whether the targets get the differences; otherwise they are emptied.
    """

    number: int
    epoch: int
    tables: list[DatabaseTable]
    chunks: list[dict[str, Any]]
    request: str
    compares: bool = False

    @property
    def names(self) -> list[str]:
        """The tables, as `schema.table`."""
        return [table.full_name for table in self.tables]


@dataclass(frozen=True)
class ReloadStart:
    """Where tables can be loaded from.

    Attributes:
        start: Every commit before is visible to those who read chunks from now on; all others are in the stream.
        tables: The tables as they are by now.
        chunks: What is to be read of them.
        end: The position of the server's last change.
    """

    start: int
    tables: list[DatabaseTable]
    chunks: list[dict[str, Any]]
    end: int

    def of(self, asked: ReloadRequest) -> ReloadStart:
        """Return it, if it has all tables of a request.

        Raises:
            SourceError: It lacks one.
        """
        missing = sorted(set(asked.tables) - {table.full_name for table in self.tables})
        if missing:
            hint = "`calve validate --connect` shows what can be read"
            raise SourceError(f"the database has no table {', '.join(missing)} to read", step="start", hint=hint)
        return self


def request(folder: FilesAt, load: int, tables: Iterable[str], compares: bool = False) -> None:
    """Ask a source to read some tables again; it may be running, in another process."""
    name = f"{time.time_ns():020d}-{uuid.uuid4().hex}.json"
    files_in(folder).post(_path(name), encoded(ReloadRequest(load, list(tables), compares)))


def policy_for(table: DatabaseTable, policy: str, why: str) -> str:
    """Return what becomes of a table that is stopped; one whose changes become rows cannot be compared.

    Args:
        table: The table.
        policy: `on_unlogged_change`.
        why: Why it is stopped.
    """
    if not table.appends or not policy:
        return policy
    return "reload" if why == INTERRUPTED else "fail" if policy == "compare" else policy


def read_again(policy: str, folder: FilesAt, load: int, table: str) -> str:
    """Ask a source to read a table again, if `on_unlogged_change` says so; unless that is requested already.

    Returns:
        What follows, as a hint; empty: nothing.
    """
    if policy in _AGAIN and all(asked.tables != [table] for _, asked in requests(folder, load)):
        request(folder, load, [table], compares=policy == "compare")
    return _AGAIN.get(policy, "")


def requests(folder: FilesAt, load: int) -> list[tuple[str, ReloadRequest]]:
    """Return the requests that wait, oldest first, each with the name of its file."""
    posted = sorted(posted_as(files_in(folder), _REQUESTS, ReloadRequest).items())
    return [(PurePath(name).name, asked) for name, asked in posted if asked.load == load]


def _path(name: str) -> str:
    return f"{_REQUESTS}/{name}"


def waiting(folder: FilesAt, begun: dict[str, Any]) -> dict[str, bool]:
    """Return the tables that wait to be read again, as `schema.table`, each with whether it is compared."""
    note = read(folder, begun)
    asked = {name: asking.compares for _, asking in requests(folder, begun.get("load", 0)) for name in asking.tables}
    return {**asked, **(dict.fromkeys(note.names, note.compares) if note else {})}


def read(folder: FilesAt, begun: dict[str, Any]) -> Note | None:
    """Return the note, unless its chunks are among those of the load already."""
    note = read_as(files_in(folder), _NOTE, Note)
    return None if note is None or note.number == begun.get("reloads", 0) else note


class ReloadTracker:
    """The reloads of one source, one after the other (the pipeline's thread).

    Args:
        folder: The source's files.
        epochs: The descriptions of its tables.
        lines: The pipeline's log.

    Attributes:
        files: The source's files.
        note: The reload that is under way, until its load begins.
        is_applied: Whether its tables have their new descriptions; until then the stream must not run.
        is_drained: Whether everything from before it is planned.
    """

    def __init__(self, folder: FilesAt, epochs: Epochs, lines: Log) -> None:
        self.files = files_in(folder)
        self._epochs, self._lines = epochs, lines
        self.note: Note | None = None
        self.is_applied = self.is_drained = False
        self._failures, self._next_try = 0, 0.0

    def resume(self, begun: dict[str, Any]) -> None:
        """Go on with a reload that an earlier run began; the stream must not run."""
        self.note = read(self.files, begun)
        self.is_applied = self.is_drained = False
        if self.note is not None:
            self.apply()

    @property
    def before(self) -> int | None:
        """The epoch before which changes are planned, because tables are loaded again there; None: all are."""
        return self.note.epoch if self.note else None

    def wanted(self, load: int) -> tuple[str, ReloadRequest] | None:
        """Return the next request, if it is time to begin."""
        if self.note is not None or time.monotonic() < self._next_try:
            return None
        return next(iter(requests(self.files, load)), None)

    def begin(self, name: str, begun: dict[str, Any], beginning: ReloadStart, compares: bool = False) -> None:
        """Write down that tables are read again; the stream does not run.

        Args:
            name: The name of the request's file.
            begun: The load.
            compares: Whether their targets get the differences.
            beginning: Where the tables are loaded from.
        """
        before = {table.full_name: table for table in self._epochs.tables.values()}
        tables = [fitting(_since(table, beginning.start, begun["database"]), before) for table in beginning.tables]
        kept = {table.oid for table in tables if not table.stopped}
        epoch = self._epochs.number + 1
        more = {"epoch": epoch, "at": beginning.start - 1}
        chunks = [{**chunk, **more} for chunk in beginning.chunks if chunk["table"] in kept]
        note = Note(begun.get("reloads", 0) + 1, epoch, tables, chunks, name, compares)
        self.files.write(_NOTE, encoded(note))
        stop_at("reload.after-note")
        self._failures, self._next_try = 0, 0.0
        self.note, self.is_applied, self.is_drained = note, False, False
        for table in tables:
            if table.stopped:
                self._lines.warning(f"{table.full_name} cannot be read again: {table.stopped}", table=table.full_name)
            elif compares:
                self._lines.info(f"reads {table.full_name} again, to compare it", table=table.full_name)
            else:
                self._lines.info(f"loads {table.full_name} again: somebody has asked for it", table=table.full_name)

    def apply(self) -> None:
        """Give the tables their new descriptions, and remove the request."""
        assert self.note is not None
        note, epochs = self.note, self._epochs
        if epochs.number < note.epoch:
            replaced = _replaced(epochs.tables.values(), note.tables)
            unmark(self.files, {table.oid for table in note.tables} | replaced)
            epochs.add(note.tables, replaced)
        stop_at("reload.after-epoch")
        self.files.unpost([_path(note.request)])
        self.is_applied = True

    def failed(self, name: str, asked: ReloadRequest, error: CalveError) -> None:
        """Note why a request cannot be fulfilled, now or ever."""
        names = ", ".join(asked.tables)
        if error.verdict is not Verdict.AGAIN:
            self.files.unpost([_path(name)])
            self._lines.warning(f"{names} cannot be read again: {error.message}", hint=error.hint)
            return
        if not self._failures:
            self._lines.warning(f"{names} cannot be read again yet: {error.message}; tries again", hint=error.hint)
        self._next_try = time.monotonic() + delay(self._failures)
        self._failures += 1

    @property
    def condition(self) -> str:
        """What waits, for `calve status`; empty: nothing."""
        if self.note is None:
            return ""
        return f"{', '.join(self.note.names)}: {_WHAT[self.note.compares]} when everything from before is committed"

    @property
    def tables_to_empty(self) -> list[SourceTable] | None:
        """The tables whose rows are to be removed from their targets, once everything from before is planned."""
        return None if self.note is None or self.note.compares else self._drained

    @property
    def to_load_apart(self) -> list[SourceTable] | None:
        """The tables that are to be compared, once everything from before is planned."""
        return self._drained if self.note is not None and self.note.compares else None

    @property
    def _drained(self) -> list[SourceTable] | None:
        if self.note is None or not self.is_drained:
            return None
        return [table.source_table() for table in self.note.tables if not table.stopped]

    @property
    def to_keep(self) -> list[SourceTable]:
        """All other tables."""
        return self.to_keep_beside([])

    def to_keep_beside(self, oids: Collection[int]) -> list[SourceTable]:
        """Return all other tables, but some."""
        names = self.note.names if self.note else []
        tables = self._epochs.tables.values()
        others = [table for table in tables if table.full_name not in names and table.oid not in oids]
        return [table.source_table() for table in others if table.is_readable]

    def described(self, oids: Iterable[int]) -> list[SourceTable]:
        """Return tables as they are by now."""
        return [self._epochs.tables[oid].source_table() for oid in oids]

    @property
    def oids(self) -> list[int]:
        """The tables that are read again."""
        return [table.oid for table in self.note.tables if not table.stopped] if self.note else []

    def loading(self, begun: dict[str, Any], replaces: bool = False, refuses: bool = False) -> dict[str, Any]:
        """Return the load with the chunks of the tables at its end.

        Args:
            begun: The load until now.
            replaces: Whether rows may be in a target, which was not emptied.
            refuses: Whether the tables are not loaded at all.
        """
        assert self.note is not None
        now = {**begun, "reloads": self.note.number}
        if refuses:
            return now
        chunks, compares = begun["chunks"], self.note.compares
        more = {"replaces": True} if replaces else {APART: True} if compares else {}
        added = [*chunks, *({**chunk, **more} for chunk in self.note.chunks)]
        return {**now, "chunks": added, "first": len(chunks), "comparing": self.oids if compares else []}

    def finish(self) -> None:
        """Remove the note, because the load has the chunks."""
        self.files.remove([_NOTE])
        self.note, self.is_drained = None, False


def _since(table: DatabaseTable, start: int, database: str) -> DatabaseTable:
    return msgspec.structs.replace(table, since=start - 1, database=database, stopped="", is_dropped=False)


def _replaced(former: Iterable[DatabaseTable], tables: Sequence[DatabaseTable]) -> set[int]:
    """Return the numbers of tables that were dropped and created again, under which the new ones were not known."""
    now = {table.full_name: table.oid for table in tables}
    return {table.oid for table in former if now.get(table.full_name, table.oid) != table.oid}
