"""What every benchmark shares: seconds and CPU seconds of what it starts, contenders that take turns, medians."""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

Figures = dict[str, float]
"""What was measured, by its name with its unit."""
Results = dict[str, list[Figures]]
"""The figures of each round, by contender."""

_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE_SECONDS = 0.2
_IDLE_SHARE = 0.1


class Cpu:
    """The CPU seconds of this process's descendants, so that what else runs on the machine does not count.

    Sampled, as processes come and go: what a process uses after its last sample is lost, a fifth of a second at most.

    Attributes:
        idle: The seconds in which the descendants used less than a tenth of a core: something was waited for.
    """

    def __init__(self) -> None:
        self.idle = 0.0
        self._used: dict[tuple[int, int], float] = {}
        self._left_out: set[int] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._run, daemon=True).start()

    def seconds(self) -> float:
        """Return the seconds so far."""
        with self._lock:
            self._sample()
            return sum(self._used.values())

    def leave_out(self, process: int) -> None:
        """Do not count a process and its descendants from now on, such as a server that all contenders use."""
        with self._lock:
            self._left_out.add(process)

    def _run(self) -> None:
        before, at = self.seconds(), time.monotonic()
        while True:
            time.sleep(_SAMPLE_SECONDS)
            used, now = self.seconds(), time.monotonic()
            if used - before < _IDLE_SHARE * (now - at):
                self.idle += now - at
            before, at = used, now

    def _sample(self) -> None:
        with os.scandir("/proc") as entries:
            found = {int(one.name): values for one in entries if one.name.isdigit() and (values := _stat(one.path))}
        for process, (_, started, used) in found.items():
            at = process
            while at in found and at not in self._left_out and found[at][0] != os.getpid():
                at = found[at][0]
            if at in found and at not in self._left_out:
                self._used[process, started] = used


def _stat(folder: str) -> tuple[int, int, float] | None:
    """Return a process's parent, its start and its CPU seconds; None when it has ended."""
    try:
        values = Path(folder, "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(values[1]), int(values[19]), (int(values[11]) + int(values[12])) / _TICKS


CPU = Cpu()


@contextmanager
def measured(count: int) -> Iterator[Figures]:
    """Measure a block that works on `count` events; the figures are there when it ends."""
    found: Figures = {}
    used, idle, started = CPU.seconds(), CPU.idle, time.monotonic()
    yield found
    seconds = time.monotonic() - started
    cpu = (CPU.seconds() - used) / count * 1e6
    found |= {"seconds": seconds, "events/s": count / seconds, "CPU s/M": cpu, "idle s": CPU.idle - idle}


def take_turns(contenders: Mapping[str, Callable[[int], Figures]], rounds: int, first: int = 0) -> Results:
    """Run each contender once a round, every other round in the opposite order; print each result.

    Args:
        contenders: By name, what runs one; it gets the number of the round.
        rounds: How many.
        first: The number of the first round.
    """
    results: Results = {name: [] for name in contenders}
    for number in range(first, first + rounds):
        for name in list(contenders)[:: -1 if number % 2 else 1]:
            found = contenders[name](number)
            results[name].append(found)
            figures = ", ".join(f"{shown(value)} {key}" for key, value in found.items())
            print(f"round {number + 1}, {name}: {figures}", flush=True)
    return results


def medians(results: Results) -> dict[str, Figures]:
    """Return the median of each figure, by contender."""
    return {
        name: {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        for name, rounds in results.items()
    }


def ratio(results: Results, key: str, of: str, to: str) -> float:
    """Return the median, over the rounds, of one contender's figure in relation to another's in the same round."""
    return statistics.median(one[key] / other[key] for one, other in zip(results[of], results[to], strict=True))


def shown(value: float) -> str:
    """Return a number with about three digits."""
    return f"{value:,.{max(0, 2 - len(str(int(abs(value)))) + 1) if value else 0}f}"


def parser(doc: str | None, events: int = 0, rounds: int = 0) -> argparse.ArgumentParser:
    """Return a parser with the options of most benchmarks; one without a default is left out.

    From here on Ctrl-C and SIGTERM raise SystemExit, so that everything that was started ends with this process.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if events:
        made.add_argument("--events", type=int, default=events, help=f"how many (default {events:,})")
    if rounds:
        made.add_argument("--rounds", type=int, default=rounds, help=f"how often each one runs (default {rounds})")
    return made
