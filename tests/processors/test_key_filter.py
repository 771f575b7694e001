"""Remembered keys, against a dictionary: over batches, windows, repeated tasks, and at the bound."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from calve.errors import InvariantError
from calve.processors.key_filter import KEY_BYTES, KeyFilter, KeyMemory
from calve.state.local_folder import LocalFolder

WINDOW = 50


def keys_of(numbers: list[int]) -> list[bytes]:
    """Keys of all kinds of bytes, also with zeros at both ends."""
    return [
        (number * 0x9E3779B97F4A7C15 % 2**64).to_bytes(KEY_BYTES, "little" if number % 2 else "big")
        for number in numbers
    ]


@pytest.mark.parametrize("seed", range(6))
def test_events_pass_as_a_dictionary_says_whatever_is_repeated(tmp_path: Path, seed: int) -> None:
    chance, folder = random.Random(seed), LocalFolder(tmp_path)
    memory = KeyMemory(10_000, WINDOW, folder)
    passed: dict[bytes, int] = {}
    now = 17_000_000_000
    for _ in range(120):
        now += chance.choice([1, 1, 2, 10, WINDOW - 1, WINDOW, WINDOW + 1])
        parts = [keys_of([chance.randrange(400) for _ in range(chance.randrange(40))]) for _ in range(3)]
        expected = []
        for key in (key for part in parts for key in part):
            expected.append(key not in passed or passed[key] <= now - WINDOW)
            if expected[-1]:
                passed[key] = now
        for _ in range(chance.choice([1, 1, 2])):  # a task may run twice
            task = KeyFilter(memory, now)
            assert [is_new for part in parts for is_new in task.are_new(part, WINDOW)] == expected
            assert task.duplicates == expected.count(False)
            files = task.files_after()
        memory = replace(memory, files=tuple(files))
        for name in {*folder.names()} - {file.name for file in files}:
            folder.remove([name])
    assert len(memory.files) <= 10


def test_files_that_no_key_needs_any_more_are_not_named(tmp_path: Path) -> None:
    memory = KeyMemory(100, WINDOW, LocalFolder(tmp_path))
    first = KeyFilter(memory, 1000)
    first.are_new(keys_of([1, 2]), WINDOW)
    memory = replace(memory, files=tuple(first.files_after()))
    assert KeyFilter(memory, 1000 + WINDOW - 1).files_after() == [*memory.files]
    assert KeyFilter(memory, 1000 + WINDOW).files_after() == []


@pytest.mark.parametrize("most", [1, 3, 40])
def test_at_the_bound_the_oldest_keys_are_forgotten_and_no_new_event_is_dropped(tmp_path: Path, most: int) -> None:
    chance, memory = random.Random(most), KeyMemory(most, 10**6, LocalFolder(tmp_path))
    passed: dict[bytes, int] = {}
    forgotten = 0
    for now in range(1, 80):
        keys = keys_of([chance.randrange(200) for _ in range(chance.randrange(20))])
        newest = sorted(passed.values())[-most:]
        task = KeyFilter(memory, now)
        for key, is_new in zip(keys, task.are_new(keys, 10**6), strict=True):
            assert is_new or key in passed
            if is_new and key in passed:  # it was forgotten, so it was one of the oldest
                assert passed[key] <= newest[0]
            passed[key] = now if is_new else passed[key]
        memory = replace(memory, files=tuple(task.files_after()))
        forgotten += task.forgotten
        assert sum(file.keys for file in memory.files) <= most * 1.25
    assert forgotten > 0


@pytest.mark.parametrize("damage", [b"", b"x" * 47, b"x" * 49, None])
def test_a_damaged_file_stops_the_batch_and_names_the_way_out(tmp_path: Path, damage: bytes | None) -> None:
    memory = KeyMemory(100, WINDOW, LocalFolder(tmp_path))
    first = KeyFilter(memory, 1000)
    first.are_new(keys_of([1, 2]), WINDOW)
    [file] = first.files_after()
    if damage is None:
        (tmp_path / file.name).unlink()
    else:
        (tmp_path / file.name).write_bytes(damage)
    with pytest.raises(InvariantError, match=r"missing or damaged.*run once without"):
        KeyFilter(replace(memory, files=(file,)), 1001).are_new(keys_of([1]), WINDOW)
