from __future__ import annotations

import json
import threading

import msgspec
import pytest

from calve.errors import CommitError, SinkUnavailableError, SourceUnavailableError
from calve.observe.report import BranchFileStats, PipelineReport
from calve.observe.status import MAX_COMMITS, MAX_TABLES, BatchCounts, PipelineStatus
from calve.observe.tally import MOST_NAMES, OTHERS
from calve.observe.totals import Totals


class Clock:
    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def filled() -> PipelineStatus:
    status = PipelineStatus("orders", dlq="/elsewhere")
    status.set_state("running")
    rejects = {"shop.orders": {"NOT_COERCIBLE": 2}, "": {"MALFORMED": 1}}
    status.batch_written(BatchCounts(7, 1000, 22_000, 3, rejects, {"shop.orders": {"amount": 4}}), 0.5)
    status.table_committed("shop.orders", 994, 123)
    status.staged(1, 900)
    status.lag(50, 1100)
    status.freshness(1.25)
    status.trouble(SourceUnavailableError("Kafka is down", step="read", target="kafka:9092", hint="Start it"))
    return status


def test_a_report_survives_json_unchanged() -> None:
    report = filled().report()
    assert PipelineReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report


def test_a_report_of_another_version_is_read_with_defaults() -> None:
    report = PipelineReport.from_dict({"pipeline": "orders", "state": "running", "of_the_future": [1]})
    assert (report.pipeline, report.state, report.events, report.tables) == ("orders", "running", 0, {})


def test_what_is_no_report_is_refused() -> None:
    with pytest.raises(ValueError):
        PipelineReport.from_dict({"pipeline": 5})


def test_rejects_are_counted_by_code_by_table_and_without_a_table() -> None:
    report = filled().report()
    assert report.rejects == {"NOT_COERCIBLE": 2, "MALFORMED": 1}
    assert report.tables["shop.orders"].rejects == {"NOT_COERCIBLE": 2}
    assert report.rejects_without_table() == {"MALFORMED": 1}


def test_counts_go_on_from_the_totals_of_the_last_run_and_errors_do_not() -> None:
    first = filled()
    first.trouble(CommitError("gone"), table="shop.orders")
    second = PipelineStatus("orders", msgspec.json.decode(msgspec.json.encode(first.totals()), type=Totals))
    second.batch_written(BatchCounts(8, 10), 0.1)
    second.table_committed("shop.orders", 10, 124)
    report = second.report()
    assert (report.events, report.batches, report.rows, report.unrouted) == (1010, 2, 1004, 3)
    assert report.tables["shop.orders"].commits == 2
    assert report.rejects == {"NOT_COERCIBLE": 2, "MALFORMED": 1}
    assert (report.errors, report.tables["shop.orders"].error, report.events_per_second) == ([], None, 10.0)


def test_values_set_to_null_and_fields_without_a_column_are_counted_by_table_over_restarts() -> None:
    counts = BatchCounts(
        7,
        10,
        nulled={"a.b": {"n": 2}},
        reasons={"a.b": {"n": "'x' is not a valid int"}},
        ignored={"a.b": {"new": 3, "in.x": 1}},
    )
    first = PipelineStatus("orders")
    first.batch_written(counts, 0.5)
    second = PipelineStatus("orders", msgspec.json.decode(msgspec.json.encode(first.totals()), type=Totals))
    second.batch_written(counts, 0.5)
    table = second.report().tables["a.b"]
    assert (table.nulled, table.reasons, table.ignored) == (
        {"n": 4},
        {"n": "'x' is not a valid int"},
        {"new": 6, "in.x": 2},
    )


def test_field_names_of_a_table_are_bounded_and_no_count_is_lost() -> None:
    status = PipelineStatus("orders")
    for batch in range(3):
        fields = {f"f{number}": 2 for number in range(batch * MOST_NAMES, (batch + 1) * MOST_NAMES)}
        status.batch_written(BatchCounts(batch, 10, ignored={"a.b": fields}), 0.5)
    ignored = status.report().tables["a.b"].ignored
    assert (len(ignored), ignored[OTHERS]) == (MOST_NAMES + 1, 4 * MOST_NAMES)


def test_the_same_error_again_is_counted_and_keeps_its_beginning() -> None:
    status = filled()
    since = status.report().errors[0].since
    status.trouble(SourceUnavailableError("Kafka is still down", step="read", target="kafka:9092"))
    (trouble,) = status.report().errors
    assert (trouble.count, trouble.since, trouble.message) == (2, since, "Kafka is still down")


