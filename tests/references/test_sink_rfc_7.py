"""Section 7 of the RFC of the iceberg sink: at least once there, exactly once here."""

from __future__ import annotations

from kit.statements import missing

EXACT = "docs/from-data-prepper.md: exactly once for every source that can be read again; a batch in the ledger cannot expire"
STATEMENTS = {
    "delivery at least once, or at most once without acknowledgments": EXACT,
    "a worker that dies after it has registered its files duplicates": f"""{EXACT}
        crash/test_stop_points.py::test_every_row_and_every_reject_is_there_once_and_sent_again_once_wherever_the_process_died""",
    "a leader that dies after its commit may duplicate": f"""{EXACT}
        commit/test_fence.py::test_an_answer_that_never_came_is_looked_up_and_not_repeated""",
    "a node that crashes loses its handles, and the source sends again": "crash/test_kill_minus_nine.py::test_nothing_is_lost_and_nothing_doubled_when_the_process_group_is_killed_again_and_again",
    "acknowledgment time-outs above 10 minutes": EXACT,
    "a duplicate of a delete, or of an insert and its delete, changes nothing": "commit/test_fence.py::test_a_batch_committed_twice_appears_once",
    "the same files are never committed twice": """commit/test_fence.py::test_a_file_given_twice_is_added_once
        commit/test_fence.py::test_a_zombie_that_commits_the_same_batch_between_look_and_swap_adds_nothing_twice""",
}


def test_each_statement_has_its_test_or_its_page() -> None:
    assert missing(STATEMENTS) == {}
