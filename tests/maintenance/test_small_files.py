"""A partition is compacted when it is worth it, and never for ever."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta

import pytest

from calve.maintenance.small_files import PartitionFiles, compaction, tiers
from calve.table.limits import MaintenanceLimits

MB = 1 << 20
TARGET = 512 * MB
LIMITS = MaintenanceLimits(small_files=10, small_bytes=32 * MB, quiet=timedelta(minutes=10), round_bytes=1 << 30)
NOW = 1_000_000.0


def partition(name: str, sizes: list[int], age_seconds: float = 0.0) -> PartitionFiles:
    bounds = tiers(TARGET, LIMITS)
    by_tier: list[list[int]] = [[] for _ in range(len(bounds) + 1)]
    for one in sizes:
        by_tier[sum(one >= bound for bound in bounds)].append(one)
    counts, sums = [len(one) for one in by_tier], [sum(one) for one in by_tier]
    return PartitionFiles(f"0:{name}", name, counts, sums, written_ms=int((NOW - age_seconds) * 1000))


def chosen(
    *partitions: PartitionFiles, limits: MaintenanceLimits = LIMITS, only_quiet: bool = False
) -> list[str] | None:
    found = compaction(partitions, TARGET, limits, NOW, only_quiet)
    return [one.name for one in found.partitions] if found else None


def test_a_partition_that_is_written_waits_until_it_has_many_small_files() -> None:
    assert chosen(partition("a", [MB] * 9)) is None
    assert chosen(partition("a", [MB] * 10), partition("b", [MB] * 9)) == ["a"]


def test_a_quiet_partition_is_compacted_with_few_files_but_not_with_four() -> None:
    assert chosen(partition("a", [MB] * 5, 601)) == ["a"]
    assert chosen(partition("a", [MB] * 5, 599)) is None
    assert chosen(partition("a", [MB] * 4, 601)) is None


def test_files_that_fill_one_of_the_target_size_are_joined_though_the_partition_is_written() -> None:
    assert chosen(partition("a", [60 * MB] * 9)) == ["a"]
    assert chosen(partition("a", [60 * MB] * 8)) is None


def test_files_that_would_not_become_half_as_many_are_left_alone() -> None:
    assert chosen(partition("a", [300 * MB] * 6, 601)) is None
    assert chosen(partition("a", [500 * MB] * 100, 601)) is None


def test_a_merge_is_not_disturbed_in_partitions_that_are_written() -> None:
    busy, quiet = partition("a", [MB] * 100), partition("b", [MB] * 20, 601)
    assert chosen(busy, only_quiet=True) is None
    assert chosen(busy, quiet, only_quiet=True) == ["b"]


def test_groups_of_bounded_size_are_made_of_small_files_alone_and_never_twice() -> None:
    group = 128 * MB
    found = compaction([partition("a", [30 * MB] * 40)], TARGET, LIMITS, NOW, group_bytes=group)
    assert found is not None
    assert found.options["max-file-group-size-bytes"] == str(group)
    for files in ([120 * MB] * 10, [60 * MB] * 9, [60 * MB] * 20 + [MB] * 9):
        assert chosen(partition("a", files))
        assert compaction([partition("a", files)], TARGET, LIMITS, NOW, group_bytes=group) is None
    assert not chosen(partition("a", [30 * MB] * 9))


def test_a_round_takes_the_worst_partitions_and_is_bounded_by_bytes_and_files() -> None:
    many = [partition(f"p{number}", [8 * MB] * (10 + number)) for number in range(30)]
    found = compaction(many, TARGET, replace(LIMITS, round_bytes=600 * MB), NOW)
    assert found
    assert [one.name for one in found.partitions] == ["p29"]
    huge = compaction([partition("a", [MB] * 20_000)], TARGET, replace(LIMITS, round_bytes=500 * MB), NOW)
    assert huge
    assert huge.options["max-files-to-rewrite"] == "500"


def joined(sizes: list[int], options: dict[str, str]) -> tuple[list[int], int]:
    """Do what a round does with the files of a partition; return also the bytes that it rewrites."""
    below, most = int(options["min-file-size-bytes"]), int(options["max-files-to-rewrite"])
    found = [number for number, one in enumerate(sizes) if one < below][:most]
    taken, total = set(found), sum(sizes[number] for number in found)
    full = max(1, total // TARGET)
    outputs = full if total / full < 1.1 * TARGET else full + 1  # as Iceberg's planner
    return [one for number, one in enumerate(sizes) if number not in taken] + [total // outputs] * outputs, total


def test_every_compaction_ends_with_fewer_undersized_files_until_nothing_is_due() -> None:
    sizes, rounds = [MB] * 3_000, 0
    while found := compaction([partition("a", sizes, 601)], TARGET, LIMITS, NOW):
        sizes, _ = joined(sizes, found.options)
        rounds += 1
        assert rounds < 20
    assert len(sizes) < 12


@pytest.mark.parametrize("size", [2_000, 30_000, 700_000, 20 * MB, 60 * MB])
@pytest.mark.parametrize("waits", [20, 300])
def test_a_byte_is_rewritten_once_a_tier_whatever_the_size_of_the_files(size: int, waits: int) -> None:
    """Many commits to a partition, with looks that come soon or late; then it is quiet."""
    limits, chance, sizes = replace(LIMITS, small_files=100), random.Random(size), list[int]()
    written = rewritten = most = 0
    for _ in range(6_000 // waits):
        sizes += (new := [int(size * chance.uniform(0.5, 1.5)) for _ in range(waits)])
        written += sum(new)
        most = max(most, sum(one < 32 * MB for one in sizes))
        while found := compaction([partition("a", sizes)], TARGET, limits, NOW):
            sizes, more = joined(sizes, found.options)
            rewritten += more
    tiers_above = sum(bound > size for bound in tiers(TARGET, limits)[:-1])
    assert rewritten <= tiers_above * written
    assert most <= limits.small_files + waits
    while found := compaction([partition("a", sizes, 601)], TARGET, limits, NOW):
        sizes, more = joined(sizes, found.options)
        rewritten += more
    assert rewritten <= (tiers_above + 1) * written
    assert len(sizes) <= 10 + 2 * written // TARGET


def test_few_small_files_of_earlier_rounds_are_not_rewritten_with_each_new_one() -> None:
    sizes = [20 * MB] * 7 + [10_000] * 100
    found = compaction([partition("a", sizes)], TARGET, replace(LIMITS, small_files=100), NOW)
    assert found
    assert joined(sizes, found.options)[1] == 1_000_000
