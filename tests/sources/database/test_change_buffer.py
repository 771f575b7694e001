"""Changes are collected while the entry before becomes durable, and none is taken for durable too early."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from calve.sources.database import change_buffer as buffers
from calve.sources.database.change_buffer import ChangeBuffer
from calve.sources.database.stream_position import Transaction
from calve.sources.log.tail import Tail
from sources.database.test_transactional import Opened, opened


class Disk:
    """Writes of the log, which wait until the disk is let go, and fail as long as it is broken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free, self.is_broken = threading.Event(), False
        write = Tail.write

        def waiting(tail: Tail, data: bytes) -> None:
            assert self.free.wait(30)
            if self.is_broken:
                raise OSError(errno.EIO, "broken")
            write(tail, data)

        monkeypatch.setattr(Tail, "write", waiting)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    found = Disk(monkeypatch)
    yield found
    found.free.set()


def add(log: Opened, commit: int, ordinal: int) -> ChangeBuffer:
    log.buffer.add(b"x", Transaction(commit, 0, ""), ordinal)
    return log.buffer


def test_more_is_collected_while_an_entry_becomes_durable_and_it_is_not_durable_before(
    tmp_path: Path, disk: Disk
) -> None:
    with opened(tmp_path, is_on=False) as log:
        add(log, 5, 1).hand_over(0, log._refuse)
        assert log.buffer, "it is under way"
        assert log.log.positions.last.order == (0, 0)
        add(log, 5, 2)
        disk.free.set()
        log.buffer.write(0, log._refuse)
        assert not log.buffer
        assert log.log.positions.last.order == (5, 2)
        assert log.rows(log.log.next(None, 1 << 20)) == 2


def test_what_is_handed_over_waits_for_what_was_handed_over_before(tmp_path: Path, disk: Disk) -> None:
    with opened(tmp_path, is_on=False) as log:
        add(log, 5, 1).hand_over(0, log._refuse)
        threading.Timer(0.1, disk.free.set).start()
        add(log, 5, 2).hand_over(0, log._refuse)
        assert log.log.positions.last.order >= (5, 1)


def test_after_a_cut_the_position_tells_what_was_under_way_and_the_rest_comes_again(tmp_path: Path, disk: Disk) -> None:
    with opened(tmp_path, is_on=False) as log:
        add(log, 5, 1).hand_over(0, log._refuse)
        add(log, 5, 2)
        threading.Timer(0.1, disk.free.set).start()
        log.buffer.clear()
        assert not log.buffer
        assert log.log.positions.last.order == (5, 1)
        log.changes(5, 2)
        assert log.rows(log.log.next(None, 1 << 20)) == 2


def test_an_entry_that_failed_and_is_forgotten_leaves_the_begin_of_an_epoch_to_the_next_one(
    tmp_path: Path, disk: Disk
) -> None:
    disk.free.set()
    with opened(tmp_path, is_on=False) as log:
        log.changes(5, 1)
        log.begin_epoch()
        disk.is_broken = True
        add(log, 7, 1).hand_over(1, log._refuse)
        log.buffer.clear()
        disk.is_broken = False
        log.changes(7, 1)
        assert log.rows(log.log.next(None, 1 << 20, before=1)) == 1


def test_where_batches_end_with_transactions_an_entry_is_durable_when_it_is_handed_over(
    tmp_path: Path, disk: Disk
) -> None:
    disk.free.set()
    with opened(tmp_path) as log:
        add(log, 5, 1).hand_over(0, log._refuse)
        assert log.log.positions.last.order == (5, 1)


def test_an_entry_becomes_larger_while_the_one_before_is_not_durable(
    tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "_ENTRY_SECONDS", 60.0)
    monkeypatch.setattr(buffers, "_ENTRY_ROWS", 2)
    with opened(tmp_path, is_on=False) as log:
        for ordinal in (1, 2):
            add(log, 5, ordinal)
        assert log.buffer.is_full
        log.buffer.hand_over(0, log._refuse)
        for ordinal in range(3, 18):
            add(log, 5, ordinal)
        assert not log.buffer.is_full
        add(log, 5, 18)
        assert log.buffer.is_full
        disk.free.set()
        log.buffer.write(0, log._refuse)
        assert log.rows(log.log.next(None, 1 << 20)) == 18
