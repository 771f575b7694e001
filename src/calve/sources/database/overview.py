"""What is replicated, and the state of each table: read from the source's folder, also while it runs."""

from __future__ import annotations

from typing import Any

from calve.errors import SourceError
from calve.sources.database import full_reload, reload
from calve.sources.database.epochs import Epochs
from calve.sources.database.stopped import marked
from calve.sources.database.table import DatabaseTable
from calve.sources.source_files import FilesAt, encoded, files_in, read_json

__all__ = ["load_of", "note", "states"]

_BEGUN, _COMMITTED = "begun.json", "committed.json"
_WAITING = {False: "waiting: it is loaded again", True: "waiting: it is read again and compared"}


def note(folder: FilesAt, chunk: int) -> None:
    """Write down how many chunks of the load are committed."""
    files_in(folder).write(_COMMITTED, encoded(chunk))


def load_of(folder: FilesAt) -> int:
    """Return the number of the load.

    Raises:
        SourceError: None has begun.
    """
    return int(_begun(folder).get("load", 0))


def states(folder: FilesAt) -> list[tuple[str, str]]:
    """Return the tables, sorted by name, and the state of each.

    Raises:
        SourceError: No load has begun.
    """
    folder = files_in(folder)
    begun, epochs = _begun(folder), Epochs(folder)
    epochs.load()
    load = begun.get("load", 0)
    starts_over = full_reload.read(folder, load) is not None or full_reload.is_requested(folder, load)
    waiting = reload.waiting(folder, begun)
    committed, unreadable = int(read_json(folder, _COMMITTED) or 0), marked(folder)
    chunks: dict[int, list[tuple[bool, int]]] = {}
    for number, chunk in enumerate(begun["chunks"]):
        if number == begun.get("first", 0):
            chunks = {}  # all before are committed
        chunks.setdefault(chunk["table"], []).append((number < committed, chunk["bytes"]))
    by_name = {name: _WAITING[compares] for name, compares in waiting.items()}
    for table in epochs.tables.values():
        if starts_over:
            by_name[table.full_name] = "waiting: all tables are loaded again"
        elif table.full_name not in waiting:
            chunks_of = chunks.get(table.oid, [])
            state = _state(table, chunks_of, unreadable.get(table.oid, ""))
            is_compared = state == "streaming" and table.oid in begun.get("comparing", [])
            by_name[table.full_name] = _WAITING[True] if is_compared else state
    return sorted(by_name.items())


def _state(table: DatabaseTable, chunks: list[tuple[bool, int]], unreadable: str) -> str:
    if why := table.stopped or unreadable:
        return f"stopped: {why}"
    if table.is_dropped:
        return "dropped in the database; its rows stay"
    if all(is_committed for is_committed, _ in chunks):
        return "streaming"
    done = sum(size for is_committed, size in chunks if is_committed)
    if not done:
        return "waiting"
    return f"loading, {100 * done // sum(size for _, size in chunks)} %"


def _begun(folder: FilesAt) -> dict[str, Any]:
    begun: dict[str, Any] | None = read_json(files_in(folder), _BEGUN)
    if begun is None:
        raise SourceError(
            "no load of this source has begun",
            step="observe",
            hint="Run the pipeline first, or set --state to its state folder",
        )
    return begun
