from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from calve.settings import Size
from calve.sources.http.body import split
from calve.sources.http.keys import KeyStore
from calve.sources.log import segment
from calve.sources.log.index import SegmentIndex
from calve.sources.log.log import AppendOutcome, Journal, JournalEntry, JournalLimits
from calve.state.local_folder import LocalFolder
from sources.http.serving import Serve, Serving, until
from sources.http.test_keys import DAY


class Kept:
    """A log without a server, and what it answered."""

    def __init__(self, folder: Path, segment_bytes: int = 128 << 20, log_bytes: int = 1 << 40) -> None:
        self.index = SegmentIndex(LocalFolder(folder))
        self.index.load(None)
        self.answered: list[JournalEntry] = []
        self.log = Journal(
            LocalFolder(folder),
            self.index,
            KeyStore(LocalFolder(folder), DAY, 100),
            JournalLimits(log_bytes, 0, segment_bytes),
        )
        self.log.open(self.answered.extend)

    def keep(self, *sizes: int) -> list[AppendOutcome | None]:
        """Hand in entries of about so many bytes and wait for their outcomes."""
        entries = [JournalEntry(split(json.dumps([{"a": "x" * size}]).encode())) for size in sizes]
        for entry in entries:
            self.log.submit(entry)
        until(lambda: all(entry in self.answered for entry in entries))
        return [entry.outcome for entry in entries]


@pytest.fixture
def disk() -> Iterator[Path]:
    """A disk of 4 MiB, where the system lets us have one."""
    folder = Path("/dev/shm") / f"calve-test-{os.getpid()}"
    if os.name != "posix" or not hasattr(os, "geteuid") or os.geteuid() != 0 or not folder.parent.is_dir():
        pytest.skip("needs root and Linux for a small disk")
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "calve", folder], capture_output=True)
    if mounted.returncode:
        folder.rmdir()
        pytest.skip("this system mounts nothing")
    yield folder
    subprocess.run(["umount", folder], check=True)
    folder.rmdir()


def test_segments_are_bounded_and_a_request_spans_no_two(tmp_path: Path) -> None:
    kept = Kept(tmp_path, segment_bytes=10_000)
    for _ in range(10):
        kept.keep(4_000)
    kept.keep(30_000)
    kept.keep(10)
    kept.log.close()
    found = SegmentIndex(LocalFolder(tmp_path))
    found.load(None)
    assert [each.rows for each in found.segments] == [2, 2, 2, 2, 2, 1, 1]
    assert all(each.end <= 10_000 for each in found.segments if each.rows == 2)


def test_what_no_longer_fits_the_log_is_refused_and_smaller_ones_still_taken(tmp_path: Path) -> None:
    kept = Kept(tmp_path, log_bytes=10_000)
    assert kept.keep(20_000, 5_000, 8_000, 1_000) == [
        AppendOutcome.FULL,
        AppendOutcome.KEPT,
        AppendOutcome.FULL,
        AppendOutcome.KEPT,
    ]
    kept.log.close()


def test_a_withdrawn_entry_is_not_written(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    entry = JournalEntry(split(b'[{"a":1}]'))
    with kept.log._wake:
        kept.log.submit(entry)
        assert kept.log.withdraw(entry)
    assert not kept.log.withdraw(entry)
    kept.keep(1)
    kept.log.close()
    assert kept.index.backlog(None).rows == 1


@pytest.mark.parametrize(("code", "status"), [(errno.ENOSPC, 429), (errno.EDQUOT, 429), (errno.EIO, 503)])
@pytest.mark.parametrize("call", ["pwrite", "sync"])
def test_a_failing_disk_refuses_and_goes_on_when_it_is_well(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, call: str, code: int, status: int
) -> None:
    serving = serve()
    assert serving.post([{"a": 1}]) == 200

    real = os.pwrite

    def half(descriptor: int, data: bytes, at: int) -> int:
        if len(data) < 40:
            raise OSError(code, "the disk says no")
        return real(descriptor, data[: len(data) // 2], at)

    def fail(descriptor: int) -> None:
        raise OSError(code, "the disk says no")

    with monkeypatch.context() as patch:
        patch.setattr(
            "calve.sources.log.tail.os.pwrite" if call == "pwrite" else "calve.sources.log.tail._sync",
            half if call == "pwrite" else fail,
        )
        answer = serving.send("POST", "/log/ingest", json.dumps([{"a": 2}]))
    assert answer[0] == status
    assert answer[2]["retry-after"] == "5"
    assert serving.post([{"a": 3}]) == 200
    assert serving.events() == [{"a": 1}, {"a": 3}]
    serving.source.stop()
    assert serve(once=True).events() == [{"a": 1}, {"a": 3}]


def test_a_tail_that_cannot_be_cut_off_is_written_over_by_nobody(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    serving = serve()

    def fail(*arguments: object) -> None:
        raise OSError(errno.EIO, "the disk says no")

    with monkeypatch.context() as patch:
        patch.setattr("calve.sources.log.tail._sync", fail)
        patch.setattr("calve.sources.log.tail.os.ftruncate", fail)
        assert serving.post([{"a": 1}]) == 503
        patch.setattr("calve.sources.log.tail._sync", os.fsync)
        assert serving.post([{"a": 2}]) == 503
    assert serving.post([{"a": 3}]) == 200
    assert serving.events() == [{"a": 3}]


def test_a_full_disk_is_429_and_the_source_goes_on_when_there_is_room_again(disk: Path) -> None:
    ballast = disk / "ballast"
    serving = Serving(disk / "http", min_free_bytes=Size(0))
    try:
        assert serving.post([{"a": "first"}]) == 200
        ballast.write_bytes(b"x" * (3 << 20))
        statuses = {serving.post([{"a": "x" * 300_000}]) for _ in range(6)}
        assert statuses == {200, 429}
        ballast.unlink()
        assert serving.post([{"a": "last"}]) == 200
        events = serving.events()
        assert events[0] == {"a": "first"}
        assert events[-1] == {"a": "last"}
        assert len(events) == serving.source.backlog(None).rows
    finally:
        serving.source.stop()


def test_a_segment_that_cannot_be_created_leaves_the_old_one_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept(tmp_path, segment_bytes=1000)
    kept.keep(900)

    def fail(folder: Path, number: int, previous_end: int) -> int:
        raise OSError(errno.ENOSPC, "the disk says no")

    with monkeypatch.context() as patch:
        patch.setattr(segment, "create", fail)
        assert kept.keep(900) == [AppendOutcome.FULL]
    assert kept.keep(900) == [AppendOutcome.KEPT]
    kept.log.close()
    assert kept.index.backlog(None).rows == 2
