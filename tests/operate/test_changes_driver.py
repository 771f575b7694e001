"""The socket between the planners of `calve_changes` and the program; without Spark."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calve.errors import EngineError, SettingsError
from calve.operate.changes_format import driver as module
from calve.operate.changes_format.source import DriverAddress


class Answers:
    def __init__(self, spark: Any, scratch: Path) -> None:
        self.child = 0

    def is_of(self, spark: Any) -> bool:
        return True

    def open(self, what: str) -> str:
        """Fork amid an answer, as multiprocessing does, or refuse."""
        if what == "fork":
            self.child = os.fork()
            if not self.child:
                signal.pause()
                os._exit(0)
        if what == "refuse":
            raise SettingsError("no", step="settings", hint="write it otherwise")
        return what

    def close(self) -> None:
        """Keep nothing."""


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(module, "ChangesAnswers", Answers)
    started = module._Driver()
    yield started
    started._close()
    started._pool.shutdown()


def ask(address: DriverAddress, what: str) -> Any:
    """Return the answer or its error; fails if there is none: a planner would wait for ever."""
    answers: list[Any] = []

    def asking() -> None:
        try:
            answers.append(address.ask("open", what=what))
        except Exception as error:
            answers.append(error)

    thread = threading.Thread(target=asking, daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert answers, "no answer"
    return answers[0]


@pytest.fixture(autouse=True)
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "1")  # a planner's process sets it; monkeypatch removes it


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_of_the_program_keeps_no_planner_waiting(driver: Any) -> None:
    address = DriverAddress(driver.socket, driver.session(None))
    try:
        assert ask(address, "fork") == "fork"
        assert ask(address, "more") == "more"
        driver._is_closed = True
        ask(address, "wake")
        driver._thread.join(timeout=60)
        driver._listener.close()  # as if the program was killed, and the fork was not
        assert isinstance(ask(address, "late"), EngineError)
    finally:
        os.kill(driver._answers[0].child, signal.SIGKILL)
        os.waitpid(driver._answers[0].child, 0)


def test_errors_arrive_as_they_were_and_a_refused_thread_is_no_silence(
    driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = DriverAddress(driver.socket, driver.session(None))
    refused = ask(address, "refuse")
    assert (type(refused), str(refused)) == (SettingsError, "no. write it otherwise")

    def full(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(driver._pool, "submit", full)
    assert isinstance(ask(address, "anything"), EngineError)
    monkeypatch.undo()
    assert "does not answer" in str(ask(DriverAddress(str(driver._folder / "gone"), 0), "anything"))


def test_a_driver_whose_socket_is_gone_is_replaced(driver: Any) -> None:
    assert driver.answers()
    Path(driver.socket).unlink()
    assert not driver.answers()


def test_a_folder_that_cannot_have_a_socket_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with pytest.raises(EngineError, match=r"is too long for a socket\. Set TMPDIR"):
        module._Driver()
    monkeypatch.undo()

    def refused(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(module.socket, "socket", type("Socket", (socket.socket,), {"bind": refused}))
    with pytest.raises(EngineError, match=r"cannot have a socket: .*Set TMPDIR"):
        module._Driver()
