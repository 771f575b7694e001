"""One definition of what is wrong: `calve status`, the dashboard, health and the alerts follow it."""

from __future__ import annotations

from datetime import timedelta

import yaml

from calve.errors import CommitError, SourceUnavailableError
from calve.observe import monitoring
from calve.observe.gate_report import GateReport
from calve.observe.problems import problems
from calve.observe.report import BranchFileStats, NotifyReport, PipelineReport, now
from calve.observe.status import BatchCounts, PipelineStatus

ALERTS = {
    rule["alert"]: rule["labels"]["severity"] for rule in yaml.safe_load(monitoring.alerts())["groups"][0]["rules"]
}
LEVELS = {"critical": "bad", "warning": "note"}


def running() -> PipelineStatus:
    status = PipelineStatus("orders")
    status.set_state("running")
    return status


def everything_wrong() -> list[PipelineReport]:
    """Return reports that have every problem between them."""
    status = running()
    status.trouble(SourceUnavailableError("Kafka is down", step="read"))
    status.trouble(CommitError("dropped", step="commit"), table="shop.gone")
    status.batch_written(BatchCounts(1, 100, rejects={"a.b": {"NO_KEY": 1}}, nulled={"a.b": {"n": 2}}), 0.1)
    status.table_committed("a.b", 97, 1)
    status.lag(5, 500, "its disk is nearly full", {"429": 7})
    status.dead_letter_room(1 << 30, is_full=True)
    status.source("", ["public.orders"])
    status.freshness(1_000.0)
    status.table_files("a.b", BranchFileStats(data_files=9, manifests=1_001, manifest_list_bytes=10_000))
    status.maintained("a.b", 1.0, has_changed=False, small_files=10_001)
    status.after_commit("a.b", gate=GateReport("audit", 1, 10, "email is NULL in 2 of 10 rows", blocked=True))
    status.notified("http://hook", NotifyReport(waiting=3, error="no answer"))
    late, gone, failed = running(), running().report(), running()
    late.table_committed("a.b", 1, 1, now() - timedelta(hours=1))
    late.lag(5, 500)
    gone.process_started += 1
    failed.set_state("failed")
    return [status.report(), late.report(), gone, failed.report()]


def test_every_alert_is_a_problem_of_its_severity_and_every_named_problem_an_alert() -> None:
    levels = {one.alert: one.level for report in everything_wrong() for one in problems(report, True) if one.alert}
    assert set(levels) == set(ALERTS)
    assert {name: level for name, level in levels.items() if LEVELS[ALERTS[name]] != level} == {"CalveErrors": "bad"}


def test_a_dead_letter_is_wrong_as_long_as_it_waits() -> None:
    status = running()
    assert problems(status.report()) == []
    status.batch_written(BatchCounts(1, 100, rejects={"a.b": {"NO_KEY": 1}}), 0.1)
    (problem,) = problems(report := status.report())
    assert "1 dead letter waits: NO_KEY 1. calve dlq show" in problem.sentence()
    assert status.health().wrong == [problem.what]
    report.last_reject = now() - timedelta(days=1)
    assert [one.alert for one in problems(report)] == ["CalveRejects"]
    status.dead_letters_wait({})
    assert problems(status.report()) == []


def test_dead_letters_of_earlier_runs_are_wrong_after_a_restart() -> None:
    status = running()
    status.dead_letters_wait({"": {"NO_KEY": 2}, "a.b": {"NO_KEY": 1}})
    assert [problem.what for problem in problems(status.report())] == ["3 dead letters wait: NO_KEY 3"]
    status.dead_letters_wait({"": {"": 1_200}})
    assert [problem.what for problem in problems(status.report())] == ["1,200 dead letters wait"]


def test_a_run_that_has_ended_keeps_what_was_wrong_with_it() -> None:
    status = running()
    status.batch_written(BatchCounts(1, 100, rejects={"a.b": {"NO_KEY": 1}}), 0.1)
    status.set_state("stopped")
    report = status.report()
    report.updated = report.last_reject = now() - timedelta(days=1)
    assert [one.alert for one in problems(report)] == ["CalveRejects"]
