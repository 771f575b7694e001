"""The runs of a key index, called from Python: what is written is found, and what fails says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calve.compiled.key_runs import (
    GONE,
    REPLACES,
    DamagedRunError,
    OpenRun,
    find_keys,
    hash_values,
    merge_runs,
    permute_values,
    write_run,
)
from kit.compiled_core import needs_core

pytestmark = needs_core

SECRET = np.array([1, 2], np.uint64)
ALL_LIVE = np.zeros(1, np.uint64)


def written(folder: Path, name: str, keys: range, file: int, flag: int = 0) -> Path:
    bits = permute_values(np.array(keys, np.int64), SECRET)
    files = np.full(len(keys), file | flag, np.uint32)
    assert write_run(folder / name, bits, files, np.arange(len(keys), dtype=np.uint32)) == len(keys)
    return folder / name


def opened(*paths: Path) -> list[OpenRun]:
    return [OpenRun(path) for path in paths]


def hits_of(paths: list[Path], keys: range, dead: np.ndarray = ALL_LIVE) -> list[tuple[int, int, int]]:
    hits = find_keys(opened(*paths), permute_values(np.array(keys, np.int64), SECRET), dead)
    return sorted((keys[key], file, position) for key, file, position in hits.tolist())


def test_a_row_is_found_by_its_key_until_a_newer_run_replaces_it_or_its_file_is_dead(tmp_path: Path) -> None:
    old, new = written(tmp_path, "old", range(5), 1), written(tmp_path, "new é", range(3, 9), 2, REPLACES)
    assert hits_of([old], range(3, 6)) == [(3, 1, 3), (4, 1, 4)]
    assert hits_of([new, old], range(2, 5)) == [(2, 1, 2), (3, 2, 0), (4, 2, 1)]
    assert hits_of([new, old], range(5), np.array([0b10], np.uint64)) == [(3, 2, 0), (4, 2, 1)]
    gone = written(tmp_path, "gone", range(4), GONE, REPLACES)
    assert merge_runs(opened(gone, new, old), tmp_path / "all", ALL_LIVE, is_last=True) == 5
    assert hits_of([tmp_path / "all"], range(9)) == [(key, 2, key - 3) for key in range(4, 9)]


def test_more_hits_than_keys_are_returned_whole(tmp_path: Path) -> None:
    bits = permute_values(np.zeros(5000, np.int64), SECRET)
    write_run(tmp_path / "run", bits, np.ones(5000, np.uint32), np.arange(5000, dtype=np.uint32))
    assert len(find_keys(opened(tmp_path / "run"), bits[:1], ALL_LIVE)) == 5000


def test_nothing_is_written_merged_and_found(tmp_path: Path) -> None:
    empty = written(tmp_path, "empty", range(0), 1)
    assert hits_of([empty], range(3)) == hits_of([], range(3)) == hits_of([empty], range(0)) == []
    assert merge_runs(opened(empty), tmp_path / "none", ALL_LIVE, is_last=True) == 0


def test_damage_and_a_refusing_disk_are_told_apart(tmp_path: Path) -> None:
    run = written(tmp_path, "run", range(500), 1)
    whole = run.read_bytes()
    for content, reason in ((b"", "header"), (whole[:-1], "length"), (whole[:9] + b"\7" + whole[10:], "header")):
        run.write_bytes(content)
        with pytest.raises(DamagedRunError, match=reason):
            OpenRun(run)
    run.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    with pytest.raises(DamagedRunError, match="block"):
        hits_of([run], range(500))
    with pytest.raises(DamagedRunError, match="block"):
        merge_runs(opened(run), tmp_path / "merged", ALL_LIVE, is_last=True)
    with pytest.raises(DamagedRunError, match="missing"):
        OpenRun(tmp_path / "missing")
    with pytest.raises(OSError, match="os error"):
        OpenRun(tmp_path)
    with pytest.raises(OSError, match="No such file"):
        written(tmp_path, "no folder/run", range(5), 1)


def test_values_of_several_columns_have_bits_of_their_own() -> None:
    def key(*texts: str) -> bytes:
        bits = None
        for text in texts:
            bits = hash_values(np.array([0, len(text)]), text.encode(), SECRET, bits)
        assert bits is not None
        return bits.tobytes()

    keys = {key("a"), key("ab"), key("a", "b"), key("", "ab"), key("ab", ""), key("b", "a"), key("a", "b", "")}
    assert len(keys) == 7
    assert key("a", "b") == key("a", "b")
