"""Real servers of each kind of store honour the conditions that a ledger needs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from calve.errors import OvertakenError, SetupError, WriteError
from calve.ledger.ledger import Ledger
from calve.observe.totals import Totals
from calve.record.staged import StagedBatch
from calve.sources.source import Planned, Split
from calve.state.clients import connected
from calve.state.store_folder import StoreFolder
from kit.takeover import taken_over
from services.process import free_ports

pytestmark = pytest.mark.services
RACES = 5


@pytest.fixture(params=["object_store", "gcs", "azurite"])
def folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> StoreFolder:
    store = request.getfixturevalue(request.param)
    for name, value in store.environment().items():
        monkeypatch.setenv(name, value)
    return StoreFolder.at(store.place(f"{request.function.__name__}/shop/ledger"))


def test_of_many_writers_one_creates_an_object_and_one_replaces_it(folder: StoreFolder) -> None:
    folder.check_conditions()
    with ThreadPoolExecutor(8) as pool:
        for race in range(RACES):
            name = f"race-{race}"
            created = [tag for tag in pool.map(lambda n, name=name: folder.create(name, b"%d" % n), range(8)) if tag]
            assert len(created) == 1
            tag = created[0]
            swapped = pool.map(lambda n, name=name, tag=tag: folder.swap(name, b"x%d" % n, tag), range(8))
            assert sum(one is not None for one in swapped) == 1
    assert len(folder.names()) == RACES
    folder.remove([*folder.names(), "never-there"])
    assert not folder.exists()
    assert folder.get("race-1") is None
    assert folder.swap("race-1", b"", tag) is None


def test_a_ledger_continues_and_a_late_writer_is_refused(folder: StoreFolder) -> None:
    with closing(Ledger.open(folder)) as late:
        for batch in (1, 2):
            late.begin(batch, Planned([Split({"n": batch})], {"at": batch}))
            late.stage(batch, StagedBatch(batch, {"at": batch}, [], events=1, bytes=1, unrouted=0))
        late.set_committed(1, Totals(events=1))
        with closing(taken_over(late)) as ledger:
            assert (ledger.committed.batch, ledger.last_staged, ledger.state_id) == (1, 2, late.state_id)
            with pytest.raises(OvertakenError):
                late.set_committed(2, Totals(events=2))
            ledger.set_committed(2, Totals(events=2))
    with closing(Ledger.open(folder)) as again:
        assert (again.committed.batch, again.committed.totals.events, again.pending()) == (2, 2, [])


@pytest.mark.parametrize("folder", ["object_store"], indirect=True)
def test_wrong_keys_are_told_apart_from_a_store_that_is_down(
    folder: StoreFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected.cache_clear()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(SetupError, match="refuses s3://events"):
        folder.get("head.json")
    connected.cache_clear()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_ports(1)[0]}")
    with pytest.raises(WriteError, match="does not answer"):
        folder.get("head.json")
    connected.cache_clear()
