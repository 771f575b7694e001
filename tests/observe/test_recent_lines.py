"""The lines of the log for the dashboard: the last ones, of each pipeline, without values of rows and secrets."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pytest

from calve import credentials
from calve.errors import InvariantError, UnprocessableError
from calve.observe.batch_counts import BatchCounts
from calve.observe.blueprint import Blueprint, read_blueprint
from calve.observe.bug_report import BugReports
from calve.observe.log import Log, configure
from calve.observe.notices import Notices
from calve.observe.recent_lines import MOST_LINES, RecentLines
from calve.observe.terminal import Terminal
from calve.observe.watch import Watch
from calve.state.local_folder import LocalFolder

VALUE = "it's Ann's \"own\" value"
REASONS = (f"{VALUE!r} is not a valid long", f"{VALUE} does not fit", f"'{VALUE}' is twice in {VALUE}")


@pytest.fixture
def lines() -> RecentLines:
    handler = RecentLines()
    logger = logging.getLogger("calve")
    logger.addHandler(handler)
    logger.setLevel("INFO")
    yield handler
    logger.removeHandler(handler)


@pytest.mark.parametrize("reason", REASONS)
def test_no_value_of_a_row_is_in_a_line(lines: RecentLines, tmp_path: Path, reason: str) -> None:
    rejects, examples = {"shop.orders": {"NOT_COERCIBLE": 1}}, {"shop.orders": {"NOT_COERCIBLE": reason}}
    nulled, reasons = {"shop.orders": {"total": 1}}, {"shop.orders": {"total": reason}}
    Notices("p").log(BatchCounts(1, 9, rejects=rejects, examples=examples, nulled=nulled, reasons=reasons))
    BugReports(LocalFolder(tmp_path), Log("p")).begins(1, UnprocessableError(reason, step="write"))
    Log("p").error(InvariantError(f"The pipeline failed: {reason}", step="pipeline", hint="Report it"))
    text = lines.content("p").decode()
    assert text.count("\n") == 4
    assert "1 event rejected with NOT_COERCIBLE" in text
    assert "1 value of total became NULL" in text
    assert "searching for the events that cause it" in text
    assert "Report it" in text
    for part in ("Ann", "own", "value"):
        assert part not in text.replace("1 value of", "").replace("values", "")


def test_no_secret_and_no_control_character_is_in_a_line(lines: RecentLines) -> None:
    credentials.remember("hunter2-and-more", is_secret=True)
    Log("p").warning("cannot reach http://ann:other@h/?token=abc with hunter2-and-more \x1b[2J\u202e")
    text = lines.content("p").decode()
    for secret in ("hunter2", "other", "abc", "\x1b", "\u202e"):
        assert secret not in text


def test_the_last_lines_of_each_pipeline_are_kept_with_those_of_the_process(lines: RecentLines) -> None:
    Log().info("starting")
    for number in range(MOST_LINES + 5):
        Log("a").info(f"line {number} {'x' * 1000}")
    Log("b").info("one line")
    Log().info("ending")
    a, b = (lines.content(name).decode().splitlines() for name in "ab")
    assert len(a) == MOST_LINES
    assert "line 204" in a[-2]
    assert max(map(len, a)) < 700
    assert [line.split(" ", 1)[1] for line in b] == ["starting", "one line", "ending"]


def test_the_log_and_the_blueprint_are_beside_the_status(tmp_path: Path) -> None:
    logging.getLogger("calve").setLevel("INFO")
    blueprint = Blueprint("http", yaml="a: {}")
    with Watch() as watch:
        watch.pipeline("orders", str(tmp_path / "orders"), blueprint=blueprint)
        Log("orders").info("created the table shop.orders")
    Log("orders").info("after the end")
    assert read_blueprint(str(tmp_path), "orders") == blueprint
    log = tmp_path / "orders" / "log.txt"
    assert "created the table shop.orders" in log.read_text()
    assert "after the end" not in log.read_text()
    assert log.stat().st_mode & 0o077 == 0
    (tmp_path / "orders" / "pipeline.json").write_text("{")
    assert read_blueprint(str(tmp_path), "orders") is None


def test_a_program_without_logging_sees_warnings_while_its_lines_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("calve")
    before = logger.handlers[:], logger.propagate
    logger.handlers[:], logger.propagate = [], False
    try:
        with Watch(), Watch():
            Log("orders").info("fine")
            Log("orders").warning("2 values became NULL", hint="Widen the column")
        assert logger.handlers == []
        logger.addHandler(mine := logging.NullHandler())
        with Watch():
            Log("orders").warning("the program decides")
        assert logger.handlers == [mine]
    finally:
        logger.handlers[:], logger.propagate = before
    assert capsys.readouterr().err.split(" ", 1)[1] == "orders warning: 2 values became NULL. Widen the column\n"


def test_the_folder_of_the_shell_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PWD", "/home/ann/shop")
    monkeypatch.setenv("MYSQL_PWD", "hunter2-and-more")
    configure(Terminal(io.StringIO(), False))
    assert credentials.without_credentials("/home/ann/shop/x hunter2-and-more") == "/home/ann/shop/x …"
