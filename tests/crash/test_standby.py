"""With the state on an object store a standby takes over from a driver that was killed, paused or cut off.

The events are numbered lines of files that arrive all the time. In the end each number is in the table exactly once.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from calve.ledger.lease import HEAD, LEASE_VARIABLE, Head
from calve.ledger.records import decoded
from calve.object_store import StoreFolder
from running import PATIENCE_SECONDS, Calve, until
from services.objects import ObjectStore
from services.relay import Relay

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.crash]

YAML = """
orders:
  source:
    file: {path: "in/*.ndjson", poll_interval: 200ms}
  sink:
    - iceberg:
        table_identifier: shop.orders
        auto_create: true
        schema: {columns: [{name: id, type: long}]}
        flush_interval: 100ms
        commit_interval: 300ms
"""
LINES = 20
KILLS = int(os.environ.get("CALVE_KILLS", "3"))


class Arrivals:
    """Writes a file of numbered events several times a second."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ended = threading.Event()
        self.files = 0
        folder.mkdir(parents=True)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> int:
        """Write no more; return how many events there are."""
        self._ended.set()
        self._thread.join()
        return self.files * LINES

    def _run(self) -> None:
        for number in itertools.count():
            lines = "".join(f'{{"id": {number * LINES + line}}}\n' for line in range(LINES))
            new = self._folder / f"_{number:06}.ndjson"
            new.write_text(lines)
            new.rename(self._folder / f"{number:06}.ndjson")
            self.files = number + 1
            if self._ended.wait(0.3):
                return


class Driver(Calve):
    """A process that reaches the store through a relay of its own."""

    relay: Relay

    def kill_and_forget(self) -> None:
        self.kill()

    def pause_until_replaced(self) -> None:
        assert self.process
        os.killpg(self.process.pid, signal.SIGSTOP)

    def cut_off(self) -> None:
        self.relay.cut()

    def wake(self) -> None:
        """End the pause or the cut; the driver finds that it was replaced, and ends."""
        assert self.process
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGCONT)
            self.relay.mend()
            assert self.process.wait(PATIENCE_SECONDS) == 1
            assert "Another driver took over this pipeline" in self.said()


class Drivers:
    """Processes that run the pipeline with one state; the first one leads."""

    def __init__(self, folder: Path, state: str, environment: dict[str, str]) -> None:
        self._folder = folder
        self._state = state
        self._environment = environment
        self._ledger = StoreFolder.at(f"{state}/orders/ledger")
        self.all: list[Driver] = []

    def start(self) -> Driver:
        driver = Driver(self._folder, YAML)
        driver.log = self._folder / f"driver-{len(self.all)}.log"
        driver.relay = Relay(urlsplit(self._environment["AWS_ENDPOINT_URL"]).port or 0)
        self.all.append(driver)
        environment = self._environment | {"AWS_ENDPOINT_URL": driver.relay.endpoint, LEASE_VARIABLE: "10"}
        driver.start("--state", self._state, "--standby", environment=environment)
        return driver

    def head(self) -> Head:
        found = self._ledger.get(HEAD)
        return decoded(HEAD, found.content, Head) if found else Head(None)  # type: ignore[arg-type]

    def leads(self, driver: Driver) -> None:
        """Wait until a driver has the lease and has committed something."""
        assert driver.process
        pid = driver.process.pid

        def holds() -> bool:
            head = self.head()
            return head.holder is not None and head.holder.pid == pid

        driver.until(holds, "it has the lease")
        before = self.head().committed
        driver.until(lambda: holds() and self.head().committed != before, "it commits")

    def waits(self, driver: Driver) -> None:
        driver.until(lambda: "standby: waits for the driver" in driver.said(), "it waits")


@pytest.fixture
def drivers(tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drivers]:
    for name, value in object_store.environment().items():
        monkeypatch.setenv(name, value)
    made = Drivers(tmp_path / "calve", object_store.place("standby"), object_store.environment())
    yield made
    for one in made.all:
        one.end()
        one.relay.close()


STRIKES = (Driver.kill_and_forget, Driver.pause_until_replaced, Driver.cut_off)


def test_nothing_is_lost_or_duplicated_when_drivers_are_killed_paused_and_cut_off(
    drivers: Drivers, object_store: ObjectStore, tmp_path: Path
) -> None:
    arrivals = Arrivals(tmp_path / "calve" / "in")
    leader = drivers.start()
    drivers.leads(leader)
    for strike in itertools.islice(itertools.cycle(STRIKES), KILLS):
        standby = drivers.start()
        drivers.waits(standby)
        time.sleep(random.random() * 0.5)  # anywhere in a batch
        assert drivers.head().epoch == len(drivers.all) - 1
        struck = time.monotonic()
        strike(leader)
        drivers.leads(standby)
        print(f"{strike.__name__}: the standby committed after {time.monotonic() - struck:.1f} s")
        leader.wake()
        leader = standby

    events = arrivals.end()
    until(lambda: len(leader.rows("shop.orders")) >= events, "all events are in the table")
    assert leader.stop() == 0
    assert drivers.head().epoch == KILLS + 1
    assert drivers.head().holder is None
    assert sorted(leader.rows("shop.orders")["id"].to_pylist()) == list(range(events))
    status = StoreFolder.at(object_store.place("standby/orders")).get("status.json")
    assert status
    assert json.loads(status.content)["state"] == "stopped"
