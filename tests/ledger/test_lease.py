"""On an object store one driver writes the ledger, whoever was paused, cut off or killed, and whichever answers are lost."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import GenericError

from calve.errors import InvariantError, OvertakenError, PositionLostError, SettingsError, SetupError, WriteError
from calve.ledger import lease
from calve.ledger.ledger import Committed, Ledger, WaitPolicy, last_batch_of, under_construction
from calve.observe.totals import Totals
from calve.record.staged import StagedBatch
from calve.sources.source import Planned, Split
from calve.state.local_folder import LocalFolder
from calve.state.store_folder import StoreFolder
from kit.takeover import taken_over


def plan(batch: int) -> Planned:
    return Planned([Split({"from": batch})], {"0": batch})


def staged(batch: int, events: int = 1) -> StagedBatch:
    return StagedBatch(batch, {"0": batch}, [], events=events, bytes=1, unrouted=0)


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> StoreFolder:
    return StoreFolder(f"memory://state/{request.node.name}/shop/ledger")


@pytest.fixture
def ledger(folder: StoreFolder) -> Iterator[Ledger]:
    with closing(Ledger.open(folder)) as opened:
        yield opened


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 2.0)
    monkeypatch.setattr(lease, "_POLL_SECONDS", 0.02)


def three_batches(ledger: Ledger) -> None:
    """The first is committed, the second staged, the third begun."""
    for batch in (1, 2, 3):
        ledger.begin(batch, plan(batch))
        if batch < 3:
            ledger.stage(batch, staged(batch))
    ledger.set_committed(1, Totals(events=7))


def contents(ledger: Ledger) -> tuple[object, ...]:
    return ledger.committed, ledger.pending(), ledger.state_id, ledger.pipeline


def test_a_ledger_is_found_again_as_it_was_left(ledger: Ledger, folder: StoreFolder) -> None:
    three_batches(ledger)
    before = contents(ledger)
    ledger.close()
    with closing(Ledger.open(folder)) as again:
        assert contents(again) == before
        assert [one.planned.time_tenths for one in again.pending()] == [one.planned.time_tenths for one in before[1]]  # type: ignore[attr-defined]
    assert last_batch_of(folder, "shop") == 3


@pytest.mark.usefixtures("short")
def test_a_second_driver_is_refused_and_told_who_renews_the_lease(ledger: Ledger, folder: StoreFolder) -> None:
    with pytest.raises(OvertakenError, match=f"process {os.getpid()} on ") as refused:
        Ledger.open(folder)
    assert "--standby" in refused.value.hint
    ledger.check()


@pytest.mark.usefixtures("short")
def test_a_driver_that_no_longer_renews_is_replaced_after_the_time_of_a_lease(folder: StoreFolder) -> None:
    killed = Ledger.open(folder)
    killed._records._lease._ended.set()  # type: ignore[attr-defined]  # its process is gone
    with closing(Ledger.open(folder)) as again:
        again.begin(1, plan(1))
    with pytest.raises(OvertakenError):
        killed.begin(1, plan(1))


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("jump_seconds", [-86_400, 86_400])
def test_a_clock_that_jumps_neither_ends_a_lease_nor_keeps_it(
    folder: StoreFolder, monkeypatch: pytest.MonkeyPatch, jump_seconds: int
) -> None:
    first, now = Ledger.open(folder), time.time()
    monkeypatch.setattr(time, "time", lambda: now + jump_seconds)
    with pytest.raises(OvertakenError, match=f"process {os.getpid()} on "):
        Ledger.open(folder)
    first.begin(1, plan(1))
    first._records._lease._ended.set()  # type: ignore[attr-defined]  # its process is gone
    with closing(Ledger.open(folder)) as second:
        assert [one.batch for one in second.pending()] == [1]


@pytest.mark.usefixtures("short")
def test_a_standby_waits_while_the_lease_is_renewed_and_gets_it_when_it_is_released(folder: StoreFolder) -> None:
    first = Ledger.open(folder)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(Ledger.open, folder, "shop", WaitPolicy(threading.Event(), standby=True))
        with pytest.raises(TimeoutError):
            waiting.result(4)
        first.close()
        with closing(waiting.result(60)) as second:
            assert second.state_id == first.state_id


@pytest.mark.usefixtures("short")
def test_a_standby_ends_its_wait_when_a_stop_is_requested(ledger: Ledger, folder: StoreFolder) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(OvertakenError, match="stopped"):
        Ledger.open(folder, "shop", WaitPolicy(stop, standby=True))


@pytest.mark.usefixtures("short")
def test_of_many_that_want_an_expired_lease_one_gets_it(folder: StoreFolder) -> None:
    Ledger.open(folder)._records._lease._ended.set()  # type: ignore[attr-defined]

    def attempt(_: int) -> Ledger | None:
        try:
            return Ledger.open(folder)
        except OvertakenError:
            return None

    with ThreadPoolExecutor(8) as pool:
        got = [one for one in pool.map(attempt, range(8)) if one]
    assert len(got) == 1
    got[0].close()


WRITES: dict[str, Callable[[Ledger], None]] = {
    "begin": lambda ledger: ledger.begin(4, plan(4)),
    "stage": lambda ledger: ledger.stage(3, staged(3, events=99)),
    "stage again": lambda ledger: ledger.stage_again(2, staged(2, events=99)),
    "committed": lambda ledger: ledger.set_committed(2, Totals(events=99)),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_late_writer_is_refused_and_changes_nothing(
    ledger: Ledger, folder: StoreFolder, write: Callable[[Ledger], None]
) -> None:
    three_batches(ledger)
    before = contents(ledger)
    with closing(taken_over(ledger)) as new:
        with pytest.raises(OvertakenError, match="took over"):
            write(ledger)
        with pytest.raises(OvertakenError, match="took over"):
            ledger.check()
        assert contents(new) == before
        write(new)
        after = contents(new)
    with closing(Ledger.open(folder)) as again:
        assert contents(again) == after


def test_the_store_is_asked_only_for_times_after_the_last_renewal(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, swap = [], StoreFolder.swap
    monkeypatch.setattr(StoreFolder, "swap", lambda *arguments: asked.append(1) or swap(*arguments))
    ledger.begin(1, plan(1))
    begun, asked[:] = time.monotonic(), []
    ledger.confirm(begun)
    ledger.confirm(begun)
    assert len(asked) == 1
    with closing(taken_over(ledger)):
        ledger.confirm(begun)
        with pytest.raises(OvertakenError, match="took over"):
            ledger.confirm(time.monotonic())


def test_a_driver_that_misses_what_its_successor_removed_ends_because_it_was_replaced(ledger: Ledger) -> None:
    missing = PositionLostError("the log lacks an object", step="read")
    with pytest.raises(PositionLostError), ledger.takeover_explains():
        raise missing
    with closing(taken_over(ledger)), pytest.raises(OvertakenError, match="took over"), ledger.takeover_explains():
        raise missing


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("after_the_deed", [True, False])
@pytest.mark.parametrize("number", [1, 2])
def test_a_lost_answer_is_overcome_by_the_next_attempt(
    ledger: Ledger,
    folder: StoreFolder,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Ledger], None],
    after_the_deed: bool,
    number: int,
) -> None:
    """The first put writes the record, the second one the head."""
    three_batches(ledger)
    real, puts = obstore.put, iter(range(1, 100))

    def put(*arguments: Any, **options: Any) -> Any:
        is_lost = next(puts) == number
        result = None if is_lost and not after_the_deed else real(*arguments, **options)
        if is_lost:
            raise GenericError("the answer is lost")
        return result

    monkeypatch.setattr(obstore, "put", put)
    with pytest.raises(WriteError, match="does not answer: the answer is lost"):
        write(ledger)
    write(ledger)
    monkeypatch.undo()
    after = contents(ledger)
    ledger.close()
    with closing(Ledger.open(folder)) as again:
        assert contents(again) == after


def test_a_lost_answer_to_a_takeover_does_not_lock_out_the_new_driver(
    folder: StoreFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger.open(folder).close()
    swap = StoreFolder.swap
    answers = iter([None])
    monkeypatch.setattr(
        StoreFolder, "swap", lambda *arguments: next(answers, tag) if (tag := swap(*arguments)) else None
    )
    with closing(Ledger.open(folder)) as ledger:
        ledger.begin(1, plan(1))


def test_records_that_no_head_names_are_removed_at_the_next_start(ledger: Ledger, folder: StoreFolder) -> None:
    three_batches(ledger)
    folder.put("000000000004.begun.1-99.json", b"{}")
    ledger.close()
    with closing(Ledger.open(folder)) as again:
        again.stage(3, staged(3))
        again.set_committed(3, Totals())
    assert [name.partition(".")[0] for name in folder.names()] == ["committed", "head"]


@pytest.mark.parametrize("name", ["head.json", "000000000003.begun"])
def test_a_damaged_or_missing_record_is_named(ledger: Ledger, folder: StoreFolder, name: str) -> None:
    three_batches(ledger)
    ledger.close()
    [whole] = [found for found in folder.names() if found.startswith(name)]
    content = folder.get(whole)
    assert content is not None
    folder.put(whole, content.content[:-1])
    with pytest.raises(InvariantError, match=f"{whole} is damaged"):
        Ledger.open(folder)


def test_a_ledger_that_was_removed_under_its_driver_is_not_written_again(ledger: Ledger, folder: StoreFolder) -> None:
    folder.remove(folder.names())
    with pytest.raises(OvertakenError, match="its state was removed"):
        ledger.begin(1, plan(1))
    assert "head.json" not in folder.names()


@pytest.mark.parametrize("text", ["", "soon", "0.5", "nan", "inf"])
def test_a_wrong_time_of_a_lease_is_refused(folder: StoreFolder, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(lease.LEASE_VARIABLE, text)
    with pytest.raises(SettingsError, match="not a number of seconds"):
        Ledger.open(folder)
    monkeypatch.setenv(lease.LEASE_VARIABLE, "30")
    with closing(Ledger.open(folder)):
        assert lease.head_of(folder)[1].lease_seconds == 30  # type: ignore[union-attr]


def test_a_store_that_ignores_conditions_is_refused(folder: StoreFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = obstore.put
    monkeypatch.setattr(obstore, "put", lambda store, path, content, mode=None: real(store, path, content))
    with pytest.raises(SetupError, match="ignores the conditions of writes"):
        Ledger.open(folder)


def test_the_state_of_another_pipeline_is_refused(ledger: Ledger, folder: StoreFolder) -> None:
    ledger.close()
    with pytest.raises(SettingsError, match="the pipeline 'shop'"):
        Ledger.open(folder, "till")


@pytest.mark.parametrize("to_store", [True, False])
def test_a_copy_has_everything_and_replaces_the_original(folder: StoreFolder, tmp_path: Path, to_store: bool) -> None:
    local = LocalFolder(tmp_path / "shop" / "ledger")
    old, new = (local, folder) if to_store else (folder, local)
    with closing(Ledger.open(old)) as ledger:
        three_batches(ledger)
        before = contents(ledger)
        ledger.copy_to(new)
        ledger.set_moved(str(new))
    with closing(Ledger.open(new)) as copied:
        assert contents(copied) == before
    with pytest.raises(SettingsError, match=re.escape(f"was copied to {new}")):
        Ledger.open(old)
    with closing(Ledger.open(new)) as copied, pytest.raises((SettingsError, OSError, WriteError)):
        copied.copy_to(new)


def test_a_rebuilt_ledger_appears_on_the_store_at_once(folder: StoreFolder) -> None:
    with under_construction(folder) as new, closing(Ledger.create(new, "shop", "s", Committed(4, {"0": 4}))) as ledger:
        ledger.begin(5, plan(5))
        assert not folder.exists()
    with closing(Ledger.open(folder)) as again:
        assert (again.state_id, again.last_batch, again.position) == ("s", 5, {"0": 5})
