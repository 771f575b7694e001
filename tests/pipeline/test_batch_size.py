"""How much one batch of a backlog reads."""

from __future__ import annotations

import pytest

from calve.pipeline.batch_size import FIRST_BYTES, BatchSize
from calve.record.content_file import ContentFile
from calve.record.staged import StagedBatch
from calve.record.written import StagedFiles

FULL = 1000
SMALL, LARGE = 1 << 20, 8 << 20


def batch(size_bytes: int, *files: int) -> StagedBatch:
    """Make a batch of so many bytes of events, with files of these sizes, each of a table of its own."""
    made = [
        ContentFile(
            spec_id=0,
            content="DATA",
            file_path=f"{number}.parquet",
            file_format="PARQUET",
            partition=[],
            file_size_in_bytes=each,
            record_count=1,
        )
        for number, each in enumerate(files)
    ]
    tables = [StagedFiles("c", file.file_path, "", [file], 1, file.file_size_in_bytes) for file in made]
    return StagedBatch(1, {}, tables, 1, size_bytes, 0)


def sizes(one: BatchSize, *records: StagedBatch) -> list[int]:
    found = []
    for record in records:
        one.learn(record)
        found.append(one.size_bytes)
    return found


def test_batches_that_leave_small_files_grow_to_eight_times_their_size() -> None:
    full = [batch(FULL * times, SMALL, LARGE - SMALL - 1) for times in (1, 2, 4, 8, 8)]
    assert sizes(BatchSize(FULL, True), *full) == [2 * FULL, 4 * FULL, 8 * FULL, 8 * FULL, 8 * FULL]


def test_files_that_are_far_too_small_make_batches_grow_at_once() -> None:
    assert sizes(BatchSize(FULL, True), batch(FULL, SMALL // 4)) == [8 * FULL]


def test_batches_that_leave_large_files_or_none_stay_as_they_are() -> None:
    assert sizes(BatchSize(FULL, True), batch(FULL, LARGE, SMALL), batch(FULL)) == [FULL, FULL]


def test_files_are_small_for_the_size_of_their_batch() -> None:
    """A tenth of a batch leaves files of a tenth of their size, but as many."""
    tenth = FULL // 10
    assert sizes(BatchSize(FULL, True), batch(tenth, SMALL, SMALL), batch(tenth, SMALL // 4)) == [FULL, 2 * FULL]


def test_a_size_that_was_set_is_kept() -> None:
    assert sizes(BatchSize(FULL, False), batch(FULL, SMALL)) == [FULL]


@pytest.mark.parametrize(("known", "absent"), [(0, 1), (1, 1), (1, 2)])
def test_a_batch_whose_tables_must_be_made_is_small_because_it_is_read_twice(known: int, absent: int) -> None:
    full = 4 * FIRST_BYTES
    size = BatchSize(full, True)
    size.begin(known, absent)
    assert size.next_bytes(is_behind=True) == size.next_bytes(is_behind=False) == FIRST_BYTES
    size.learn(batch(FIRST_BYTES, LARGE))
    assert size.next_bytes(is_behind=True) == full


def test_the_first_batch_of_a_backlog_with_many_tables_that_exist_is_large_at_once() -> None:
    full, size = 256 << 20, BatchSize(256 << 20, True)
    size.begin(existing=1, absent=0)
    assert size.next_bytes(is_behind=True) == full
    size.begin(existing=90, absent=1)
    assert (size.next_bytes(is_behind=True), size.next_bytes(is_behind=False)) == (8 * full, full)


def test_nothing_is_decided_where_tables_are_made_before_events_are_read() -> None:
    size = BatchSize(FULL, True)
    size.begin(existing=0, absent=0)
    assert size.next_bytes(is_behind=True) == FULL


def test_a_size_that_has_grown_is_kept_where_its_files_are_large_enough() -> None:
    full, size = 256 << 20, BatchSize(256 << 20, True)
    size.learn(batch(full, SMALL))
    size.begin(existing=32, absent=0)
    assert size.next_bytes(is_behind=True) == 4 * full