def test_recovery_clears_one_step_or_everything() -> None:
    status = filled()
    status.trouble(SinkUnavailableError("no catalog", step="commit", target="rest"))
    assert status.recovered(step="commit")
    assert [error.step for error in status.report().errors] == ["read"]
    assert status.recovered()
    assert not status.recovered()


def test_a_pipeline_that_stopped_with_everything_committed_has_no_error() -> None:
    status = filled()
    status.trouble(CommitError("dropped", step="commit", target="a.b"), table="a.b")
    status.set_state("stopped")
    report = status.report()
    assert (report.errors, report.tables["a.b"].error) == ([], None)


def test_a_failed_pipeline_keeps_its_errors() -> None:
    status = filled()
    status.set_state("failed")
    assert [error.message for error in status.report().errors] == ["Kafka is down"]


def test_a_held_table_is_free_after_recovery_or_a_commit() -> None:
    status = filled()
    for release in (lambda: status.recovered("a.b"), lambda: status.table_committed("a.b", 1, 1)):
        status.trouble(CommitError("dropped", step="commit", target="a.b"), table="a.b")
        assert status.report().tables["a.b"].error
        release()
        assert status.report().tables["a.b"].error is None
    assert not status.recovered("never.seen")
    assert "never.seen" not in status.report().tables


def test_the_rate_follows_the_last_seconds_and_falls_to_zero() -> None:
    clock = Clock()
    status = PipelineStatus("orders", clock=clock)
    for _ in range(30):
        clock.seconds += 1
        status.batch_written(BatchCounts(1, 500), 1)
    assert status.report().events_per_second == 500
    clock.seconds += 60
    assert status.report().events_per_second == 0


def test_a_batch_longer_than_the_window_counts_over_its_whole_time() -> None:
    clock = Clock()
    status = PipelineStatus("orders", clock=clock)
    clock.seconds += 50
    status.batch_written(BatchCounts(1, 5000), 50)
    assert status.report().events_per_second == 100


def test_rejects_for_ever_new_table_names_do_not_grow_the_status() -> None:
    status = PipelineStatus("orders")
    for number in range(MAX_TABLES + 100):
        status.batch_written(BatchCounts(number, 1, rejects={f"t{number}": {"NO_SUCH_TABLE": 1}}), 0)
    report = status.report()
    assert len(report.tables) == MAX_TABLES
    assert report.rejects == {"NO_SUCH_TABLE": MAX_TABLES + 100}
    assert report.rejects_without_table() == {"NO_SUCH_TABLE": 100}


def test_threads_lose_no_count() -> None:
    status = PipelineStatus("orders")

    def work() -> None:
        for number in range(500):
            status.batch_written(BatchCounts(number, 2), 0)
            status.table_committed("a.b", 1, number)
            status.report()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (status.report().events, status.report().rows) == (4000, 2000)


def test_the_last_commits_and_the_files_of_a_table_are_in_the_report_and_in_the_totals() -> None:
    status = PipelineStatus("orders")
    for number in range(MAX_COMMITS + 5):
        status.table_committed("a.b", number, number)
    status.table_files("a.b", BranchFileStats(3, 900, 1, 20, 7))
    report = PipelineReport.from_dict(status.report().to_dict())
    assert [one.snapshot_id for one in report.commits] == list(range(5, MAX_COMMITS + 5))
    assert report.tables["a.b"].files == BranchFileStats(3, 900, 1, 20, 7)
    assert status.totals().tables["a.b"].files == BranchFileStats(3, 900, 1, 20, 7)
    assert PipelineStatus("orders", status.totals()).report().commits == []


def test_the_last_maintenance_is_known_though_its_snapshot_has_expired() -> None:
    status = PipelineStatus("p")
    status.table_files("a.b", BranchFileStats(data_files=7))
    status.maintained("a.b", 0.5, has_changed=False, small_files=3)
    assert status.report().tables["a.b"].files.last_maintenance is None
    status.maintenance_failed("a.b", CommitError("other writers were faster"))
    status.maintained("a.b", 1.5, has_changed=True, small_files=4)
    at = status.report().tables["a.b"].files.last_maintenance
    status.table_files("a.b", BranchFileStats(data_files=8))
    found = status.report().tables["a.b"]
    assert found.files == BranchFileStats(data_files=8, last_maintenance=at)
    assert (found.maintenance_rounds, found.maintenance_seconds, found.maintenance_error) == (1, 2.0, None)
