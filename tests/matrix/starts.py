"""Starts and ends a process with many pipelines again and again: `make crash CRASH="--starts 200"`.

Before each start every pipeline gets a file. Processes take turns: one ends by SIGTERM, as it starts or as it works,
the next by itself (`--once`). Each must end with exit code 0 (143: nothing had begun), having written nothing but its
log, without a warning; no process and no temporary file or socket of it may be left. After each `--once` every event
must be a row, once.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

from kit.running import Calve, until

__all__ = ["Starts"]

EVENTS = 20
MOST_SECONDS = 6.0
"""SIGTERM comes so long after one of these at the latest."""
SAID = (('"starting ',), ('"running ', '"waiting '))
NOTHING_BEGUN = 143
LONG_SECONDS = 900


class Starts:
    """One folder with pipelines, which start in one process.

    Args:
        folder: A new folder.
        pipelines: How many.
        seed: Of the times of SIGTERM.

    Attributes:
        counts: The starts, by the way they ended.
        wrong: What was found, a line each.
        seconds: How long a start took, and how long it took to check it.
    """

    def __init__(self, folder: Path, pipelines: int, seed: str) -> None:
        self._names = [f"p{number}" for number in range(pipelines)]
        self._chance = random.Random(seed)
        self._calve = Calve(folder, json.dumps({name: _pipeline(name) for name in self._names}))
        self._files = 0
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.seconds: list[tuple[float, float]] = []

    def play(self) -> None:
        """Start the process and see how it ends; then start it again."""
        self._give()
        is_once, began = bool(self.counts.total() % 2), time.monotonic()
        with tempfile.TemporaryDirectory(prefix="cs-") as place:  # short: it is a part of the names of sockets
            self._calve.log.unlink(missing_ok=True)
            process = self._calve.start("--json", *["--once"] * is_once, environment={"TMPDIR": place})
            try:
                if not is_once:
                    self._terminate(process)
                code = process.wait(LONG_SECONDS)
            finally:
                self._calve.end()
            ended = time.monotonic()
            has_begun = is_once or not self._is_early(code)
            self._check(code if has_begun else 0, Path(place))
        if is_once:
            self._compare()
        self.seconds.append((ended - began, time.monotonic() - ended))
        self.counts["by itself" if is_once else "by SIGTERM" if has_begun else "by SIGTERM before it began"] += 1

    def _give(self) -> None:
        first = self._files * EVENTS
        for name in self._names:
            folder = self._calve.folder / "in" / name
            folder.mkdir(parents=True, exist_ok=True)
            lines = "".join(f'{{"id": {number}}}\n' for number in range(first, first + EVENTS))
            (folder / f"{self._files}.ndjson").write_text(lines)
        self._files += 1

    def _terminate(self, process: subprocess.Popen[bytes]) -> None:
        said = self._chance.choice(SAID)
        until(lambda: self._said(said) or process.poll() is not None, f"it says {' or '.join(said)}")
        time.sleep(self._chance.uniform(0, MOST_SECONDS))
        process.send_signal(signal.SIGTERM)

    def _is_early(self, code: int) -> bool:
        """Return whether SIGTERM came before pipelines began; a shell shows 143 for both ways to end then."""
        return code == NOTHING_BEGUN or (code == -signal.SIGTERM and not self._said(SAID[1]))

    def _said(self, words: tuple[str, ...]) -> bool:
        said = self._calve.said()
        return any(word in said for word in words)

    def _check(self, code: int, place: Path) -> None:
        found = [] if code == 0 else [f"exit code {code}"]
        found += [line for line in self._calve.said().splitlines() if not _is_harmless(line)]
        with contextlib.suppress(AssertionError):
            until(lambda: not _processes(place), "its processes have ended", 30)
        found += [f"still runs: {one}" for one in _processes(place)]
        found += [f"is left: {one.relative_to(place)}" for one in place.rglob("*")]
        self.wrong += [f"start {self.counts.total()}: {line}" for line in found]

    def _compare(self) -> None:
        expected, catalog = Counter(range(self._files * EVENTS)), self._calve.catalog()

        def rows(name: str) -> Counter[int]:
            found = catalog.load_table(f"to.{name}").scan(selected_fields=("id",))
            return Counter(found.to_arrow()["id"].to_pylist())

        for name in self._names:
            if (found := rows(name)) != expected:
                lost, more = (expected - found).total(), (found - expected).total()
                self.wrong.append(f"start {self.counts.total()}: {name}: {lost} lost, {more} duplicated")


def _pipeline(name: str) -> dict[str, object]:
    iceberg = {
        "table_identifier": f"to.{name}",
        "auto_create": True,
        "flush_interval": "500ms",
        "commit_interval": "1s",
    }
    return {"source": {"file": {"path": f"in/{name}/*.ndjson"}}, "sink": [{"iceberg": iceberg}]}


def _is_harmless(line: str) -> bool:
    try:
        return json.loads(line)["level"] == "info"
    except (ValueError, KeyError, TypeError):
        return False


def _processes(place: Path) -> list[str]:
    """Return the processes whose temporary folder this is, wherever they went."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if (
                f"TMPDIR={place}".encode() in (process / "environ").read_bytes().split(b"\0")
                and int(process.name) != os.getpid()
            ):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200])
    return found
