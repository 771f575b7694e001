from __future__ import annotations

import io
import json

import pytest

from calve.errors import SourceUnavailableError
from calve.observe.log import Log, configure
from calve.observe.progress import ProgressLine, ending, summary
from calve.observe.status import BatchCounts, PipelineStatus
from calve.observe.terminal import CLEAR, Terminal


class Clock:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def working() -> PipelineStatus:
    status = PipelineStatus("orders")
    status.set_state("running")
    status.batch_written(BatchCounts(1, 20_000, rejects={"a.b": {"NOT_COERCIBLE": 12}}), 1)
    status.table_committed("a.b", 19_988, 1)
    status.lag(1_200_000, 5)
    return status


def progress(
    status: PipelineStatus, clock: Clock, *, live: bool, json: bool = False
) -> tuple[ProgressLine, io.StringIO]:
    stream = io.StringIO()
    terminal = configure(Terminal(stream, live), json=json)
    return ProgressLine(lambda: [status.report()], terminal, json=json, clock=clock), stream


def screen(written: str) -> list[str]:
    """What a terminal shows after all that was written."""
    return [line.split(CLEAR)[-1] for line in written.split("\n")]


def test_the_line_says_rate_rows_lag_commit_and_rejects() -> None:
    said = summary(working().report())
    assert said.startswith("running · 20.0k events/s · 19,988 rows written to 1 table · lag 1.2M rows · last commit ")
    assert said.endswith(" ago · 12 rejects")


def test_the_line_names_what_is_wrong() -> None:
    status = working()
    status.trouble(SourceUnavailableError("Kafka does not answer", step="read"))
    assert summary(status.report()).endswith("error: Kafka does not answer")


def test_the_last_line_says_what_this_run_did_and_the_codes_of_its_rejects() -> None:
    status = PipelineStatus("orders", working().totals())
    status.keeps_dead_letters_in(["a.letters"])
    status.batch_written(BatchCounts(2, 1_204, rejects={"": {"MALFORMED": 2}, "a.b": {"NOT_COERCIBLE": 11}}), 1)
    status.rejected("a.b", {"NOT_COERCIBLE": 1})
    for table, rows in (("a.b", 1_100), ("a.c", 90), ("a.letters", 14)):
        status.table_committed(table, rows, 1)
    status.set_state("stopped")
    assert ending(status.report(), "calve dlq show") == (
        "stopped · 1,204 events · 1,190 rows written to 2 tables · 14 rejected (NOT_COERCIBLE 12, MALFORMED 2): calve dlq show"
    )


def test_the_last_line_of_a_run_that_rejected_nothing_names_no_command() -> None:
    status = PipelineStatus("orders", working().totals())
    status.set_state("stopped")
    assert ending(status.report(), "calve dlq show") == "stopped · 0 events · 0 rows written to 0 tables"


def test_on_a_terminal_one_line_is_redrawn_below_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    shown, stream = progress(working(), Clock(), live=True)
    shown.tick()
    Log("orders").info("hello")
    shown.tick()
    lines = screen(stream.getvalue())
    assert lines[0].endswith("orders hello")
    assert lines[1].startswith("orders running · ")
    assert len(lines) == 2


def test_the_live_line_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    shown, stream = progress(working(), Clock(), live=True)
    shown.tick()
    assert len(screen(stream.getvalue())[-1]) == 39


def test_at_the_end_the_live_line_is_gone_and_the_last_figures_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    status = working()
    shown, stream = progress(status, Clock(), live=True)
    with shown:
        shown.tick()
        status.set_state("stopped")
    lines = screen(stream.getvalue())
    assert len(lines) == 2
    assert " orders stopped · " in lines[0]
    assert lines[1] == ""


def test_elsewhere_a_plain_line_comes_every_ten_seconds_in_which_something_moved() -> None:
    clock, status = Clock(), working()
    shown, stream = progress(status, clock, live=False)
    for second in range(35):
        clock.seconds = float(second)
        shown.tick()
    assert stream.getvalue().count("\n") == 1
    status.batch_written(BatchCounts(2, 1), 1)
    clock.seconds = 45
    shown.tick()
    assert stream.getvalue().count("\n") == 2
    assert "\x1b" not in stream.getvalue()


def test_how_a_pipeline_ended_is_said_once_however_long_spark_takes_to_stop() -> None:
    clock, status = Clock(), working()
    shown, stream = progress(status, clock, live=False)
    status.set_state("stopped")
    clock.seconds = 11
    shown.tick()
    shown.close()
    assert stream.getvalue().count(" orders stopped · ") == 1


def test_with_json_progress_is_records_even_on_a_terminal() -> None:
    clock = Clock()
    shown, stream = progress(working(), clock, live=True, json=True)
    clock.seconds = 11
    shown.tick()
    record = json.loads(stream.getvalue())
    figures = {"pipeline": "orders", "state": "running", "events": 20_000, "rows": 19_988, "rejects": 12, "errors": 0}
    assert {key: record[key] for key in figures} == figures
