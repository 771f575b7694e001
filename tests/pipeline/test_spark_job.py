import threading

import pytest

from calve.pipeline.spark_job import CHANGES_BYTES, TASK_BYTES, divide
from calve.sources.prefetch import prefetch
from calve.sources.source import Split
from kit.running import until


def splits(*sizes):
    return [Split({"n": number}, size) for number, size in enumerate(sizes)]


def test_every_split_is_in_one_task_and_in_order():
    groups = divide(splits(*[TASK_BYTES] * 7), 3)
    assert len(groups) == 3
    assert sorted(split.body["n"] for group in groups for split in group) == list(range(7))
    assert all([split.body["n"] for split in group] == sorted(split.body["n"] for split in group) for group in groups)


def test_a_small_batch_is_one_task():
    assert len(divide(splits(10, 20, 0), 8)) == 1


def test_sizes_are_evened_out():
    groups = divide(splits(*(TASK_BYTES * size for size in (8, 1, 1, 1, 1, 4))), 2)
    assert sorted(sum(split.size_bytes for split in group) // TASK_BYTES for group in groups) == [8, 8]


@pytest.mark.parametrize("cores", [4, 8, 100, 400])
def test_more_partitions_than_cores_of_very_different_sizes_are_balanced_by_size(cores):
    sizes = [TASK_BYTES * (1 + number * 7919 % 97) for number in range(cores * 10)]
    loads = [sum(split.size_bytes for split in group) for group in divide(splits(*sizes), cores)]
    assert len(loads) == cores
    assert max(loads) <= 1.05 * sum(sizes) / cores


def test_splits_that_follow_each_other_are_in_one_task_where_that_is_as_even() -> None:
    numbers = [[split.body["n"] for split in group] for group in divide(splits(*[TASK_BYTES] * 40), 2)]
    assert numbers == [list(range(20)), list(range(20, 40))]


def test_a_task_has_no_more_changes_than_it_can_keep_in_memory_however_large_the_batch_is():
    many = splits(*[CHANGES_BYTES // 8] * 80)
    groups = divide(many, 2, in_order=True)
    assert [split for group in groups for split in group] == many
    assert [len(group) for group in groups] == [8] * 10
    assert len(divide(many, 2)) == 2


def test_items_come_in_order_from_all_parts():
    assert list(prefetch([range(3), [], range(3, 9)])) == list(range(9))


def test_an_error_while_reading_ahead_comes_in_its_place():
    def broken():
        yield 1
        raise OSError("gone")

    items = prefetch([broken()])
    assert next(items) == 1
    with pytest.raises(OSError, match="gone"):
        next(items)


def test_a_reader_that_is_left_early_ends_its_thread():
    before = set(threading.enumerate())
    items = prefetch([iter(range(10**9))])
    next(items)
    items.close()
    until(lambda: set(threading.enumerate()) <= before, "its thread has ended")
