"""Inserts replace rows as long as the load may be read again, under a later snapshot that has their rows."""

from __future__ import annotations

from pathlib import Path

from calve.sources.database import awaited
from calve.sources.postgres import source
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.source import LOADED, Planned, Split
from calve.sources.tables import Tables
from calve.state.local_folder import LocalFolder
from calve.state.values import encoded

SETTINGS = PostgresSettings(host="h", database="d", username="u", tables=Tables(include=["a.*"]))
CHANGES = Planned([Split({"file": "000000000001.log", "start": 0, "end": 9})], {"segment": 1, "offset": 9})
UNTIL = 4711


def test_changes_that_are_planned_before_the_load_is_committed_replace_rows_wherever_the_snapshot_ends(
    tmp_path: Path, monkeypatch
) -> None:
    opened = source.open(SETTINGS, LocalFolder(tmp_path), "p")
    LocalFolder(tmp_path).put("snapshot.json", encoded(["x", UNTIL]))
    opened._phases.parts.load.begun = {"chunks": [{"table": 1, "bytes": 1}]}
    monkeypatch.setattr(opened._phases.parts.log, "next", lambda *_: CHANGES)

    def until() -> int:
        [split] = opened.plan({"chunk": 1}, 1 << 20).splits
        return split.body["until"]

    assert until() > 1 << 62
    opened.acknowledge(Planned([], {"chunk": 1}))
    assert until() == UNTIL


class Stream:
    """A stream that has reached its end after some looks at the log; None: never."""

    failed = trouble = None

    def __init__(self, looks: int | None) -> None:
        self._left = looks

    @property
    def reached(self) -> bool:
        self._left = None if self._left is None else self._left - 1
        return self._left is not None and self._left < 0


def once(folder: Path, monkeypatch, looks: int | None, found: list[Planned | None]) -> Planned | None:
    """Return what a run with `once` plans, while the log has more and more changes."""
    opened = source.open(SETTINGS, LocalFolder(folder), "p")
    phases = opened._phases
    phases.parts.once, phases.following._stream, phases.parts.load.is_done = True, Stream(looks), True
    monkeypatch.setattr(opened._phases.parts.log, "next", lambda *_: found.pop(0) if len(found) > 1 else found[0])
    return opened.plan({"chunk": 0}, 1 << 30)


def planned(size_bytes: int) -> Planned:
    return Planned([Split(CHANGES.splits[0].body, size_bytes)], CHANGES.position)


def test_few_changes_wait_for_more_because_each_batch_of_changes_is_a_snapshot(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(awaited, "_WORTH_SECONDS", 60.0)
    found = once(tmp_path, monkeypatch, None, [None, planned(9), planned(99), planned(20 << 20), planned(40 << 20)])
    assert found is not None
    assert found.splits[0].size_bytes == 20 << 20


def test_few_changes_do_not_wait_for_long(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(awaited, "_WORTH_SECONDS", 0.0)
    found = once(tmp_path, monkeypatch, None, [None, planned(9), planned(20 << 20)])
    assert found is not None
    assert found.splits[0].size_bytes == 9


def test_few_changes_do_not_wait_at_the_end_of_the_stream(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(awaited, "_WORTH_SECONDS", 60.0)
    found = once(tmp_path, monkeypatch, 2, [planned(9)])
    assert found is not None
    assert found.splits[0].size_bytes == 9
    assert once(tmp_path, monkeypatch, 0, [None]) is None


def test_the_rows_of_a_chunk_are_alike(tmp_path: Path) -> None:
    opened = source.open(SETTINGS, LocalFolder(tmp_path), "p")
    opened._phases.parts.load.begun = {"chunks": [{"table": 1, "bytes": 1}]}
    [chunk] = opened.plan({"chunk": 0}, 1).splits
    assert "chunk" in chunk.body
    assert chunk.body[LOADED]
