"""How long a step of a pipeline is repeated; without Spark and without waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from calve.errors import CalveError, SinkUnavailableError, WriteError
from calve.network import backoff
from calve.observe.log import Log
from calve.pipeline.retries import StepRetries


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "delay", lambda failures: 0.0)


def retry(stop: threading.Event, **more: Any) -> StepRetries:
    status: Any = SimpleNamespace(trouble=lambda error: None, recovered=lambda: None)
    options = {"give_up_seconds": 1e9, "is_bounded": False, "check": lambda: None, **more}
    return StepRetries(stop, log=Log("p"), status=status, **options)


def failing(error: CalveError, tries: list[int], then: Callable[[int], None]) -> Callable[[], str]:
    def action() -> str:
        tries.append(1)
        then(len(tries))
        if len(tries) < 5:
            raise error
        return "done"

    return action


@pytest.mark.parametrize(
    ("error", "leave", "tries"),
    [
        (SinkUnavailableError("http://x does not answer"), False, 2),
        (WriteError("the disk is full"), False, 5),
        (WriteError("the disk is full"), True, 2),
    ],
)
def test_a_stop_waits_for_disks_and_stores_but_for_no_server_of_a_sink(
    error: CalveError, leave: bool, tries: int
) -> None:
    stop, count = threading.Event(), list[int]()
    action = failing(error, count, lambda number: stop.set() if number == 2 else None)
    if tries == 5:
        assert retry(stop).run("write", action, leave) == "done"
    else:
        with pytest.raises(type(error), match="Given up: ") as given_up:
            retry(stop).run("write", action, leave)
        assert given_up.value.hint == "Nothing is lost: the next run continues from here"
    assert len(count) == tries


def test_a_run_that_ends_by_itself_gives_up_and_an_error_elsewhere_ends_the_retries() -> None:
    count, stop = list[int](), threading.Event()
    with pytest.raises(WriteError, match="Given up"):
        retry(stop, is_bounded=True, give_up_seconds=0.0).run(
            "write", failing(WriteError("full"), count, lambda _: None)
        )
    assert len(count) == 1

    def check() -> None:
        raise CalveError("the committer failed")

    with pytest.raises(CalveError, match="the committer failed"):
        retry(stop, check=check).run("write", failing(WriteError("full"), count, lambda _: None))
