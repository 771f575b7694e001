"""The folder of a key index: one process uses it, and a killed one leaves nothing that the next one must not believe."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from calve.commit import branch_keys, key_levels
from calve.commit.branch_files import BranchFile, BranchFiles
from calve.commit.branch_keys import BranchKeys
from calve.commit.index_folder import FolderInUseError, IndexFolder
from calve.commit.key_index import FileKeys, KeyIndex
from calve.commit.key_search import KeySearch
from calve.compiled import library
from calve.observe.log import Log
from calve.state.local_folder import LocalFolder
from calve.state.store_folder import StoreFolder
from commit.test_key_search import rows_of, table_of, written
from kit.compiled_core import needs_core

ROWS = 200
FILES = 30


class _Plan:
    """A plan of files that were written, without a table."""

    def __init__(self, files: Mapping[str, int]) -> None:
        self._files = {path: BranchFile(rows, "", 0) for path, rows in files.items()}

    def files(self, _: list[int]) -> BranchFiles:
        return BranchFiles(len(self._files), frozenset(), self._files)

    def deleted(self, _: str) -> np.ndarray:
        return np.empty(0, np.int64)


def keys_in(folder: Path) -> BranchKeys:
    return BranchKeys(IndexFolder(LocalFolder(folder), "uuid", "dev/1"), "db.t", Log("p"))


def search_of(folder: Path) -> tuple[KeySearch, _Plan]:
    table = table_of(folder, "long")
    file = written(table, [(number,) for number in range(50)])
    return KeySearch(table, [1], [(1, rows_of(table, [(7,), (99,)]))]), _Plan({file.path: 50})


@needs_core
def test_one_process_uses_an_index_and_another_one_scans_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = keys_in(tmp_path), keys_in(tmp_path)
    search, plan = search_of(tmp_path)
    caplog.set_level("INFO", "calve")
    assert first.find(search, plan) is not None
    for _ in range(2):
        assert not second.is_used() or second.find(search, plan) is None
    said = [record.message for record in caplog.records if "another process uses" in record.message]
    assert len(said) == 1
    first.close()
    assert keys_in(tmp_path).find(search, plan) is not None


@needs_core
def test_a_damaged_index_begins_anew_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    search, plan = search_of(tmp_path)
    keys = keys_in(tmp_path)
    hits = keys.find(search, plan)
    assert hits is not None
    assert [(path, rows.tolist()) for path, rows in hits] == [(next(iter(plan.files([]).files)), [7])]
    keys.close()
    assert {path.stat().st_mode & 0o077 for path in tmp_path.glob("keys/**")} == {0}
    [state] = tmp_path.glob("keys/*/index")
    state.write_bytes(state.read_bytes()[:-1])
    caplog.set_level("INFO", "calve")
    keys = keys_in(tmp_path)
    assert str(keys.find(search, plan)) == str(hits)
    assert keys.stats
    assert keys.stats.rebuilt == 1
    assert [record.message for record in caplog.records if "anew" in record.message] == [
        "db.t: the key index begins anew: its state is damaged"
    ]


@needs_core
def test_a_key_of_other_columns_is_not_found_by_the_index_of_the_one_before(tmp_path: Path) -> None:
    table, keys = table_of(tmp_path, "long"), keys_in(tmp_path)
    file = written(table, [(49 - number,) for number in range(50)])
    wanted = rows_of(table, [(7,)] * 8).slice(7)  # 7 in both columns
    hits = [keys.find(KeySearch(table, [number], [(1, wanted)]), _Plan({file.path: 50})) for number in (1, 4, 1)]
    assert [[rows.tolist() for _, rows in found or ()] for found in hits] == [[[42]], [[7]], [[42]]]


@needs_core
def test_a_disk_that_refuses_is_no_reason_to_stop(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    search, plan = search_of(tmp_path)
    keys = keys_in(tmp_path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(key_levels, "write_run", full)
    assert keys.find(search, plan) is None
    assert not keys.is_used()
    assert not keys.is_worth(search, 1 << 40)
    assert "No space left on device" in caplog.text


def test_without_the_core_the_table_is_searched(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.VARIABLE, "off")
    library._tried.cache_clear()
    try:
        search, plan = search_of(tmp_path)
        keys = keys_in(tmp_path)
        assert keys.is_worth(search, branch_keys.LOCAL_ROWS)
        assert keys.find(search, plan) is None
        assert not keys.is_worth(search, branch_keys.LOCAL_ROWS)
        assert "commits search the table instead of a key index: The compiled core is turned off" in caplog.text
    finally:
        library._tried.cache_clear()


def test_a_small_table_has_no_index_and_no_folder(tmp_path: Path) -> None:
    search, _ = search_of(tmp_path)
    keys = keys_in(tmp_path / "state")
    assert not keys.is_used()
    assert not keys.is_worth(search, branch_keys.LOCAL_ROWS - 1)
    assert not (tmp_path / "state").exists()


def test_with_a_state_on_an_object_store_it_is_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALVE_CACHE", str(tmp_path))
    folders = [IndexFolder(StoreFolder(f"memory://{name}/orders"), "uuid", "main").locked() for name in "ab"]
    assert [folder.parents[1] for folder in folders] == [tmp_path / "keys"] * 2
    assert folders[0] != folders[1]
    with pytest.raises(FolderInUseError):
        IndexFolder(StoreFolder("memory://a/orders"), "uuid", "main").locked()


def test_an_index_that_was_not_used_for_long_is_removed(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / "keys" / f"{name}@main").mkdir(parents=True)
        (tmp_path / "keys" / f"{name}@main" / "index").touch()
    os.utime(tmp_path / "keys" / "old@main" / "index", (0, 0))
    IndexFolder(LocalFolder(tmp_path), "uuid", "main").locked()
    assert sorted(path.name for path in (tmp_path / "keys").iterdir()) == ["new@main", "uuid@main"]


class _Numbers:
    """Data files whose names say which keys they have."""

    def keys(self, files: Mapping[str, BranchFile]) -> Iterator[FileKeys]:
        for path in files:
            yield FileKeys(path, 0, pa.table([pa.array(range(int(path) * ROWS, (int(path) + 1) * ROWS))], ["k0"]))

    def deleted(self, _: str) -> np.ndarray:
        return np.empty(0, np.int64)


def _branch(number: int) -> BranchFiles:
    files = {str(path): BranchFile(ROWS, "", 0) for path in range(max(0, number - FILES), number)}
    return BranchFiles(number, frozenset(range(number)), files)


def follow_for_ever(folder: Path) -> None:
    key_levels._SMALL_ROWS = 100
    index = KeyIndex(folder, "t")
    number = (index.lines or [0])[0]
    while True:
        number += 1
        index.follow(_branch(number), _Numbers())
        print(number, flush=True)


@needs_core
def test_an_index_whose_process_is_killed_at_any_time_has_every_row_of_its_snapshot(tmp_path: Path) -> None:
    chance, reached = random.Random(3), 0
    for _ in range(4):
        command = [
            sys.executable,
            "-c",
            "import sys; from commit.test_index_folder import *; follow_for_ever(Path(sys.argv[1]))",
        ]
        child = subprocess.Popen(
            [*command, str(tmp_path)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[1],
            env={**os.environ, "PYTHONPATH": "."},
        )
        assert child.stdout
        for _ in range(chance.randint(20, 60)):
            assert child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        index = KeyIndex(tmp_path, "t")
        [number] = index.lines
        assert number > reached
        reached = number
        branch = _branch(number)
        assert all(not len(index.lacking(part)) for part in _Numbers().keys(branch.files))
        gone = index.bits(pa.table([pa.array(range((number - FILES) * ROWS))], ["k0"]))
        assert not list(index.find(gone, branch))
