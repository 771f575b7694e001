"""Which tables are due when."""

from __future__ import annotations

from calve.pipeline.commit_queue import CommitQueue
from calve.record.target import BranchRef
from calve.route.by_table import ByTable, TablePattern
from calve.sinks.sink import CommitSettings
from pipeline.queues import AWAY, HELD, HOUR, LONGEST, SIZE, A, B, C, entry


def queue(*tables: BranchRef) -> CommitQueue:
    """A queue at second 0, with batch 1 if there are tables, whose interval is an hour."""
    one = CommitQueue(CommitSettings(HOUR, SIZE), 0.0)
    if tables:
        one.add(1, [entry(table) for table in tables])
    return one


def old(*tables: BranchRef) -> CommitQueue:
    """A queue that has committed batch 1 to these tables, at second 0."""
    one = queue(*tables)
    one.pop_due(0.0)
    for table in tables:
        one.committed(table, [1], 0.0)
    one.acknowledged(1)
    return one


def test_the_first_files_of_a_table_are_due_at_once_and_later_ones_after_the_interval() -> None:
    one = old(A)
    one.add(2, [entry(A), entry(B)])
    assert one.pop_due(1.0) == [B]
    one.committed(B, [2], 1.0)
    assert one.pop_due(HOUR - 1) is None
    assert one.pop_due(HOUR) == [A]


def test_a_table_that_waits_for_the_watermark_is_due_when_it_is_released_or_after_its_bound() -> None:
    by_watermark = ByTable(False, ((TablePattern("a*"), True),))
    intervals = ByTable(10.0, ((TablePattern("a*"), HOUR),))
    one = CommitQueue(CommitSettings(10.0, SIZE * SIZE, (intervals,), (by_watermark,)), 0.0)
    one.add(1, [entry(A), entry(B)])
    one.commit_soon()
    assert one.pop_due(0.0) == [B]
    one.committed(B, [1], 0.0)
    for batch in range(2, 200):
        one.add(batch, [entry(A)])
    assert one.has_room()
    assert one.pop_due(20.0) in (None, [])
    one.release(A)
    assert one.pop_due(21.0) == [A]
    one.committed(A, range(1, 200), 21.0)
    one.add(200, [entry(A)])
    assert one.pop_due(HOUR - 1.0) in (None, [])
    assert one.pop_due(HOUR) == [A]


def test_each_table_is_due_after_its_own_interval() -> None:
    intervals = ByTable(HOUR, ((TablePattern("b*"), 10.0),))
    one = CommitQueue(CommitSettings(HOUR, SIZE, (intervals, ByTable(2 * HOUR))), 0.0)
    one.add(1, [entry(A), entry(B)])
    for table in one.pop_due(0.0) or []:
        one.committed(table, [1], 0.0)
    one.add(2, [entry(A), entry(B)])
    assert one.pop_due(9.0) is None
    assert one.pop_due(10.0) == [B]
    one.committed(B, [2], 12.0)
    one.add(3, [entry(B)])
    assert one.pop_due(21.0) is None, "the interval begins after the last commit"
    assert one.pop_due(22.0) == [B]
    one.committed(B, [3], 22.0)
    assert one.pop_due(HOUR) == [A]


def test_only_the_first_ten_tables_of_a_run_are_due_at_once() -> None:
    tables = [BranchRef("c", f"t{number}", "main") for number in range(12)]
    one = queue(*tables[:3])
    assert one.pop_due(0.0) == tables[:3]
    one.add(2, [entry(table) for table in tables[3:]])
    assert one.pop_due(1.0) == tables[3:10]
    one.failed(tables[3], AWAY, 1.0)
    one.committed(tables[4], [2], 1.0)
    assert one.pop_due(LONGEST) == [tables[3]]
    one.commit_soon()
    assert one.pop_due(LONGEST) == tables[10:]


def test_the_interval_begins_when_the_last_table_is_committed() -> None:
    one = old(A)
    one.add(2, [entry(A)])
    assert one.pop_due(HOUR) == [A]
    one.committed(A, [2], HOUR + 100)
    one.add(3, [entry(A)])
    assert one.pop_due(2 * HOUR + 99) is None
    assert one.pop_due(2 * HOUR + 100) == [A]


def test_enough_bytes_or_enough_batches_are_due_at_once() -> None:
    one = old(A)
    one.add(2, [entry(A, SIZE - 1)])
    assert one.pop_due(1.0) is None
    one.add(3, [entry(A, 1)])
    assert one.pop_due(1.0) == [A]
    one = old(A)
    for batch in range(2, 66):
        assert one.has_room()
        assert one.pop_due(1.0) is None
        one.add(batch, [entry(A)])
    assert not one.has_room()
    assert one.pop_due(1.0) == [A]


