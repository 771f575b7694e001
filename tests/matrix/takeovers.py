"""Takes pipelines over by a standby, again and again: `make crash CRASH="--takeovers 100"`.

The state is on an object store, and events arrive all the time, by default numbered lines of files. The leading driver
is killed, paused, or cut off from the store in turns; the standby must commit, and who wakes up must find that it was
replaced. In the end the table must have the rows that it should, each once. Drivers run on two machines in turns, so who
takes over has no key indexes yet, or stale ones of its machine's driver before.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any, Protocol
from urllib.parse import urlsplit

from calve.ledger.lease import HEAD, LEASE_VARIABLE, LedgerHead
from calve.state.store_folder import StoreFolder
from calve.state.values import decoded
from kit.running import PATIENCE_SECONDS, Calve, until
from kit.small_indexes import IndexedCalve, machine
from services.relay import Relay

__all__ = ["STRIKES", "Arrivals", "Feed", "Takeovers"]

YAML = """
orders:
  source:
    file: {path: "in/*.ndjson", poll_interval: 200ms}
  sink:
    - iceberg:
        table_identifier: shop.orders
        auto_create: true
        schema: {columns: [{name: id, type: long}]}
        flush_interval: 200ms
        commit_interval: 1s
    - iceberg:
        table_identifier: shop.latest
        auto_create: true
        schema: {columns: [{name: slot, type: int, required: true}, {name: id, type: long}]}
        identifier_columns: [slot]
        upsert: true
        table_properties: {format-version: "3"}
        flush_interval: 200ms
        commit_interval: 1s
"""
LINES = 20
SLOTS = 70


class Feed(Protocol):
    """What comes in all the time."""

    def yaml(self) -> str:
        """Return the configuration of the next driver."""
        ...

    def begin(self) -> None:
        """Let events come."""
        ...

    def end(self) -> Iterable[Any]:
        """Let no more come; return the rows that the table must have."""
        ...

    def rows(self, driver: Calve) -> Iterable[Any]:
        """Return the rows of the table."""
        ...


class Arrivals:
    """Writes a file of numbered events several times a second; a second table has the last event of each slot."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ended = threading.Event()
        self.files = 0
        folder.mkdir(parents=True)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def yaml(self) -> str:
        return YAML

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> list[Any]:
        """Write no more; return the numbers of the events, and the last one of each slot."""
        self._ended.set()
        self._thread.join()
        numbers = range(self.files * LINES)
        return [*numbers, *{number % SLOTS: number for number in numbers}.items()]

    def rows(self, driver: Calve) -> list[Any]:
        latest = driver.rows("shop.latest")
        slots = zip(latest["slot"].to_pylist(), latest["id"].to_pylist(), strict=True)
        return [*driver.rows("shop.orders")["id"].to_pylist(), *slots]

    def _run(self) -> None:
        for number in itertools.count():
            lines = "".join(_event(number * LINES + line) for line in range(LINES))
            new = self._folder / f"_{number:06}.ndjson"
            new.write_text(lines)
            new.rename(self._folder / f"{number:06}.ndjson")
            self.files = number + 1
            if self._ended.wait(0.3):
                return


def _event(number: int) -> str:
    return f'{{"id": {number}, "slot": {number % SLOTS}}}\n'


class Driver(IndexedCalve):
    """A process that reaches the store through a relay of its own; commits find older rows by key indexes."""

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
            ended = self.process.wait(PATIENCE_SECONDS)
            assert (ended, "Another driver took over this pipeline" in self.said()) == (1, True), self.said()


