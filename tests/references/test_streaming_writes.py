"""The chapter on streaming writes into a lakehouse, section by section."""

from __future__ import annotations

import pytest

from calve.observe.monitoring import alerts, dashboard
from calve.observe.problems import problems
from calve.observe.report import BranchFileStats
from calve.observe.status import PipelineStatus
from kit.statements import missing

SECTIONS = {
    "why per-event commits are impossible": {
        "many events are one commit": "pipeline/test_table_commits.py::test_all_batches_of_a_table_are_one_commit_in_their_order",
        "a commit is a compare-and-swap that is tried again": "commit/test_fence.py::test_another_writer_between_look_and_swap_costs_one_more_attempt",
    },
    "the two-phase commit": {
        "files are staged, durable and invisible first": """ledger/test_ledger.py::test_a_staged_batch_is_pending_until_it_is_committed
            crash/test_stop_points.py::test_every_row_and_every_reject_is_there_once_and_sent_again_once_wherever_the_process_died""",
        "a crash before the commit commits the staged files after the restart": "commit/test_fence.py::test_a_commit_that_never_arrived_is_repeated",
        "to commit again changes nothing": "commit/test_fence.py::test_a_batch_committed_twice_appears_once",
        "the source's position is in the same record as the files": "ledger/test_ledger.py::test_a_begun_batch_is_found_with_its_splits_after_a_restart",
        "files of lost attempts are removed": "maintenance/test_orphans.py::test_only_what_iceberg_writes_is_an_orphan",
    },
    "file size, freshness and small files": {
        "a commit is due by time or by size": """pipeline/test_commit_queue.py::test_enough_bytes_or_enough_batches_are_due_at_once
            pipeline/test_commit_queue.py::test_each_table_is_due_after_its_own_interval""",
        "fewer files than writers": "whole/test_distribution.py::test_small_parts_that_several_tasks_have_become_one_file_for_each_partition",
        "compaction brings the number of files back": """maintenance/test_small_files.py::test_a_partition_that_is_written_waits_until_it_has_many_small_files
            maintenance/test_join.py::test_a_compaction_changes_no_row_whatever_others_did_before_and_do_meanwhile""",
        "manifests stay few": "commit/test_manifests.py::test_manifests_are_merged_when_there_are_as_many_as_the_table_says",
        "the size of the list of manifests is measured": "commit/test_manifests.py::test_the_size_of_a_list_of_many_manifests_is_known_after_a_commit",
    },
    "backpressure, watermarks and late events": {
        "too many staged batches stop reading": "pipeline/test_commit_queue.py::test_enough_bytes_or_enough_batches_are_due_at_once",
        "seconds of backpressure, and of each step": "observe/test_slow_parts.py::test_what_is_slow_is_served",
        "a full buffer refuses, and loses nothing": "sources/http/test_service.py::test_a_full_log_is_429_and_goes_on_when_commits_have_caught_up",
        "the latest event time is in the snapshot": "whole/test_event_time.py::test_what_was_told_is_not_taken_back_by_late_events_nor_by_a_crash",
        "a reader waits for the end of a partition": "whole/test_event_time.py::test_the_documented_query_says_when_a_day_is_complete",
        "late events are written to their partition, and counted": """whole/test_event_time.py::test_what_an_http_source_has_accepted_is_complete_and_late_events_are_counted
            docs/event-time.md: A late event is still written to its day, and counted""",
    },
    "common confusions": {
        "exactly once needs more than an atomic commit": "crash/test_kill_minus_nine.py::test_nothing_is_lost_and_nothing_doubled_when_the_process_group_is_killed_again_and_again",
        "a lost checkpoint": "docs/from-kafka-connect.md: in the ledger, and the batch's number in each table",
    },
    "going deeper": {
        "a commit waits for the watermark, with a bound": "pipeline/test_commit_queue.py::test_a_table_that_waits_for_the_watermark_is_due_when_it_is_released_or_after_its_bound",
        "a partition that is complete is told": "acknowledge/test_periods.py::test_completed_periods_end_between_both_times_without_a_gap",
        "one committer for all writers": "commit/test_fence.py::test_staged_batches_land_in_one_snapshot_that_says_whose_they_are",
        "the source commits no offsets by itself": """sources/kafka/test_source.py::test_the_group_learns_what_is_committed
            settings/test_used.py::test_the_options_without_effect_are_those_of_data_prepper""",
    },
}


@pytest.mark.parametrize("section", SECTIONS)
def test_each_statement_has_its_test_or_its_page(section: str) -> None:
    assert missing(SECTIONS[section]) == {}


@pytest.mark.parametrize("files", [20, 19])
def test_a_list_of_manifests_above_1_kb_a_data_file_is_an_alert_and_said(files: int) -> None:
    assert "calve_table_manifest_list_bytes > 1024 * calve_table_data_files" in alerts()
    assert "calve_table_manifest_list_bytes" in str(dashboard())
    status = PipelineStatus("p")
    status.set_state("running")
    status.table_files("a.b", BranchFileStats(data_files=files, manifests=100, manifest_list_bytes=20 * 1024))
    assert [problem.alert for problem in problems(status.report())] == (
        [] if files == 20 else ["CalveManifestListTooLarge"]
    )
