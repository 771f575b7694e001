"""The contract of a folder of the state: the same on a local disk and on an object store."""

from __future__ import annotations

import itertools
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from calve.errors import InvariantError
from calve.sources.iceberg.spool import ABOUT
from calve.state import values
from calve.state.folder import StateFolder, TaggedContent
from calve.state.local_folder import LocalFolder
from calve.state.rows import RowSet, rows_in
from calve.state.store_folder import StoreFolder

NAMES = itertools.count()
SEEN = RowSet("seen", "seen.db", "CREATE TABLE IF NOT EXISTS seen (a TEXT, n INTEGER, PRIMARY KEY (a, n))", "names")


@pytest.fixture(params=["local", "store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> StateFolder:
    if request.param == "local":
        return LocalFolder(tmp_path / "state") / "shop"
    return StoreFolder(f"memory://folders/{next(NAMES)}") / "shop"


def content(folder: StateFolder, name: str) -> bytes | None:
    stored = folder.get(name)
    return stored.content if stored else None


def test_a_file_is_whole_or_not_there(folder: StateFolder) -> None:
    assert (folder.get("a"), folder.exists(), folder.names()) == (None, False, [])
    folder.put("a", b"1")
    folder.put("below/b", b"2")
    folder.put("a", b"3")
    assert content(folder, "a") == b"3"
    assert (folder / "below").get("b") == folder.get("below/b")
    assert (folder.exists(), folder.names(), folder.folders()) == (True, ["a", "below/b"], ["below"])


def test_a_folder_knows_its_place_and_is_pickled_into_tasks(folder: StateFolder) -> None:
    below = folder / "ledger"
    assert (below.name, below.parent, str(below)) == ("ledger", folder, f"{folder.location}/ledger")
    assert pickle.loads(pickle.dumps(below)) == below == below.absolute()


def test_of_many_writers_one_creates_a_file_and_one_replaces_it(folder: StateFolder) -> None:
    with ThreadPoolExecutor(8) as pool:
        created = [tag for tag in pool.map(lambda n: folder.create("a", b"%d" % n), range(8)) if tag]
        assert len(created) == 1
        swapped = list(pool.map(lambda n: folder.swap("a", b"x%d" % n, created[0]), range(8)))
    (tag,) = [tag for tag in swapped if tag]
    assert folder.get("a") == TaggedContent(b"x%d" % swapped.index(tag), tag)


def test_a_file_that_was_changed_or_removed_is_not_swapped(folder: StateFolder) -> None:
    first = folder.create("a", b"1")
    assert first
    folder.put("a", b"2")
    assert folder.swap("a", b"3", first) is None
    folder.remove(["a", "never-there"])
    assert folder.swap("a", b"3", first) is None
    assert folder.get("a") is None
    assert folder.create("a", b"4")


def test_a_part_of_a_file_is_read_and_a_missing_file_is_an_error(folder: StateFolder) -> None:
    folder.put("a", b"0123456789")
    assert folder.get_range("a", 3, 4) == b"3456"
    with pytest.raises(FileNotFoundError):
        folder.get_range("b", 0, 1)


@pytest.mark.parametrize("is_published", [True, False])
def test_a_new_file_exists_only_after_it_is_published(folder: StateFolder, is_published: bool) -> None:
    with folder.new_file("big") as file:
        for _ in range(3):
            file.write(os.urandom(10_000))
        assert folder.names() == []
        if is_published:
            file.publish()
    assert folder.names() == ["big"] * is_published


def test_a_built_folder_is_complete_or_not_there(folder: StateFolder) -> None:
    folder.put("other", b"")
    with folder.building("1-a", last=ABOUT) as path:
        path.mkdir()
        for name in ("part-0", "part-1", ABOUT, "_SUCCESS", ".part-0.crc"):
            (path / name).write_bytes(name.encode())
        assert "1-a" not in folder.folders()
    assert {"part-0", "part-1", ABOUT} <= set((folder / "1-a").names())
    assert "1-a.unfinished" not in folder.folders()


def test_a_folder_whose_building_failed_is_not_there(folder: StateFolder) -> None:
    def build() -> None:
        with folder.building("2-b", last=ABOUT) as path:
            path.mkdir()
            (path / ABOUT).write_bytes(b"")
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        build()
    assert folder.folders() == []


def test_a_cleared_folder_has_no_files(folder: StateFolder) -> None:
    for name in ("a/1", "a/b/2", "c"):
        folder.put(name, b"")
    (folder / "a").clear()
    assert folder.names() == ["c"]
    folder.remove_all(["c"])
    (folder / "never-there").clear()
    assert folder.names() == []


def test_a_damaged_value_is_an_error_that_names_its_file(folder: StateFolder) -> None:
    folder.put("a.json", values.encoded({"name": "n\udcff"}))
    assert values.read(folder, "a.json") == {"name": "n\udcff"}
    assert values.read(folder, "b.json") is None
    folder.put("a.json", b'{"name": ')
    for read in (lambda: values.read(folder, "a.json"), lambda: values.read_as(folder, "a.json", dict)):
        with pytest.raises(InvariantError, match=r"shop/a\.json is damaged"):
            read()


def test_a_set_of_rows_keeps_each_row_once(folder: StateFolder) -> None:
    rows = rows_in(folder, SEEN)
    assert rows.load() == []
    rows.add([])
    for _ in range(2):
        rows.add([("b", 2), ("a", 1), ("a", 1)])
    assert sorted(rows.load()) == sorted(rows_in(folder, SEEN).load()) == [("a", 1), ("b", 2)]
    rows.forget("n", 0)
    assert len(rows.load()) == 2
    rows.clear()
    assert rows.load() == rows_in(folder, SEEN).load() == []
