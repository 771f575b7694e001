"""Runs the tests in processes side by side, which share them (`share.py`): arguments are pytest's.

A line tells how far they are: on a terminal all the time, else twice a minute. A test that fails is told at once, the
output of a process when it ends. Ended by SIGTERM or Ctrl-C, it ends all of them, and these end what their tests have
started. CALVE_TEST_PROCESSES=6 uses as many.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from share import END, KINDS

FIRST = (*KINDS, "servers", "kills")
"""What each process runs first: tests with kills and with servers often wait, so two processes have them."""
NEEDED_BYTES = 3 << 30
"""What a process needs, with the servers that it starts."""
_ROOM = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // NEEDED_BYTES
_WISHED = min(len(FIRST), 2 * (os.cpu_count() or 1), _ROOM)
PROCESSES = int(os.environ.get("CALVE_TEST_PROCESSES", max(len(KINDS), _WISHED)))
NOTHING_TO_RUN = 5
LOOK_SECONDS = 0.5
TELL_SECONDS = 30
END_SECONDS = 90
"""How long tests that are interrupted may take to end what they have started."""


@dataclass
class Share:
    """One process of pytest, with the file that has its output."""

    kind: str
    process: subprocess.Popen[bytes]
    output: Path

    def said(self) -> str:
        """Give what it has said, without pytest's characters for tests."""
        return re.sub(r"^[.FEsxX]+\n", "", self.output.read_text(errors="replace"), flags=re.MULTILINE).strip()


class Progress:
    """Tells how far the tests are.

    Args:
        folder: Where the processes write what they have done.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._began = self._told = time.monotonic()
        self._read: dict[Path, IO[str]] = {}
        self.found: dict[str, int] = {}
        self.done: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()

    def look(self) -> None:
        """Read what is new, and tell it when it is time."""
        for path in set(self._folder.glob("*.told")) - set(self._read):
            self._read[path] = path.open()
        for file in self._read.values():
            for line in file:
                self._hear(*line.rstrip("\n").split(" ", 2))
        if sys.stdout.isatty():
            print(f"\r{str(self)[: shutil.get_terminal_size().columns - 1]}\033[K", end="", flush=True)
        elif time.monotonic() - self._told >= TELL_SECONDS:
            self._told = time.monotonic()
            print(self, flush=True)

    def say(self, text: str) -> None:
        """Print lines of their own."""
        print(f"\r\033[K{text}" if sys.stdout.isatty() else text, flush=True)

    def close(self) -> None:
        for file in self._read.values():
            file.close()

    def _hear(self, outcome: str, kind: str, what: str) -> None:
        if outcome == "found":
            self.found[kind] = int(what)
            return
        self.done[kind] += 1
        self.outcomes[outcome] += 1
        if outcome == "failed":
            self.say(f"FAILED {what} (why is told when its process ends)")

    def __str__(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        kinds = [f"{kind} {self.done[kind]} of {self.found[kind]}" for kind in KINDS if kind in self.found]
        outcomes = [f"{self.outcomes[name]} {name}" for name in ("passed", "skipped", "failed")]
        return f"{minutes:2}:{seconds:02}  {', '.join(kinds) or 'looking for tests'}: {', '.join(outcomes)}"


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # tests start Python hundreds of times
    print(f"Running the tests in {PROCESSES} processes: all of them take some 20 minutes on 2 quiet cores", flush=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        progress = Progress(Path(folder))
        running = [_start(Path(folder) / f"{number}", FIRST[number % len(FIRST)]) for number in range(PROCESSES)]
        codes = set()
        try:
            while running:
                for share in [each for each in running if _ended(each, LOOK_SECONDS / len(running))]:
                    running.remove(share)
                    codes.add(share.process.returncode)
                    progress.look()
                    progress.say(f"== {share.kind}, and what others left to it\n{share.said()}")
                progress.look()
            progress.say(f"{progress}")
        finally:
            _end(running, Path(folder))
            progress.look()
            for share in running if progress.outcomes["failed"] else []:
                progress.say(f"== {share.kind}, ended\n{share.said()}")
            progress.close()
    if codes - {0, NOTHING_TO_RUN}:
        return 1
    return 0 if 0 in codes else NOTHING_TO_RUN


def _start(output: Path, kind: str) -> Share:
    """Start a process that hears of its end from this one, and from no one else."""
    script, folder = str(Path(__file__).with_name("share.py")), str(output.parent)
    # two processes that remove the same old folders at once would fail, so each has a new one
    of_pytest = ["-o", "console_output_style=classic", f"--basetemp={output}.tmp"]
    command = [sys.executable, script, folder, kind, *of_pytest, *sys.argv[1:]]
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
    return Share(kind, process, output)


def _ended(share: Share, seconds: float) -> bool:
    try:
        share.process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(running: list[Share], folder: Path) -> None:
    """End what still runs: pytest, interrupted, ends what its tests have started."""
    (folder / END).touch()
    for wish in (signal.SIGTERM, signal.SIGINT):
        signal.signal(wish, signal.SIG_IGN)
    for share in running:
        share.process.send_signal(signal.SIGINT)
    for share in running:
        if not _ended(share, END_SECONDS):
            share.process.kill()
            share.process.wait()


if __name__ == "__main__":
    sys.exit(main())
