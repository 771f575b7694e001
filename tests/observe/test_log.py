from __future__ import annotations

import io
import json
import logging
import os
import re

import pytest

from calve.errors import SinkUnavailableError
from calve.observe.log import Log, configure
from calve.observe.terminal import CLEAR, Terminal


def said(*, live: bool = False, json: bool = False, debug: bool = False) -> io.StringIO:
    stream = io.StringIO()
    configure(Terminal(stream, live), json=json, debug=debug)
    return stream


def failure() -> SinkUnavailableError:
    error = SinkUnavailableError("the catalog does not answer", step="commit", target="rest", hint="Start it")
    error.__cause__ = ConnectionRefusedError("refused")
    return error


def test_people_see_time_pipeline_and_message() -> None:
    stream = said()
    Log("orders").info("committed 3 rows", rows=3)
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ orders committed 3 rows\n", stream.getvalue())


def test_an_error_is_one_line_with_the_way_out_and_a_traceback_only_for_debugging() -> None:
    stream = said()
    Log("orders").error(failure())
    assert stream.getvalue().endswith(" orders error: the catalog does not answer. Start it\n")
    assert stream.getvalue().count("\n") == 1
    stream = said(debug=True)
    Log("orders").error(failure())
    assert "ConnectionRefusedError: refused" in stream.getvalue()


def test_json_lines_have_constant_keys() -> None:
    stream = said(json=True)
    Log("orders").info("committed", rows=3)
    Log("orders").warning("slow")
    Log("orders").error(failure())
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [set(line) - {"rows"} for line in lines[:2]] == [{"time", "level", "pipeline", "message"}] * 2
    assert (lines[0]["rows"], lines[1]["level"]) == (3, "warning")
    assert {key: lines[2][key] for key in ("level", "error", "step", "target", "hint")} == {
        "level": "error",
        "error": "SinkUnavailableError",
        "step": "commit",
        "target": "rest",
        "hint": "Start it",
    }


def test_a_json_line_stays_one_line_whatever_is_said() -> None:
    stream = said(json=True, debug=True)
    Log("orders").error(failure(), place=object())
    assert "traceback" in json.loads(stream.getvalue())


HOSTILE = "a\x1b[2J\x9b1A\u202e\u2066\x07\u2028z"


@pytest.mark.parametrize("is_json", [False, True])
def test_names_that_control_a_terminal_are_escaped_in_every_line(is_json: bool) -> None:
    stream = said(json=is_json)
    Log("orders").warning(f"the table {HOSTILE} is missing", table=HOSTILE)
    text = stream.getvalue().removesuffix("\n")
    assert text.isprintable()
    if is_json:
        assert json.loads(text)["table"] == HOSTILE


def test_names_that_control_a_terminal_are_escaped_in_the_live_line() -> None:
    stream = io.StringIO()
    Terminal(stream, live=True).redraw(f"orders: {HOSTILE}")
    assert stream.getvalue() == CLEAR + r"orders: a\x1b[2J\x9b1A\u202e\u2066\x07\u2028z"


def test_a_message_with_a_per_cent_sign_is_said_as_it_is() -> None:
    stream = said()
    Log().info("100 % of %s")
    assert stream.getvalue().endswith(" 100 % of %s\n")


def test_debug_is_silent_unless_asked_for() -> None:
    stream = said()
    Log().debug("detail")
    assert stream.getvalue() == ""
    stream = said(debug=True)
    Log().debug("detail")
    assert "detail" in stream.getvalue()


def test_other_libraries_are_quiet() -> None:
    stream = said()
    for name in ("py4j.clientserver", "uvicorn.error", "pyspark"):
        logging.getLogger(name).error("noise")
    assert stream.getvalue() == ""


def test_a_reader_that_goes_away_ends_the_writing_and_nothing_else() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    configure(Terminal(Gone(), False))
    Log().info("to nobody")
    Log().info("to nobody again")


def test_a_known_secret_is_in_no_message_field_or_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALVE_DASHBOARD_PASSWORD", "p@ss 'w\\ord\" ü")
    secret = os.environ["CALVE_DASHBOARD_PASSWORD"]
    for as_json in (False, True):
        stream = said(json=as_json, debug=True)
        error = failure()
        error.__cause__ = ConnectionRefusedError(f"{secret!r} {json.dumps(secret)}")
        Log("orders").info(f"it says {secret}", answers=[{"why": secret, "what": object()}], rows=3)
        Log("orders").error(error)
        assert "orders" in stream.getvalue()
        assert not re.search(r"p@ss|ord\\", stream.getvalue())


def test_the_names_of_a_line_stay_whatever_a_secret_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALVE_DASHBOARD_PASSWORD", "orders")
    stream = said(json=True)
    Log("orders").warning("orders is down")
    line = json.loads(stream.getvalue())
    assert (line["pipeline"], line["message"]) == ("orders", "… is down")


def test_a_warning_is_logged_once_for_each_key_and_without_one_for_each_message() -> None:
    stream, log = said(), Log("orders")
    for path in ("a", "b", "a"):
        log.warning_once(f"{path} is not read", hint="Rename it")
        log.warning_once(f"{path} cannot be listed", key="listing")
    assert re.findall(r"warning: (.*)", stream.getvalue()) == [
        "a is not read. Rename it",
        "a cannot be listed",
        "b is not read. Rename it",
    ]