class Drivers:
    """Processes that run the pipeline with one state; the first one leads."""

    def __init__(self, folder: Path, state: str, environment: dict[str, str], feed: Feed) -> None:
        self._folder = folder
        self._feed = feed
        self._state = state
        self._environment = environment
        self._ledger = StoreFolder.at(f"{state}/orders/ledger")
        self.all: list[Driver] = []

    def start(self) -> Driver:
        driver = Driver(self._folder, self._feed.yaml())
        driver.log = self._folder / f"driver-{len(self.all)}.log"
        driver.relay = Relay(urlsplit(self._environment["AWS_ENDPOINT_URL"]).port or 0)
        self.all.append(driver)
        machine_folder = self._folder / f"machine-{(len(self.all) - 1) % 2}"
        environment = {"AWS_ENDPOINT_URL": driver.relay.endpoint, LEASE_VARIABLE: "10", **machine(machine_folder)}
        driver.start("--state", self._state, "--standby", environment=self._environment | environment)
        return driver

    def head(self) -> LedgerHead:
        found = self._ledger.get(HEAD)
        return decoded(HEAD, found.content, LedgerHead) if found else LedgerHead(None)  # type: ignore[arg-type]

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


STRIKES = {"killed": Driver.kill_and_forget, "paused": Driver.pause_until_replaced, "cut off": Driver.cut_off}


class Takeovers:
    """One pipeline with a state on an object store, its leading driver and its standby.

    Args:
        folder: A new folder.
        state: Where the state is.
        environment: The variables to reach it, which this process needs as well.
        seed: Of the moments of the strikes.
        feed: What comes in; None: `Arrivals`.
        strikes: What happens to the leaders, in turns.

    Attributes:
        seconds: From each strike to the first commit of the standby, by kind.
    """

    def __init__(
        self,
        folder: Path,
        state: str,
        environment: dict[str, str],
        seed: str = "1",
        feed: Feed | None = None,
        strikes: Iterable[str] = tuple(STRIKES),
    ) -> None:
        self._feed = feed or Arrivals(folder / "in")
        self._drivers = Drivers(folder, state, environment, self._feed)
        self._chance = random.Random(seed)
        self._kinds = itertools.cycle(strikes)
        self._leader = self._drivers.start()
        self._feed.begin()
        self.seconds: dict[str, list[float]] = {kind: [] for kind in STRIKES}

    @property
    def count(self) -> int:
        """How many takeovers there were."""
        return sum(map(len, self.seconds.values()))

    def play(self) -> str:
        """Strike the leader, and wait until the standby has committed; return how that was."""
        if not self.count:
            self._drivers.leads(self._leader)
        standby = self._drivers.start()
        self._drivers.waits(standby)
        time.sleep(self._chance.random() * 0.5)  # anywhere in a batch
        assert self._drivers.head().epoch == self.count + 1
        kind, struck = next(self._kinds), time.monotonic()
        STRIKES[kind](self._leader)
        self._drivers.leads(standby)
        self.seconds[kind].append(time.monotonic() - struck)
        self._leader.wake()
        self._leader.relay.close()
        self._leader = standby
        return f"takeover {self.count}: {kind}; the standby committed after {self.seconds[kind][-1]:.1f} s"

    def finish(self) -> tuple[int, int, int]:
        """Stop, and return how many rows there must be, how many are lost, and how many are there too often."""
        expected = Counter(self._feed.end())
        with contextlib.suppress(AssertionError):  # what is lost is counted below
            until(lambda: self._rows() == expected, "the table has all rows")
        assert self._leader.stop() == 0, self._leader.said()[-3000:]
        assert self._drivers.head().epoch == self.count + 1
        assert self._drivers.head().holder is None
        rows = self._rows()
        return expected.total(), (expected - rows).total(), (rows - expected).total()

    def index_messages(self) -> list[bool]:
        """Return whether each driver has said something about key indexes: only the first one of a machine begins them."""
        return ["key index" in driver.said() for driver in self._drivers.all]

    def table(self) -> str:
        """Return the takeovers in Markdown."""
        lines = ["| the leader is | takeovers | median, s | slowest, s |", "|---|---:|---:|---:|"]
        for kind, each in self.seconds.items():
            if each:
                lines.append(f"| {kind} | {len(each)} | {median(each):.1f} | {max(each):.1f} |")
        return "\n".join(lines)

    def end(self) -> None:
        """Leave nothing running."""
        self._feed.end()
        for driver in self._drivers.all:
            driver.end()
            driver.relay.close()

    def _rows(self) -> Counter[Any]:
        return Counter(self._feed.rows(self._leader))
