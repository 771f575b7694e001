"""Bad events do not fill the disk: reading stops before."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from calve.dead_letters import room as room_module
from calve.dead_letters.room import Room, RoomLimits
from calve.dead_letters.settings import FolderDeadLetters, limits, prefix
from calve.errors import Verdict, WriteError
from calve.settings import Size

RECORDED: list[tuple[int, bool]] = []


@pytest.fixture(autouse=True)
def _nothing_recorded() -> None:
    RECORDED.clear()


def record(size_bytes: int, is_full: bool) -> None:
    RECORDED.append((size_bytes, is_full))


def test_reading_stops_at_the_size_and_goes_on_when_files_are_moved_away(tmp_path: Path) -> None:
    clock = [0.0]
    room = Room({str(tmp_path): RoomLimits(1000, 0)}, lambda: clock[0])
    room.check(record)
    (tmp_path / "1.ndjson").write_bytes(b"x" * 1000)
    clock[0] += 60
    with pytest.raises(WriteError, match=r"Nothing more is read: .*max_bytes") as full:
        room.check(record)
    assert full.value.verdict is Verdict.AGAIN
    assert "calve dlq list" in full.value.hint
    (tmp_path / "1.ndjson").unlink()
    clock[0] += 60
    room.check(record)
    assert RECORDED == [(0, False), (1000, True), (0, False)]


def test_reading_stops_before_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room({str(tmp_path / "not" / "yet"): RoomLimits(1000, 500)})
    monkeypatch.setattr(room_module.shutil, "disk_usage", lambda _: SimpleNamespace(free=499, total=10_000))
    with pytest.raises(WriteError, match="of free space"):
        room.check(record)
    assert RECORDED[-1][1]
    monkeypatch.setattr(room_module.shutil, "disk_usage", lambda _: SimpleNamespace(free=500, total=10_000))
    room.check(record)


def test_the_folder_is_not_listed_for_every_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []
    monkeypatch.setattr(room_module, "_size", lambda location: listed.append(location) or 0)
    room = Room({str(tmp_path): RoomLimits()}, lambda: 1.0)
    for _ in range(100):
        room.check(record)
    assert len(listed) == 1


def test_a_map_has_a_location_or_limits() -> None:
    assert limits(None) == limits("folder") == RoomLimits()
    found = FolderDeadLetters(max_bytes=Size(1 << 20))
    assert (limits(found).max_bytes, prefix(found)) == (1 << 20, None)
    assert prefix(FolderDeadLetters(path="s3://bucket/dead")) == "s3://bucket/dead"
    assert list(FolderDeadLetters().check())
