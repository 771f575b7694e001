"""Files that grow: whole events, in batches that read the same again."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from calve.errors import SourceError
from calve.sources.file import source
from calve.sources.file.tail import followed
from calve.sources.source import StartPosition
from calve.state.local_folder import LocalFolder
from calve.state.store_folder import StoreFolder
from sources.file.tail.world import ALL, STACKS, Tail, append, old


def test_the_last_event_of_several_lines_waits_for_the_next_or_for_flush_after(log: Path) -> None:
    log.write_text("1 first\n at a\n at b\n2 second\n")
    tail = Tail(log.parent, codec=STACKS, flush_after=timedelta(minutes=1))
    assert tail.rows() == [("1 first\n at a\n at b", "app.log", 1)]
    append(log, " at c\n3 ")
    assert tail.lines() == []
    append(log, "third\n")
    assert tail.start().rows() == [("2 second\n at c", "app.log", 4)]
    old(log)
    assert tail.rows() == [("3 third", "app.log", 6)]


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_the_last_event_of_several_lines_waits_as_long_whatever_is_done_to_the_clock(
    log: Path, jump: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, day, passed = time.monotonic, time.time, 0.0
    monkeypatch.setattr(time, "monotonic", lambda: clock() + passed)
    tail = Tail(log.parent, codec=STACKS, flush_after=timedelta(minutes=1))
    append(log, "1 first\n at a\n")
    assert tail.lines() == []
    monkeypatch.setattr(time, "time", lambda: day() + jump)
    assert tail.lines() == []
    passed = 61.0
    assert tail.lines() == ["1 first\n at a"]


def test_events_of_several_lines_are_whole_however_a_file_is_divided(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed, "PIECE_BYTES", 50)
    events = [f"{number} event\r\n" + f" at line {number}\r\n" * (number % 7) for number in range(100)]
    log.write_text("".join(events), newline="")
    tail = Tail(log.parent, codec=STACKS, flush_after=timedelta(0))
    assert tail.lines(200) == [event.replace("\r\n", "\n").removesuffix("\n") for event in events]


def test_a_large_file_is_divided_over_batches_and_splits(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed, "PIECE_BYTES", 100)
    log.write_text("".join(f"line {number}\n" for number in range(1000)))
    tail = Tail(log.parent)
    first = tail.plan(1000)
    assert first
    assert len(first.splits) > 5
    assert first.waiting
    assert tail.read(first) + tail.rows(1000) == [(f"line {n}", "app.log", n + 1) for n in range(1000)]


def test_a_line_that_is_longer_than_a_batch_is_read(log: Path) -> None:
    lines = ["x" * 200_000, "y" * 100_000, "z"]
    log.write_text("\n".join(lines) + "\n")
    assert Tail(log.parent).lines(10) == lines


@pytest.mark.parametrize("place", [LocalFolder, lambda folder: StoreFolder(f"memory://{folder.name}")])
def test_a_planned_batch_reads_the_same_after_its_file_was_cut_and_removed(
    log: Path, place: Callable[[Path], Any]
) -> None:
    log.write_text("a\nb\n")
    tail = Tail(log.parent)
    tail.source = source.open(tail.settings, place(log.parent / "state2"), "p")
    tail.source.start(None, False)
    planned = tail.plan()
    assert planned
    assert tail.source.plan(None, ALL) == planned
    expected = tail.read(planned)
    log.write_text("")
    log.unlink()
    again = source.open(tail.settings, place(log.parent / "state2"), "p")
    again.start(planned.position, False, [planned])
    tail.source = again
    assert tail.read(planned) == expected
    assert [message for message, _, _ in expected] == ["a", "b"]
    again.acknowledge(planned)
    with pytest.raises(SourceError, match="are gone"):
        tail.read(planned)


def test_what_a_killed_run_set_aside_and_did_not_record_is_removed(log: Path) -> None:
    log.write_text("a\n")
    tail = Tail(log.parent)
    planned = tail.source.plan(None, ALL)
    assert planned
    spools = lambda: [file.name for file in (log.parent / "state" / "tail").iterdir()]  # noqa: E731
    assert len(spools()) == 1
    assert tail.start().lines() == ["a"]
    assert spools() == []


def test_start_position_end_leaves_what_was_there_out_even_after_a_kill(log: Path) -> None:
    log.write_text("a\nb\nun")
    tail = Tail(log.parent, "*.log", start_position="end")
    assert tail.lines() == []
    append(log, "finished\n")
    log.with_name("b.log").write_text("new\n")
    assert tail.start().rows() == [("unfinished", "app.log", None), ("new", "b.log", 1)]


def test_a_lost_state_begins_where_it_is_told(log: Path) -> None:
    log.write_text("a\n")
    tail = Tail(log.parent, "*.log")
    before = log.with_name("b.log")
    before.write_text("b\n")
    old(before)
    at = int(log.stat().st_mtime * 1000) - 60_000
    for beginning, expected in (
        (StartPosition(at="earliest"), ["b", "a"]),
        (StartPosition(at="latest"), []),
        (StartPosition(timestamp_ms=at), ["a"]),
    ):
        tail.position = tail.source.begin_at(beginning)
        assert tail.start().lines() == expected
