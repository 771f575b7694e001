"""What the operating system refuses: some of it may pass, some of it lasts until somebody changes something."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from calve.errors import SetupError, Verdict, WriteError
from calve.sources.log import segment
from calve.sources.source_files import LocalFiles
from calve.state import durable
from calve.state.local_folder import LocalFolder


@pytest.mark.parametrize("inner", ["", "new", "new/folder"])
def test_a_folder_that_was_tried_is_as_it_was(tmp_path: Path, inner: str) -> None:
    durable.try_folder(tmp_path / inner)
    assert list(tmp_path.iterdir()) == []


def test_folders_that_threads_try_at_once_are_as_they_were(tmp_path: Path) -> None:
    folders = [tmp_path / "a" / "b", tmp_path / "a", tmp_path / "a" / "c"] * 200
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(durable.try_folder, folders))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", ["file", "file/folder", "/proc/calve/folder"])
def test_a_folder_that_can_never_be_written_is_an_error_of_the_set_up(tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="cannot be written") as refused:
        durable.try_folder(tmp_path / folder)
    assert refused.value.verdict is Verdict.ASK
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_keeps_what_it_has_and_takes_more_when_there_is_room(small_disk: Path) -> None:
    disk = LocalFolder(small_disk)
    disk.put("head.json", b"1")
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(bytes(1024))
            file.flush()
    for write in (
        lambda: disk.put("head.json", b"x" * 9_000),
        lambda: disk.create("new.json", b"x" * 9_000),
        lambda: LocalFiles(disk / "source").write("a", b"x" * 9_000),
    ):
        with pytest.raises(WriteError, match="Make room there") as full:
            write()
        assert full.value.verdict is Verdict.AGAIN
    with pytest.raises(OSError, match="No space left"):
        segment.create(small_disk, 1, 0)
    assert (small_disk / "head.json").read_bytes() == b"1"
    assert {path.name for path in small_disk.iterdir() if path.is_file()} == {"head.json", "filler"}
    filler.unlink()
    disk.put("head.json", b"2")
    assert (small_disk / "head.json").read_bytes() == b"2"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EMFILE])
def test_a_full_disk_is_tried_again(tmp_path: Path, number: int) -> None:
    assert durable.refused(tmp_path, OSError(number, "")).verdict is Verdict.AGAIN


@pytest.mark.parametrize(
    ("number", "verdict", "hint"),
    [
        (errno.EROFS, Verdict.ASK, "Change its permissions"),
        (errno.ENOSPC, Verdict.AGAIN, "Make room there"),
        (errno.EIO, Verdict.AGAIN, "Check the disk"),
    ],
)
def test_a_disk_that_takes_nothing_is_told_by_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, verdict: Verdict, hint: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(durable, "private", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(WriteError, match=f"record cannot be written: {os.strerror(number)}. {hint}") as raised:
        durable.publish(tmp_path / "record", b"{}")
    assert raised.value.verdict is verdict
