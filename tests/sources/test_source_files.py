"""The small files of a source: the same in a local folder and on an object store, where only one driver changes them."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from calve.errors import OvertakenError, WriteError
from calve.sources.source_files import SourceFiles, files_in
from calve.state.folder import StateFolder
from calve.state.local_folder import LocalFolder
from calve.state.store_folder import StoreFolder

NAMES = itertools.count()


@pytest.fixture(params=["local", "store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> StateFolder:
    return LocalFolder(tmp_path) if request.param == "local" else StoreFolder(f"memory://files/{next(NAMES)}")


@pytest.fixture
def store() -> StoreFolder:
    return StoreFolder(f"memory://files/{next(NAMES)}")


def owned(folder: StateFolder) -> SourceFiles:
    files = files_in(folder)
    files.acquire()
    return files


def test_files_are_there_for_the_next_driver_and_for_readers(folder: StateFolder) -> None:
    files = owned(folder)
    files.write("begun.json", b"1")
    files.write("begun.json", b"2")
    files.write("tables/000001.json", b"3" * 100_000)
    files.append("keys.txt", b"a\n")
    files.append("keys.txt", b"b\n")
    files.write("gone.json", b"4")
    files.remove(["gone.json", "never.json"])
    for found in (files, files_in(folder), owned(folder)):
        assert found.read("begun.json") == b"2"
        assert found.read("tables/000001.json") == b"3" * 100_000
        assert found.read("keys.txt") == b"a\nb\n"
        assert found.read("gone.json") is None
        assert found.names("tables") == ["tables/000001.json"]


def test_a_file_that_a_kill_left_unfinished_is_none(tmp_path: Path) -> None:
    files = owned(LocalFolder(tmp_path))
    files.write("tables/000001.json", b"1")
    files.post("requests/1.json", b"a")
    for folder in ("tables", "requests"):
        (tmp_path / folder / ".000002.json").write_bytes(b"half")
    assert files.names("tables") == ["tables/000001.json"]
    assert files.posted("requests") == {"requests/1.json": b"a"}


def test_what_others_post_is_there_until_it_is_removed(folder: StateFolder) -> None:
    files = owned(folder)
    other = files_in(folder)
    other.post("requests/1.json", b"a")
    other.post("requests/2.json", b"b")
    other.post("requests/2.json", b"b")
    other.post("marks/1.json", b"c")
    assert files.posted("requests", now=True) == {"requests/1.json": b"a", "requests/2.json": b"b"}
    files.unpost(["requests/2.json", "requests/3.json"])
    assert files.posted("requests", now=True) == {"requests/1.json": b"a"}
    assert owned(folder).posted("marks") == {"marks/1.json": b"c"}


def test_a_driver_that_was_replaced_changes_no_file(store: StoreFolder) -> None:
    first = owned(store)
    first.write("a", b"1")
    second = owned(store)
    second.post("marks/b", b"posted")
    with pytest.raises(OvertakenError):
        first.write("a", b"2")
    with pytest.raises(OvertakenError):
        first.remove(["a"])
    with pytest.raises(OvertakenError):
        first.unpost(["marks/b"])
    second.write("c", b"3")
    assert second.read("a") == b"1"
    assert second.posted("marks") == {"marks/b": b"posted"}


@pytest.mark.parametrize("is_done", [True, False])
def test_a_change_without_an_answer_is_replaced_by_the_next_one(
    store: StoreFolder, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    files, real = owned(store), StoreFolder.swap

    def swap(self: StoreFolder, name: str, content: bytes, tag: str) -> str | None:
        if is_done:
            real(self, name, content, tag)
        raise WriteError("no answer")

    files.write("a", b"1")
    with monkeypatch.context() as patch:
        patch.setattr(StoreFolder, "swap", swap)
        with pytest.raises(WriteError):
            files.write("a", b"2")
        with pytest.raises(WriteError):
            files_in(store).acquire()
    assert files.read("a") == b"1"
    if is_done:  # the other one has them, though it does not know
        with pytest.raises(OvertakenError):
            files.write("b", b"3")
        return
    files.write("b", b"3")
    assert owned(store).read("a") == b"1"
    assert owned(store).read("b") == b"3"


def test_a_file_that_is_replaced_while_it_is_read_is_read_again(
    store: StoreFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, real = owned(store), StoreFolder.get
    files.write("a", b"1")
    changes = iter([b"2", b"3"])

    def get(self: StoreFolder, name: str) -> object:
        if name.startswith("a.") and (content := next(changes, None)):
            files.write("a", content)
        return real(self, name)

    monkeypatch.setattr(StoreFolder, "get", get)
    assert files_in(store).read("a") == b"3"