def test_enough_bytes_make_only_the_large_tables_due() -> None:
    one = old(A, B, C)
    one.add(2, [entry(A, SIZE), entry(B, 1), entry(C, 1)])
    assert one.pop_due(1.0) == [A]
    one.add(3, [entry(B, 1)])
    assert one.pop_due(1.0) is None, "what is committed now does not wait"
    one.committed(A, [2], 2.0)
    one.add(4, [entry(B, SIZE // 2), entry(C, SIZE // 2)])
    assert one.pop_due(3.0) == [B]
    assert one.pop_due(HOUR) == [C], "the interval has not begun again"
    kept = CommitQueue(CommitSettings(HOUR, SIZE), 0.0, is_kept=True)
    kept.add(1, [entry(A), entry(B)])
    for table in kept.pop_due(0.0) or []:
        kept.committed(table, [1], 0.0)
    kept.add(2, [entry(A, SIZE), entry(B)])
    assert kept.pop_due(1.0) == [A, B], "else the source's log would grow until the interval"


def test_of_so_many_commits_a_second_those_come_first_that_have_waited_longest() -> None:
    tables = [BranchRef("c", f"t{number}", "main") for number in range(40)]
    one = CommitQueue(CommitSettings(10.0, SIZE * SIZE, most_per_second=4.0), 0.0)
    one.add(1, [entry(table) for table in tables[20:]])
    one.add(2, [entry(table) for table in tables[:20]])
    taken = one.pop_due(10.0) or []
    assert taken == tables[20:24]
    now = 10.0
    while len(taken) < 40:
        now += 0.5
        taken += one.pop_due(now) or []
    assert now == 19.0
    assert set(taken[:20]) == set(tables[20:])


def test_a_table_for_which_nothing_waits_is_not_kept() -> None:
    one = old(*(BranchRef("c", f"t{number}", "main") for number in range(10)))
    assert not one._tables
    one.add(2, [entry(BranchRef("c", "t0", "main")), entry(A)])
    assert one.pop_due(1.0) is None, "only the first ten tables of a run are due at once"


def test_what_waits_at_a_hurry_is_due_and_what_comes_later_is_not() -> None:
    one = old(A)
    one.add(2, [entry(A)])
    one.commit_soon()
    assert one.pop_due(1.0) == [A]
    one.committed(A, [2], 1.0)
    one.add(3, [entry(A)])
    assert one.pop_due(1.0) is None


def test_all_that_comes_is_due_until_it_is_drained() -> None:
    one = old(A)
    one.add(2, [entry(A)])
    one.drain(1.0)
    assert one.pop_due(1.0) == [A]
    one.committed(A, [2], 1.0)
    one.add(3, [entry(A)])
    one.acknowledged(2)
    assert one.pop_due(1.0) == [A]
    one.committed(A, [3], 1.0)
    one.acknowledged(3)
    assert one.is_empty()
    one.add(4, [entry(A)])
    assert one.pop_due(1.0) is None


def test_a_batch_without_tables_is_due_after_the_interval() -> None:
    one = queue()
    one.add(1, [])
    assert one.pop_due(1.0) is None
    assert one.pop_due(HOUR) == []
    assert one.finished() == [1]
    assert one.pop_due(HOUR + 1) is None


def test_a_table_that_fails_waits_ever_longer_however_urgent_all_is() -> None:
    one = queue(A)
    one.drain(0.0)
    one.pop_due(0.0)
    now = 0.0
    for wait in (0.5, 1.0, 2.0, 4.0, 8.0, LONGEST, LONGEST):
        one.failed(A, AWAY, now)
        assert one.pop_due(now + wait / 2 - 0.01) == []
        now += wait
        assert one.pop_due(now) == [A]


def test_a_table_that_failed_is_tried_again_before_the_next_interval() -> None:
    one = old(A, B)
    one.add(2, [entry(A), entry(B)])
    assert one.pop_due(HOUR) == [A, B]
    one.failed(A, AWAY, HOUR)
    one.committed(B, [2], HOUR)
    one.add(3, [entry(B)])
    assert one.pop_due(HOUR + LONGEST) == [A]


def test_the_last_word_on_failures_is_the_next_commit() -> None:
    one = queue(A)
    one.pop_due(0.0)
    one.failed(A, AWAY, 0.0)
    assert one.errors() == [AWAY]
    assert one.pop_due(LONGEST) == [A]
    assert one.committed(A, [1], LONGEST)
    assert one.errors() == []


def test_a_server_that_is_away_is_told_once_and_a_held_table_each_time() -> None:
    one = queue(A, B, C)
    one.pop_due(0.0)
    assert one.failed(A, AWAY, 0.0)
    assert not one.failed(B, AWAY, 0.0)
    assert one.failed(C, HELD, 0.0)
    assert one.pop_due(LONGEST) == [A, B, C]
    assert not one.failed(C, HELD, LONGEST)
    assert one.failed(B, HELD, LONGEST)
    assert one.committed(A, [1], LONGEST), "no other table misses the server"
    one.pop_due(3 * LONGEST)
    assert not one.committed(B, [1], 3 * LONGEST), "another table is held"


def test_held_tables_take_no_room_and_make_nothing_due() -> None:
    one = queue(A)
    one.pop_due(0.0)
    one.failed(A, HELD, 0.0)
    for batch in range(2, 100):
        one.add(batch, [entry(A, SIZE)])
    assert one.has_room()
    one.pop_due(LONGEST)
    one.failed(A, HELD, LONGEST)
    assert one.pop_due(LONGEST) is None


def test_files_that_were_written_anew_are_due_at_once_and_a_batch_without_any_is_finished() -> None:
    one = old(A)
    one.add(2, [entry(A)])
    one.add(3, [entry(A)])
    one.pop_due(HOUR)
    one.rewritten(A, {2: [], 3: [entry(A, rows=7)]}, HOUR + 1)
    assert one.finished() == [2]
    assert one.pop_due(HOUR + 1) == [A]
    assert one.load(A) == {3: [entry(A, rows=7)]}


def test_it_is_stuck_when_nothing_is_committed_for_long_and_no_commit_runs() -> None:
    """A commit may take long, for example a MERGE of many rows."""
    one = queue(A, B)
    one.drain(10.0)
    one.pop_due(10.0)
    one.failed(A, AWAY, 11.0)
    assert not one.is_stuck(99.0)
    one.failed(B, AWAY, 12.0)
    assert not one.is_stuck(10.0)
    assert one.is_stuck(11.0)
    one.rewritten(B, {}, 12.0)
    assert not one.is_stuck(12.0)
    one.committed(B, [1], 14.0)
    assert not one.is_stuck(14.0)


def test_it_is_stuck_when_all_that_is_left_is_held() -> None:
    one = queue(A, B)
    one.pop_due(0.0)
    one.failed(A, HELD, 0.0)
    assert not one.is_stuck(0.0)
    one.committed(B, [1], 0.0)
    assert one.is_stuck(0.0)


def test_it_is_not_stuck_once_all_is_acknowledged() -> None:
    one = old(A)
    assert not one.is_stuck(HOUR)


def test_while_a_backlog_is_read_commits_pause_for_twice_what_they_take() -> None:
    tables = [BranchRef("c", f"t{number}", "main") for number in range(1000)]
    one = CommitQueue(CommitSettings(10.0, SIZE * SIZE), 0.0)
    one.is_behind = True
    one.add(1, [entry(table) for table in tables])
    assert one.pop_due(0.0) == tables[:10]
    for table in tables[:10]:
        one.committed(table, [1], 0.0)
    assert one.pop_due(19.0) is None  # it is not known yet what a commit takes
    assert one.pop_due(20.0) == tables[10:]
    for table in tables[10:]:
        one.committed(table, [1], 50.0)
    one.add(2, [entry(table) for table in tables])
    assert one.pop_due(110.0) is None  # 30 seconds for 990 tables
    assert one.pop_due(111.0) == tables
    for table in tables:
        one.committed(table, [2], 112.0)
    one.add(3, [entry(table) for table in tables])
    assert one.pop_due(121.0) is None
    assert one.pop_due(122.0) == tables  # the interval is longer


def test_a_backlog_that_ends_is_committed_at_once_and_the_interval_counts_again() -> None:
    tables = [BranchRef("c", f"t{number}", "main") for number in range(900)]
    one = old(*tables[:10])
    one.is_behind = True
    one.add(2, [entry(table) for table in tables])
    assert one.pop_due(1.0) is None
    one.commit_soon()
    assert one.pop_due(1.0) == tables
    one.is_behind = False
    for table in tables:
        one.committed(table, [2], 3000.0)
    one.add(3, [entry(A)])
    assert one.pop_due(3000.0 + HOUR) == [A]
