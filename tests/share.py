"""One of the processes that run the tests: it takes what no other process has taken, a module or all tests of a server.

`python share.py FOLDER KIND ARGUMENTS` runs pytest with the arguments. The process takes the modules of its own kind
first, and then those of the others, the longest first, so that all processes end together. It tells in FOLDER what it
has done.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

KINDS = ("plain", "kills", "servers", "Spark")
"""What tests need: nothing, processes to kill, real servers, the JVM."""
LONGEST_KINDS = ("kills", "servers", "Spark", "plain")
"""The longer its tests, the earlier a process helps with a kind."""
END = "end"
"""The file that tells all processes to end: a test that runs Calve in its own process takes a signal for Calve's."""
SERVERS = ("kafka_broker", "object_store", "opensearch")
"""Fixtures with a server for all tests of a process: one process takes all tests of a kind that use a server, which starts once."""
LONGEST = (
    "test_stop_points.py",
    "test_deletes_by_position.py",
    "test_secrets.py",
    "test_outages.py",
    "test_maintenance.py",
    "test_iceberg_merge_by_key.py",
    "test_mirror.py",
    "test_histories.py",
    "test_readers.py",
    "test_follow.py",
    "test_iceberg.py",
)
"""Modules that are taken before the others of their kind, so that none of them is left for the end."""


def kind_of(item: pytest.Item) -> str:
    marks = {"crash": "kills", "services": "servers", "spark": "Spark"}
    return next((kind for mark, kind in marks.items() if item.get_closest_marker(mark)), "plain")


class Share:
    """A plugin of pytest that runs what others leave to it.

    Args:
        folder: Where the processes tell each other, and the one that started them, what they do.
        kind: What this process runs first.
    """

    def __init__(self, folder: Path, kind: str) -> None:
        self._folder = folder
        self._order = [kind, *(other for other in LONGEST_KINDS if other != kind)]
        self._kinds: dict[str, str] = {}
        self._outcome = "passed"
        self._told = (folder / f"{os.getpid()}.told").open("w", buffering=1)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly:
            return None  # pytest says it
        gc.freeze()
        gc.enable()
        self._kinds = {item.nodeid: kind_of(item) for item in session.items}
        for kind, count in Counter(self._kinds.values()).items():
            self._told.write(f"found {kind} {count}\n")
        for items in self._taken(session.items):
            for item, following in zip(items, [*items[1:], session], strict=True):
                self._end_if_asked(session)  # by a signal that came before this process heeded any, too
                # before the session as the next item, pytest takes down all but what belongs to the session
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
        self._end_if_asked(session)
        return True

    def _end_if_asked(self, session: pytest.Session) -> None:
        if session.shouldstop or (self._folder / END).exists():
            raise session.Interrupted(session.shouldstop or "ended")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._outcome != "failed" and report.outcome != "passed":
            self._outcome = report.outcome

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._told.write(f"{self._outcome} {self._kinds[nodeid]} {nodeid}\n")
        self._outcome = "passed"

    def _taken(self, items: list[pytest.Item]) -> Iterator[list[pytest.Item]]:
        """Give the tests of one module or server after the other, as long as no other process has them."""
        units: dict[tuple[str, str], list[pytest.Item]] = {}
        for item in items:
            units.setdefault(_unit(item), []).append(item)
        for unit in sorted(units, key=self._rank):
            name = "-".join(unit).replace("/", "-")
            try:
                (self._folder / f"{name}.taken").touch(exist_ok=False)
            except FileExistsError:
                continue
            yield units[unit]

    def _rank(self, unit: tuple[str, str]) -> tuple[int, int]:
        kind, name = unit
        first = [number for number, one in enumerate((*SERVERS, *LONGEST)) if name.rpartition("/")[2] == one]
        return self._order.index(kind), min(first, default=len(SERVERS) + len(LONGEST))


def _unit(item: pytest.Item) -> tuple[str, str]:
    """Return what is taken with others: the kind, and the server or the module."""
    asked = (name for mark in item.iter_markers("services") for name in mark.args)
    used = {*getattr(item, "fixturenames", ()), *asked}
    kind, server = kind_of(item), next((name for name in SERVERS if name in used), "")
    return kind, server if server and kind != "plain" else item.nodeid.partition("::")[0]


if __name__ == "__main__":
    for wish in (signal.SIGINT, signal.SIGTERM):  # a shell has what it starts in the background ignore the first
        signal.signal(wish, signal.default_int_handler)
    gc.disable()  # what pytest makes of ten thousand tests stays: looking through it again and again finds nothing
    sys.exit(pytest.main(sys.argv[3:], plugins=[Share(Path(sys.argv[1]), sys.argv[2])]))
