"""The newest dead letters of a pipeline that wait, in bounded time: a queue of any length costs the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from calve.dead_letters.reader import DeadLetter, LetterStore, entries, locations_of, stores_at
from calve.dead_letters.replay.replayed import Spans, replayed_entries
from calve.dead_letters.table import LetterTable
from calve.errors import CalveError
from calve.observe.humanize import harmless
from calve.observe.state_folder import Folder

__all__ = ["Example", "NewestRejects", "newest"]

MOST_ENTRIES = 500
MOST_FILES = 20
MOST_ENTRY_BYTES = 4 << 20
"""Longer files are read up to here."""
MOST_SHOWN_BYTES = 2_000
_EXAMPLES = 20


@dataclass(frozen=True)
class Example:
    """Dead letters of one table, code, field and reason: how many, and the newest of them, harmless to print."""

    time: str
    table: str
    code: str
    field: str
    reason: str
    event: str
    size_bytes: int
    count: int = 1


@dataclass
class NewestRejects:
    """What the newest dead letters have in common.

    Attributes:
        looked_at: How many events were rejected in the entries that were read.
        fields: How many of them have which field as the reason, by code and field.
        examples: Some of them, one for each reason, with how many have it.
        notes: What was not read, and why.
    """

    looked_at: int = 0
    fields: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: list[Example] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def newest(state: str, pipeline: str, code: str = "", table: str = "") -> NewestRejects:
    """Return the newest dead letters of a pipeline that wait for a replay.

    Args:
        state: The state folder.
        pipeline: The pipeline.
        code: Only this code.
        table: Only this table.
    """
    rejects = NewestRejects()
    try:
        stores = stores_at(locations_of(state, pipeline))
        replayed = replayed_entries(state, pipeline)
    except CalveError as error:
        rejects.notes.append(str(error))
        return rejects
    chosen = (
        letter for store in stores for letter in _entries(store, replayed, rejects.notes) if letter.is_of(pipeline)
    )
    groups: dict[tuple[str | None, ...], Example] = {}
    for entry in islice(chosen, MOST_ENTRIES):
        rejects.looked_at += entry.count
        if (code and entry.code != code) or (table and entry.table != table):
            continue
        rejects.fields[entry.code, entry.field or ""] += entry.count
        key = entry.table, entry.code, entry.field, entry.reason
        if key in groups:
            groups[key] = replace(groups[key], count=groups[key].count + entry.count)
        elif len(groups) < _EXAMPLES:
            groups[key] = replace(_example(entry), count=entry.count)
    rejects.examples = list(groups.values())
    return rejects


def _entries(store: LetterStore, replayed: Spans, notes: list[str]) -> Iterator[DeadLetter]:
    """Yield entries, the newest file first."""
    if not isinstance(store, Folder):
        kind = "table" if isinstance(store, LetterTable) else "topic"
        notes.append(f"The dead letters in the {kind} {store.path} are shown by calve dlq show")
        return
    try:
        infos = sorted(store.file_infos(), key=lambda info: -(info.mtime_ns or 0))
    except OSError as error:
        notes.append(harmless(f"The dead letters in {store.path} cannot be read: {error}"))
        return
    names = [str(info.base_name) for info in infos if str(info.base_name).endswith(".ndjson")]
    if len(names) > MOST_FILES:
        notes.append(f"Only the newest {MOST_FILES} of {len(names):,} files are shown; calve dlq show has all")
    for name in names[:MOST_FILES]:
        try:
            yield from _of_file(store, name, replayed)
        except CalveError as error:
            notes.append(str(error))


def _of_file(store: LetterStore, name: str, replayed: Spans) -> Iterator[DeadLetter]:
    for entry in entries(store, name):
        if isinstance(entry.content, DeadLetter) and not replayed.has(name, entry.start):
            yield entry.content
        if entry.end > MOST_ENTRY_BYTES:
            return


def _example(entry: DeadLetter) -> Example:
    event = entry.original()
    text = event[:MOST_SHOWN_BYTES].decode(errors="backslashreplace")
    return Example(
        time=harmless(entry.time()),
        table=harmless(entry.table or ""),
        code=harmless(entry.code),
        field=harmless(entry.field or ""),
        reason=harmless(entry.reason or ""),
        event=harmless(text) + ("…" if len(event) > MOST_SHOWN_BYTES else ""),
        size_bytes=len(event),
    )
