"""Batches of whole transactions, planned from a log on disk, without a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from calve.errors import SourceError
from calve.sources.database import change_buffer as buffers
from calve.sources.database.change_buffer import ChangeBuffer
from calve.sources.database.change_log import ChangeLog
from calve.sources.database.settings import DatabaseSettings
from calve.sources.database.stream_position import StreamPosition, Transaction
from calve.sources.log.log import AppendOutcome
from calve.sources.log.records import records
from calve.sources.source import Planned, Position
from calve.state.local_folder import LocalFolder


class Opened:
    """A log, and the stream that writes it."""

    def __init__(self, folder: Path, is_on: bool, at: Position | None, **more: int) -> None:
        settings = DatabaseSettings(host="h", username="u", transactional=is_on, min_free_bytes=0, **more)
        self.folder, self.epoch, self.refused = LocalFolder(folder), 0, 0
        self.log = ChangeLog(self.folder, settings, "p")
        self.log.open(at)
        self.buffer: ChangeBuffer = self.log.buffer()

    def changes(self, commit: int, *ordinals: int, size: int = 10) -> None:
        """Write changes of a transaction as an entry."""
        for ordinal in ordinals:
            self.buffer.add(b"x" * size, Transaction(commit, 0, ""), ordinal)
        self.buffer.write(self.epoch, self._refuse)

    def end(self, commit: int) -> None:
        self.buffer.end(Transaction(commit, 0, ""))
        if self.buffer:
            self.buffer.write(self.epoch, self._refuse)

    def begin_epoch(self) -> None:
        self.epoch += 1
        self.buffer.begin_epoch()

    def whole(self, commit: int, *ordinals: int) -> None:
        """Write a transaction that ends while its last changes wait."""
        for ordinal in ordinals:
            self.buffer.add(b"x", Transaction(commit, 0, ""), ordinal)
        self.end(commit)

    def rows(self, planned: Planned | None) -> int:
        assert planned is not None
        return sum(head.rows for split in planned.splits for head, _ in records(self.folder, split))

    def _refuse(self, outcome: AppendOutcome, why: str) -> None:
        self.refused += 1
        assert self.refused < 3, why


@contextmanager
def opened(folder: Path, is_on: bool = True, at: Position | None = None, **more: int) -> Iterator[Opened]:
    log = Opened(folder, is_on, at, **more)
    try:
        yield log
    finally:
        log.log.close()


def test_a_transaction_is_planned_when_its_end_is_durable_also_by_another_run(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.whole(5, 1)
        log.changes(7, 1, 2)
        first = log.log.next(None, 1 << 20)
        assert first is not None
        assert log.rows(first) == 1
        assert log.log.next(first.position, 1 << 20) is None
        assert not log.log.backlog(first.position)
    with opened(tmp_path, at=first.position) as log:  # the server sends it again
        assert log.log.is_open
        assert log.log.next(first.position, 1 << 20) is None
        log.end(5)
        assert log.log.next(first.position, 1 << 20) is None, "the end of another transaction"
        log.changes(7, 3)
        log.end(7)
        assert not log.log.is_open
        assert log.rows(log.log.next(first.position, 1)) == 3
    with opened(tmp_path, at=first.position) as log:
        assert not log.log.is_open
        assert log.rows(log.log.next(first.position, 1)) == 3
        assert log.rows(log.log.next(None, 1)) == 1
        assert log.rows(log.log.next(None, 1 << 20)) == 4


def test_without_the_option_nothing_is_noted_and_parts_are_planned(tmp_path: Path) -> None:
    with opened(tmp_path, is_on=False) as log:
        log.changes(7, 1, 2)
        assert log.rows(log.log.next(None, 1 << 20)) == 2
        log.end(7)
        assert log.log.backlog(None).rows == 2
        assert log.log.positions.last == StreamPosition(0, 7, 2)
    with opened(tmp_path) as log:  # what was written before the option was set is planned as it was
        assert log.rows(log.log.next(None, 1 << 20)) == 2


def test_a_part_that_was_written_with_the_option_is_planned_without_it(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.changes(7, 1, 2)
        assert log.log.next(None, 1) is None
    with opened(tmp_path, is_on=False) as log:
        assert log.rows(log.log.next(None, 1)) == 2


def test_a_transaction_of_several_epochs_is_one_batch_and_others_have_one_epoch(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.whole(5, 1)
        log.changes(7, 1)
        log.begin_epoch()
        log.changes(7, 2)
        log.begin_epoch()
        log.changes(7, 3, 4)
        log.end(7)
        log.whole(9, 1)
        log.begin_epoch()
        log.whole(11, 1, 2, 3)
        first = log.log.next(None, 1 << 20)
        assert log.rows(first) == 1
        assert first is not None
        assert "epochs" not in first.splits[0].body
        second = log.log.next(first.position, 1 << 20)
        assert second is not None
        assert [split.body["epochs"] for split in second.splits] == [[0, 2]] * 3
        assert log.rows(second) == 4
        third = log.log.next(second.position, 1 << 20)
        assert third is not None
        assert log.rows(third) == 1
        fourth = log.log.next(third.position, 1 << 20)
        assert log.rows(fourth) == 3
        assert fourth is not None
        assert not any("epochs" in one.splits[0].body for one in (third, fourth))


def test_an_epoch_of_a_reload_ends_a_batch(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.whole(5, 1)
        log.begin_epoch()
        log.whole(7, 1, 2)
        before = log.log.next(None, 1 << 20, before=1)
        assert before is not None
        assert log.rows(before) == 1
        assert log.log.next(before.position, 1 << 20, before=1) is None


def test_a_transaction_larger_than_the_log_is_an_error_when_all_before_it_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "_WAIT_SECONDS", 0.05)
    most = 1 << 20
    with opened(tmp_path, max_log_bytes=most) as log:
        log.whole(5, *range(1, 200))
        for ordinal in range(1, 9):
            log.changes(7, ordinal, size=100_000)
        first = log.log.next(None, most)
        assert first is not None
        with pytest.raises(AssertionError, match="full"):  # it waits: what comes before is not committed
            log.changes(7, 9, size=300_000)
        log.buffer.clear()
        log.log.release(first.position)
        log.refused = 0
        with pytest.raises(SourceError, match="does not fit in the log of changes: more than 78") as raised:
            log.changes(7, 9, size=300_000)
        assert "max_log_bytes (1.0 MiB)" in (raised.value.hint or "")
    with opened(tmp_path, at=first.position, max_log_bytes=2 * most) as log:
        log.changes(7, 9, size=300_000)
        log.end(7)
        assert log.rows(log.log.next(first.position, 1)) == 9


def test_changes_wait_for_others_of_their_entry_but_a_moment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, is_on=False) as stream:
        assert not stream.buffer.is_full, "there is nothing to write"
        monkeypatch.setattr(buffers, "_ENTRY_SECONDS", 60.0)
        stream.buffer.add(b"x", Transaction(1, 0, ""), 1)
        assert not stream.buffer.is_full
        monkeypatch.setattr(buffers, "_ENTRY_SECONDS", -1.0)
        stream.buffer.add(b"x", Transaction(2, 0, ""), 1)
        assert stream.buffer.is_full
        stream.changes(3, 1)
        assert not stream.buffer.is_full, "all are written"
