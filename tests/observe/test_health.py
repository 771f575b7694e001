"""A supervisor learns whether the pipelines of a process are alive, and whether they take and commit events."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from calve.errors import CommitError, SourceUnavailableError
from calve.observe.health import STUCK_SECONDS
from calve.observe.metrics import Metrics
from calve.observe.status import PipelineStatus
from calve.observe.watch import Watch
from kit.documents import runnable


def ask(metrics: Metrics, path: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/{path}", timeout=10) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_a_process_is_ready_once_all_of_its_pipelines_run(tmp_path: Path) -> None:
    with Watch() as watch, Metrics(watch.reports, 0, health=watch.health) as metrics:
        assert ask(metrics, "readyz")[0] == 503  # nothing has been said about any pipeline
        watch.expect(["a", "b"])
        first = watch.pipeline("a", str(tmp_path / "a"))
        first.set_state("waiting")
        states = {"a": {"state": "waiting"}, "b": {"state": "starting"}}
        assert ask(metrics, "readyz") == (503, {"status": "not ready", "pipelines": states})
        second = watch.pipeline("b", str(tmp_path / "b"))
        second.set_state("running")
        second.trouble(SourceUnavailableError("the broker is away"))
        assert ask(metrics, "readyz")[0] == 200
        first.trouble(CommitError("dropped"), table="x.y")
        status, answer = ask(metrics, "readyz")
        assert (status, answer["pipelines"]["a"]) == (
            503,
            {"state": "waiting", "held": {"x.y": "dropped"}, "wrong": ["dropped"]},
        )
        first.table_committed("x.y", 1, 1)
        assert ask(metrics, "readyz")[0] == 200
        first.set_state("draining")
        assert ask(metrics, "readyz")[0] == 503
        assert ask(metrics, "healthz") == (200, {"status": "ok"})


def test_a_process_whose_source_refuses_clients_is_not_ready_until_it_accepts_them(tmp_path: Path) -> None:
    with Watch() as watch, Metrics(watch.reports, 0, health=watch.health) as metrics:
        watch.expect(["a"])
        status = watch.pipeline("a", str(tmp_path / "a"))
        status.set_state("waiting")
        status.lag(0, 0, "all 500 connections are open")
        code, answer = ask(metrics, "readyz")
        assert (code, answer["pipelines"]["a"]["refusing"]) == (503, "all 500 connections are open")
        assert ask(metrics, "healthz")[0] == 200
        status.lag(0, 0)
        assert ask(metrics, "readyz")[0] == 200


def test_a_pipeline_that_failed_is_named_whether_it_began_or_not(tmp_path: Path) -> None:
    with Watch() as watch, Metrics(watch.reports, 0, health=watch.health) as metrics:
        watch.expect(["a", "b", "c"])
        watch.pipeline("a", str(tmp_path / "a")).set_state("failed")
        watch.failed("a", "no space")
        watch.failed("b", "it is locked")
        assert ask(metrics, "healthz") == (
            503,
            {"status": "failed", "pipelines": {"a": "no space", "b": "it is locked"}},
        )
        assert ask(metrics, "readyz")[1]["pipelines"]["b"] == {"state": "failed", "error": "it is locked"}


def test_a_pipeline_that_does_nothing_for_long_is_stuck_until_it_does_something_again() -> None:
    clock = [0.0]
    status = PipelineStatus("p", clock=lambda: clock[0])
    status.set_state("running")
    clock[0] += STUCK_SECONDS + 1
    with Metrics(list, 0, health=lambda: {"p": status.health()}) as metrics:
        told = {"p": f"has done nothing for {STUCK_SECONDS + 1:.0f} s while running"}
        assert ask(metrics, "healthz") == (503, {"status": "failed", "pipelines": told})
        status.lag(0, 0)
        assert ask(metrics, "healthz")[0] == 200
        status.set_state("stopped")
        clock[0] += STUCK_SECONDS + 1
        assert ask(metrics, "healthz")[0] == 200


def test_the_answer_on_the_page_is_that_of_a_waiting_and_a_starting_pipeline(tmp_path: Path) -> None:
    [shown] = runnable("docs/running.md")
    with Watch() as watch, Metrics(watch.reports, 0, health=watch.health) as metrics:
        watch.expect(["orders", "clicks"])
        watch.pipeline("orders", str(tmp_path / "orders")).set_state("waiting")
        starting = watch.pipeline("clicks", str(tmp_path / "clicks"))
        starting.trouble(SourceUnavailableError("Kafka at kafka:9092 does not answer"))
        assert ask(metrics, "readyz") == (503, json.loads(shown))
