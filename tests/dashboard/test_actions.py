"""Actions run the commands of `calve`; here a program that prints its arguments stands for them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from calve.cli.main import calve
from calve.dashboard.actions import Actions
from dashboard.conftest import Visit, Visitor
from kit.running import until

ECHO = [sys.executable, "-c", "import sys; print(sys.argv[1:]); sys.exit(len(sys.argv) == 2)"]
WAIT = [sys.executable, "-c", "import sys, time; print('waits', flush=True); time.sleep(60)"]


def ended(actions: Actions | None) -> str:
    assert actions is not None
    until(lambda: actions.jobs[0].code is not None, "the action has ended")
    return actions.jobs[0].output


def acting(visit: Visit, program: list[str]) -> Visitor:
    visitor = visit("failing", program)
    visitor.log_in()
    visitor.get("/pipelines/orders")
    return visitor


@pytest.mark.parametrize(
    ("action", "form", "arguments"),
    [
        ("pause", {}, "pause --state STATE -- orders"),
        ("resume", {}, "resume --state STATE -- orders"),
        ("replay", {}, "dlq replay --pipeline=orders --state STATE -- YAML"),
        ("replay", {"code": "NO_KEY", "table": "a.b"}, "dlq replay --pipeline=orders --state STATE --code=NO_KEY --table=a.b -- YAML"),
        ("maintain", {"table": "shop.orders"}, "maintain --pipelines=YAML -- shop.orders"),
        ("forget", {"table": "shop.refunds"}, "state forget --pipeline=orders --state STATE --yes -- shop.refunds"),
    ],
)  # fmt: skip
def test_each_action_is_a_command_that_calve_has(
    visit: Visit, tmp_path: Path, action: str, form: dict[str, str], arguments: str
) -> None:
    visitor = acting(visit, ECHO)
    answer = visitor.post(f"/pipelines/orders/{action}", **form)
    assert (answer.status, answer.headers["Location"]) == (303, "/actions")
    output = ended(visitor.app.actions)
    expected = arguments.replace("STATE", visitor.app.state).replace("YAML", str(tmp_path / "orders.yaml")).split()
    assert output == str(expected)
    assert "done" in visitor.get("/actions").text
    command, names = calve, expected[:]
    while hasattr(command, "commands") or command is calve:
        command = command.get_command(None, names.pop(0))  # type: ignore[arg-type,attr-defined]
    (tmp_path / "orders.yaml").touch()
    command.make_context("calve", names)


def test_options_in_names_stay_names(visit: Visit) -> None:
    visitor = acting(visit, ECHO)
    visitor.post("/pipelines/orders/replay", code="--state=/etc", table="--conf=a=b")
    output = ended(visitor.app.actions)
    assert "'--code=--state=/etc', '--table=--conf=a=b'" in output


def test_unknown_pipelines_tables_and_actions_run_nothing(visit: Visit) -> None:
    visitor = acting(visit, ECHO)
    for path, table in (
        ("/pipelines/none/pause", ""),
        ("/pipelines/../pause", ""),
        ("/pipelines/orders/drop", ""),
        ("/pipelines/orders/maintain", "shop.others"),
        ("/pipelines/orders/forget", ""),
    ):
        assert visitor.post(path, table=table).status == 404
    assert visitor.app.actions is not None
    assert visitor.app.actions.jobs == []


def test_one_command_runs_at_a_time_and_ends_with_the_dashboard(visit: Visit) -> None:
    visitor = acting(visit, WAIT)
    assert visitor.post("/pipelines/orders/pause").status == 303
    answer = visitor.post("/pipelines/orders/resume")
    assert answer.status == 409
    assert b"still running" in answer.body
    assert visitor.app.actions is not None
    visitor.app.actions.close()
    ended(visitor.app.actions)
    assert "failed, exit code -15" in visitor.get("/actions").text


def test_output_of_any_bytes_is_shown_as_text_and_bounded(visit: Visit) -> None:
    code = "import os; os.write(1, b'<b>\\xff\\x1b[2J\\n' + b'x' * 9000 + b'\\n' + b'line\\n' * 1000)"
    visitor = acting(visit, [sys.executable, "-c", code])
    visitor.post("/pipelines/orders/pause")
    output = ended(visitor.app.actions)
    assert output.count("\n") == 199
    visitor = acting(visit, [sys.executable, "-c", "import os; os.write(1, b'<b>\\xff\\x1b[2J\\n')"])
    visitor.post("/pipelines/orders/pause")
    ended(visitor.app.actions)
    assert "<b>\\xff\\x1b[2J" in visitor.get("/actions").text


def test_buttons_fit_the_state_of_the_pipeline(visit: Visit) -> None:
    visitor = acting(visit, ECHO)
    assert [one["action"].rpartition("/")[2] for one in visitor.get("/pipelines/clicks").all("form")] == [
        "logout",
        "resume",
        "replay",
        "maintain",
    ]
    assert "Let shop.refunds go" in visitor.get("/pipelines/orders").text
