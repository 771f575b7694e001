"""Sets the clock of live pipelines back and forth: `make faults FAULTS="--clock 12"`.

Two runs get numbered events all the time, one after the other. The first has its state in a folder, and a table that is
appended to and one with upserts. The second has its state on an object store, with a lease and a standby; the
clock that jumps is the driver's, the standby's, or that of both. S3 refuses requests that are 15 minutes off, so
further jumps come to both, and last longer than the lease. After each jump all events sent until then must be
committed in time. At the end each event must be in the table once, both processes must end with exit code 0, and the
standby must not have taken over while the driver renewed its lease.

The clock is that of the processes alone: a library (`clock.c`, made with the C compiler) gives them another time of day,
and leaves the monotonic clock and the times of files as they are.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from calve.ledger.lease import HEAD, LedgerHead
from calve.state.store_folder import StoreFolder
from calve.state.values import decoded
from faults.trial import parsed
from kit.running import Calve, until
from matrix.takeovers import LINES, Arrivals
from services.objects import ObjectStore

__all__ = ["Clock", "made_library", "play_folder", "run"]

SOURCE = Path(__file__).with_name("clock.c")

MINUTE, HOUR, DAY = 60, 3600, 86_400
JUMPS = (
    (0,),
    (HOUR,),
    (0,),
    (-HOUR,),
    (DAY,),
    (-DAY,),
    (10 * MINUTE,),
    (5 * MINUTE, -5 * MINUTE, 2 * HOUR, 0),
    (-90,),
    (-3 * HOUR,),
    (-3 * HOUR - 50,),
    (DAY, -DAY, 90),
)
"""By how many seconds the clock is ahead; several: one right after the other. The first one is there to compare."""
STORE_JUMPS = (
    (0,),
    (10 * MINUTE,),
    (-10 * MINUTE,),
    (HOUR, 0),
    (13 * MINUTE, -13 * MINUTE, 90),
    (0,),
    (-90,),
    (-DAY, 0),
    (-12 * MINUTE,),
    (5 * MINUTE,),
    (12 * MINUTE, 0),
    (DAY, 0),
)
"""The same with the state on an object store."""
ALLOWED_SECONDS = 15 * MINUTE
"""S3 refuses requests that are further off, so then the clocks of both drivers jump, and come back after a while."""
BOUND_SECONDS = 120.0
"""All events must be committed so soon after a jump, on a machine that also does other work."""
CALM_SECONDS = 3.0
SHORT_SECONDS, REFUSED_SECONDS = 0.3, 12.0
"""Between two jumps; the second is longer than a lease."""
SINK = {"auto_create": True, "flush_interval": "200ms", "commit_interval": "400ms"}
COMPILER = "This needs a C compiler for Linux with glibc: apt-get install gcc libc6-dev"


@dataclass(frozen=True)
class Jump:
    """What a jump did.

    Attributes:
        whose: Whose clock jumped.
        seconds: By how much it was ahead of the true time, one after the other; negative: behind.
        on_after: Seconds from the last jump until all events sent before it were committed.
    """

    whose: str
    seconds: tuple[int, ...]
    on_after: float


class Clock:
    """The clock of the processes that get its environment.

    Args:
        file: A new file, which those processes map.
        library: What `made_library` made.
    """

    def __init__(self, file: Path, library: Path) -> None:
        self._file, self._library = file, library
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(8))

    def set(self, seconds: int) -> None:
        """Set it so far ahead of the true time."""
        with self._file.open("r+b") as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that has this clock."""
        return {"LD_PRELOAD": str(self._library), "CALVE_TEST_CLOCK": str(self._file.absolute())}


