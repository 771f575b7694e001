from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta

from calve.observe.liveness import liveness, process_started
from calve.observe.report import PipelineReport, now
from calve.observe.status import PipelineStatus


def running() -> PipelineReport:
    status = PipelineStatus("orders")
    status.set_state("running")
    return status.report()


def test_this_process_is_alive() -> None:
    assert liveness(running()) == "alive"


def test_a_pipeline_that_said_so_has_ended() -> None:
    for state in ("stopped", "failed"):
        report = running()
        report.state = state  # type: ignore[assignment]
        assert liveness(report) == "ended"


def test_a_killed_process_is_gone_even_while_it_is_a_zombie() -> None:
    report = running()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    report.pid, report.process_started = child.pid, process_started(child.pid)
    assert liveness(report) == "alive"
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, not yet reaped
    assert liveness(report) == "gone"
    child.communicate()
    assert liveness(report) == "gone"


def test_a_reused_process_number_is_not_taken_for_the_pipeline() -> None:
    report = running()
    report.process_started -= 1
    assert liveness(report) == ("gone" if process_started(os.getpid()) else "alive")


def test_a_pipeline_that_says_nothing_is_silent() -> None:
    report = running()
    assert liveness(report, now() + timedelta(seconds=60)) == "silent"


def test_a_pipeline_on_another_machine_is_judged_by_its_news_alone() -> None:
    report = running()
    report.host, report.pid = "elsewhere", 1
    assert liveness(report) == "alive"
    assert liveness(report, now() + timedelta(seconds=60)) == "silent"
