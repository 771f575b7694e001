"""The log on an object store: whatever happens to its drivers, what was kept is read once, and only one can write."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.errors import OvertakenError, PositionLostError, WriteError
from calve.sources.log import store_chain
from calve.sources.log.index import LogPosition, SegmentIndex
from calve.sources.log.log import AppendOutcome, Journal, JournalEntry, JournalLimits
from calve.sources.log.record import RecordEvents
from calve.sources.log.records import records
from calve.sources.log.store_chain import SegmentCause
from calve.sources.source import Position
from calve.state.store_folder import StoreFolder
from sources.http.serving import until

NAMES = itertools.count()


class Remembered:
    """Keys of deleted segments, which outlive a driver."""

    def __init__(self) -> None:
        self.kept: set[bytes] = set()
        self.seen: set[bytes] = set()

    def __contains__(self, key: bytes) -> bool:
        return key in self.seen or key in self.kept

    def add(self, keys: Any) -> None:
        self.seen.update(key for _, key in keys)

    def keep(self, keys: list[tuple[int, bytes]]) -> None:
        self.kept.update(key for _, key in keys)


class Driver:
    """One driver with a log, from its start at a position on."""

    def __init__(
        self, folder: StoreFolder, position: Position | None = None, segment_bytes: int = 300, log_bytes: int = 1 << 40
    ) -> None:
        self.folder = folder
        self.index = SegmentIndex(folder)
        self.index.load(position)
        self.keys = Remembered()
        self.keys.add(key for each in self.index.segments for key in each.keys)
        self.log = Journal(folder, self.index, self.keys, JournalLimits(log_bytes, 0, segment_bytes))
        self.log.open(lambda entries: None)

    def keep(self, text: str, key: str = "") -> AppendOutcome | None:
        data = text.encode()
        entry = JournalEntry(RecordEvents(1, len(data).to_bytes(4, "little"), data), key.encode())
        self.log.submit(entry)
        until(lambda: entry.outcome)
        return entry.outcome

    def read(self, position: Position | None = None) -> list[str]:
        planned = self.index.plan(position, 1 << 40)
        splits = planned.splits if planned else []
        return [bytes(body[len(body) - head.data_bytes :]).decode() for one in splits for head, body in self._of(one)]

    def _of(self, split: Any) -> Iterator[tuple[Any, memoryview]]:
        return records(self.folder, split)

    def end(self, position: Position | None = None) -> Position:
        planned = self.index.plan(position, 1 << 40)
        return planned.position if planned else position or {}


@pytest.fixture
def folder() -> StoreFolder:
    return StoreFolder(f"memory://logs/{next(NAMES)}")


def test_what_was_kept_is_read_by_the_next_driver_whether_or_not_the_first_one_was_closed(folder: StoreFolder) -> None:
    first = Driver(folder)
    assert [first.keep(text) for text in "abc"] == [AppendOutcome.KEPT] * 3
    second = Driver(folder)
    assert second.read() == ["a", "b", "c"]
    assert second.keep("d") is AppendOutcome.KEPT
    second.log.close()
    assert Driver(folder).read() == ["a", "b", "c", "d"]


def test_a_driver_that_was_replaced_keeps_nothing_more_and_knows_why(folder: StoreFolder) -> None:
    first = Driver(folder)
    first.keep("a")
    second = Driver(folder)
    assert first.keep("lost") is AppendOutcome.FAILED
    assert isinstance(first.log.overtaken, OvertakenError)
    assert first.keep("lost") is AppendOutcome.FAILED
    assert second.keep("b") is AppendOutcome.KEPT
    assert second.read() == ["a", "b"]


def test_a_driver_that_slept_over_everything_that_the_next_one_did_and_deleted_is_refused(folder: StoreFolder) -> None:
    first = Driver(folder)
    first.keep("a")
    second = Driver(folder)
    second.keep("b")
    at = second.end()
    second.log.release(LogPosition.of(at))
    second.log.close()
    third = Driver(folder, at)
    third.log.close()
    assert third.read(at) == []
    assert first.keep("lost") is AppendOutcome.FAILED


def test_records_that_the_former_driver_writes_during_the_takeover_are_read(
    folder: StoreFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Driver(folder)
    first.keep("a")
    real, late = StoreFolder.entries, ["b", "c"]

    def entries(self: StoreFolder) -> Any:
        found = real(self)
        while late:
            assert first.keep(late.pop(0), "a key") is not AppendOutcome.FAILED
        return found

    monkeypatch.setattr(StoreFolder, "entries", entries)
    second = Driver(folder)
    assert second.read() == ["a", "b"], "c has the same key"
    assert second.keep("again", "a key") is AppendOutcome.KEPT
    assert second.read() == ["a", "b"]


@pytest.mark.parametrize("is_done", [True, False])
def test_a_write_without_an_answer_is_repeated_until_it_is_known(
    folder: StoreFolder, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    driver = Driver(folder)
    failing(monkeypatch, 2, is_done)
    assert [driver.keep(text) for text in "ab"] == [AppendOutcome.KEPT] * 2
    assert Driver(folder).read() == ["a", "b"]


@pytest.mark.parametrize("is_done", [True, False])
def test_a_driver_that_ends_while_the_store_does_not_answer_says_that_it_does_not_know(
    folder: StoreFolder, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    driver = Driver(folder)
    driver.keep("a")
    with monkeypatch.context() as patch:
        struck = failing(patch, 1 << 30, is_done)
        entry = JournalEntry(RecordEvents(1, b"\1\0\0\0", b"b"))
        driver.log.submit(entry)
        assert struck.wait(60)
        driver.log.close()
        assert entry.outcome is AppendOutcome.FAILED
    assert Driver(folder).read() == ["a", "b"][: 1 + is_done]


def failing(patch: pytest.MonkeyPatch, times: int, is_done: bool) -> threading.Event:
    """Let creations of objects fail some times, after or before they were carried out."""
    real, left, struck = StoreFolder.create, [times], threading.Event()

    def create(self: StoreFolder, name: str, content: bytes) -> str | None:
        if left[0]:
            left[0] -= 1
            if is_done:
                real(self, name, content)
            struck.set()
            raise WriteError("no answer")
        return real(self, name, content)

    patch.setattr(StoreFolder, "create", create)
    return struck


def test_a_missing_object_of_events_that_were_not_read_is_an_error(folder: StoreFolder) -> None:
    driver = Driver(folder)
    for text in "abc":
        driver.keep(text)
    driver.log.close()
    names = (folder / "log").names()
    for gone in names[1:-1]:
        content = (folder / "log").get(gone)
        assert content
        (folder / "log").remove([gone])
        with pytest.raises(PositionLostError):
            Driver(folder, {"segment": 1, "offset": 32})
        (folder / "log").put(gone, content.content)


def test_events_beyond_the_bound_are_refused_until_room_is_made(folder: StoreFolder) -> None:
    driver = Driver(folder, log_bytes=400)
    while driver.keep("x" * 50) is AppendOutcome.KEPT:
        pass
    driver.log.release(LogPosition.of(driver.end()))
    until(lambda: driver.keep("y" * 50) is AppendOutcome.KEPT)


def test_nothing_but_the_fences_of_killed_drivers_is_left_of_what_was_released(folder: StoreFolder) -> None:
    position: Position | None = None
    for number in range(4):
        driver = Driver(folder, position)
        driver.keep("a")
        position = driver.end(position)
        driver.log.release(LogPosition.of(position))
        if number % 2:
            driver.log.close()
    last = Driver(folder, position)
    last.keep("b")
    position = last.end(position)
    last.log.release(LogPosition.of(position))
    last.log.close()
    until(lambda: len((folder / "log").names()) <= 4)
    kinds = [store_chain._kind_of(content(folder, name)) for name in (folder / "log").names()]
    assert kinds.count(SegmentCause.TAKEN) == 2


def test_a_log_that_was_cleared_is_empty_and_a_former_driver_still_cannot_write(folder: StoreFolder) -> None:
    former = Driver(folder)
    for text in "abc":
        former.keep(text)
    for _ in range(2):
        store_chain.clear(folder)
    assert former.keep("lost") is AppendOutcome.FAILED
    new = Driver(folder)
    assert new.read() == []
    assert new.keep("d") is AppendOutcome.KEPT
    assert Driver(folder).read() == ["d"]


def content(folder: StoreFolder, name: str) -> bytes:
    found = (folder / "log").get(name)
    assert found
    return found.content


OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["keep", "keep", "keep", "keep by a former one", "release", "take", "close"])),
    max_size=40,
)


@given(OPERATIONS)
def test_what_was_kept_and_not_released_is_read_once_and_in_order_after_any_sequence(
    operations: list[tuple[str]],
) -> None:
    folder = StoreFolder(f"memory://logs/{next(NAMES)}")
    drivers, texts = [Driver(folder, segment_bytes=120)], map(str, itertools.count())
    kept: list[str] = []
    position: Position | None = None

    def written(driver: Driver) -> Callable[[], None] | None:
        text = next(texts)
        if driver.keep(text) is AppendOutcome.KEPT:
            kept.append(text)
        return None

    for (operation,) in operations:
        if operation == "keep":
            written(drivers[-1])
        elif operation == "keep by a former one":
            assert all(driver.keep("former") is AppendOutcome.FAILED for driver in drivers[:-1])
        elif operation == "release":
            assert drivers[-1].read(position) == kept
            position = drivers[-1].end(position) or position
            kept.clear()
            if position:
                drivers[-1].log.release(LogPosition.of(position))
        else:
            if operation == "close":
                drivers[-1].log.close()
                drivers.pop()
            drivers.append(Driver(folder, position, segment_bytes=120))
            assert drivers[-1].read(position) == kept
    for driver in drivers:
        driver.log.close()
