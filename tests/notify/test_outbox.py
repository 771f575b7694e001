"""Events wait for their receivers over restarts, each once, and never without bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from calve.notify import outbox as module
from calve.notify.event import CloudEvent
from calve.notify.outbox import Outbox
from calve.state.local_folder import LocalFolder


def event(name: str) -> CloudEvent:
    return CloudEvent.of("p", "table.committed", name, {"n": 1}, "a.b")


def opened(folder: Path, *receivers: str) -> Outbox:
    state = LocalFolder(folder)
    state.make()
    return Outbox(state, receivers or ("r",))


def ids(outbox: Outbox, key: str = "r") -> list[str]:
    return [waiting.id for waiting in outbox.after(key, 100)]


def test_events_can_be_sent_only_after_they_are_durable_and_survive_a_restart_in_their_order(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.add(event("1"))
    assert ids(first) == []
    first.keep(1)
    first.add(event("2"))
    first.keep(2)
    again = opened(tmp_path)
    assert ids(first) == ids(again) == ["1", "2"]
    assert [waiting.sequence[-1] for waiting in again.after("r", 9)] == ["1", "2"]


def test_an_event_whose_batch_comes_again_is_not_kept_twice_until_the_batch_is_forgotten(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.add(event("1"))
    first.keep(1)
    first.sent("r", 1)
    first.forget(0)
    again = opened(tmp_path)
    again.add(event("1"))
    again.keep(1)
    assert ids(again) == []
    again.forget(1)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("sent-")] == []


def test_each_receiver_has_its_own_place_and_a_new_one_begins_with_the_next_event(tmp_path: Path) -> None:
    outbox = opened(tmp_path, "r", "s")
    outbox.add(event("1"))
    outbox.keep(1)
    outbox.sent("r", 1)
    outbox.forget(1)
    again = opened(tmp_path, "r", "s", "new")
    assert (ids(again, "r"), ids(again, "s"), ids(again, "new")) == ([], ["1"], [])
    again.add(event("2"))
    again.keep(2)
    assert ids(again, "new") == ["2"]


def test_numbers_go_on_although_all_events_are_gone(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.add(event("1"))
    first.keep(1)
    first.sent("r", 1)
    first.forget(1)
    again = opened(tmp_path)
    again.add(event("2"))
    again.keep(2)
    assert [waiting.number for waiting in again.after("r", 9)] == [2]


def test_too_many_events_drop_the_oldest_and_count_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 3)
    outbox = opened(tmp_path)
    for number in range(1, 6):
        outbox.add(event(str(number)))
        outbox.keep(number)
    outbox.forget(5)
    assert ids(outbox) == ["3", "4", "5"]
    assert outbox.waiting("r") == (3, 2)
    assert len(list(tmp_path.glob("0*.json"))) == 3
    outbox.sent("r", 5)
    assert opened(tmp_path).waiting("r") == (0, 2)