def made_library(folder: Path) -> Path | None:
    """Compile the library that changes clocks; None: there is no compiler for it."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return None
    folder.mkdir(parents=True, exist_ok=True)
    library = (folder / "clock.so").absolute()
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, SOURCE, "-ldl"], check=True)
    return library


def jump(clocks: dict[str, Clock], leaps: tuple[int, ...], arrived: Callable[[], int], feed: Arrivals) -> Jump:
    """Set clocks, and wait until all events of before the last jump are committed."""
    time.sleep(CALM_SECONDS)
    for seconds in leaps:
        for clock in clocks.values():
            clock.set(seconds)
        time.sleep(REFUSED_SECONDS if len(clocks) > 1 and _is_refused(seconds) else SHORT_SECONDS)
        wanted, began = feed.files * LINES, time.monotonic()
    until(lambda: arrived() >= wanted, f"all events are committed after a jump to {leaps[-1]:+} s", BOUND_SECONDS)
    made = Jump(" and ".join(clocks), leaps, round(time.monotonic() - began, 1))
    print(f"  {made}", flush=True)
    return made


def _is_refused(seconds: int) -> bool:
    return abs(seconds) >= ALLOWED_SECONDS


def play_folder(folder: Path, library: Path, jumps: int) -> tuple[list[Jump], int, int]:
    """Let the clock of a run with a local state jump; return the jumps, and how many events are lost and duplicated."""
    calve, clock = Calve(folder, json.dumps(_pipelines())), Clock(folder / "clock", library)
    feed, made = Arrivals(folder / "in"), list[Jump]()
    feed.begin()

    def arrived() -> int:
        return min(_rows(calve.status(name)) for name in _pipelines())

    calve.start(environment=clock.environment)
    try:
        calve.until(arrived, "the first rows are committed")
        for leaps in islice(cycle(JUMPS), jumps):
            made.append(jump({"the driver": clock}, leaps, arrived, feed))
        feed.end()
        sent = feed.files * LINES
        calve.until(lambda: arrived() >= sent, "all events are committed")
        assert calve.stop() == 0
    finally:
        feed.end()
        calve.end()
    return made, *_wrong(calve, sent, *_pipelines())


class Pair:
    """A driver with its state on an object store, and its standby, each with a clock.

    Args:
        folder: A new folder.
        library: What changes the clocks.
        objects: The store.
    """

    def __init__(self, folder: Path, library: Path, objects: ObjectStore) -> None:
        self._state, self._objects, self._folder = objects.place("clock"), objects, folder
        self.clocks = {who: Clock(folder / f"clock-{who[4:]}", library) for who in ("the driver", "the standby")}
        self.driver, self.standby = (self._start(who) for who in self.clocks)

    def _start(self, who: str) -> Calve:
        calve = Calve(self._folder, json.dumps({"append": _pipelines()["append"]}))
        calve.log = self._folder / f"{who[4:]}.log"
        environment = self._objects.environment() | self.clocks[who].environment
        calve.start("--state", self._state, "--standby", environment=environment)
        if who == "the driver":
            calve.until(self.arrived, "the first rows are committed")
        else:
            calve.until(lambda: "standby: waits for the driver" in calve.said(), "it waits")
        return calve

    def arrived(self) -> int:
        """Return how many events are committed."""
        found = (StoreFolder.at(self._state) / "append").get("status.json")
        return _rows(parsed(found.content)) if found else 0

    def check_leader(self) -> None:
        """Check that the driver has led from the start."""
        found = StoreFolder.at(f"{self._state}/append/ledger").get(HEAD)
        assert found
        head = decoded(HEAD, found.content, LedgerHead)
        assert self.driver.process
        assert head.epoch == 1, f"the standby took over: {head}"
        assert head.holder.pid == self.driver.process.pid

    def stop(self) -> None:
        """End the driver, and then the standby, which has the state by then."""
        assert self.driver.stop() == 0, self.driver.said()[-3000:]
        self.standby.until(lambda: "took over the state" in self.standby.said(), "it continues")
        assert self.standby.stop() == 0, self.standby.said()[-3000:]

    def end(self) -> None:
        """Leave nothing running."""
        for each in (self.driver, self.standby):
            each.end()


def play_store(folder: Path, library: Path, objects: ObjectStore, jumps: int) -> tuple[list[Jump], int, int]:
    """Let the clocks of a driver and its standby jump; return the same as `play_folder`."""
    feed, made = Arrivals(folder / "in"), list[Jump]()
    feed.begin()
    pair = Pair(folder, library, objects)
    try:
        whose = cycle((("the driver",), ("the standby",), tuple(pair.clocks)))
        for leaps in islice(cycle(STORE_JUMPS), jumps):
            who = tuple(pair.clocks) if any(map(_is_refused, leaps)) else next(whose)
            made.append(jump({one: pair.clocks[one] for one in who}, leaps, pair.arrived, feed))
            pair.check_leader()
        feed.end()
        sent = feed.files * LINES
        until(lambda: pair.arrived() >= sent, "all events are committed")
        pair.check_leader()
        pair.stop()
    finally:
        feed.end()
        pair.end()
    return made, *_wrong(pair.driver, sent, "append")


def run(folder: Path, jumps: int) -> int:
    """Play both runs; write the report, and return 1 if an event is missing or there twice, 2 without a compiler."""
    library = made_library(folder)
    if library is None:
        print(COMPILER, file=sys.stderr)
        return 2
    report: dict[str, Any] = {}
    report["a folder"] = play_folder(folder / "folder", library, jumps)
    with ObjectStore(folder / "objects") as objects, _exported(objects.environment()):
        report["an object store, with a standby"] = play_store(folder / "store", library, objects, jumps)
    for where, (made, lost, doubled) in report.items():
        seconds = sorted(one.on_after for one in made)
        print(
            f"state in {where}: {len(made)} jumps, all events committed after {seconds[len(seconds) // 2]} s (median), "
            f"{seconds[-1]} s at most; {lost} lost, {doubled} duplicated"
        )
    found = {where: [[asdict(one) for one in made], lost, doubled] for where, (made, lost, doubled) in report.items()}
    (folder / "clock.json").write_text(json.dumps(found, indent=1))
    return 1 if any(lost or doubled for _, lost, doubled in report.values()) else 0


def _pipelines() -> dict[str, Any]:
    source = {"file": {"path": "in/*.ndjson", "poll_interval": "200ms"}}
    upserted = {"identifier_columns": ["id"], "upsert": True}
    return {
        name: {"source": source, "sink": [{"iceberg": {"table_identifier": f"out.{name}", **SINK, **more}}]}
        for name, more in (("append", {}), ("upsert", upserted))
    }


def _rows(status: dict[str, Any]) -> int:
    return sum(table["rows"] for table in status.get("tables", {}).values())


def _wrong(calve: Calve, sent: int, *names: str) -> tuple[int, int]:
    """Return how many events are lost, and how many are there too often; PyIceberg reads no equality deletes."""
    for name in set(names) - {"append"}:
        subprocess.run(
            calve.command("maintain", f"out.{name}"), cwd=calve.folder, check=True, stdout=subprocess.DEVNULL
        )
    wanted = Counter(range(sent))
    found = [Counter(calve.rows(f"out.{name}")["id"].to_pylist()) for name in names]
    return sum((wanted - one).total() for one in found), sum((one - wanted).total() for one in found)


@contextlib.contextmanager
def _exported(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables, which this process needs as well to read the state."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
