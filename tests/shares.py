"""Runs the tests in three processes side by side: plain ones, those that kill, and those with servers or the JVM.

The last two often wait, and take about as long as each other. Arguments are pytest's. A line every half a minute says
how many tests of each are done; the output of each comes when it ends, in one piece. Ended by SIGTERM or Ctrl-C, it
ends all three, and these end what their tests have started.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SHARES = {
    "plain": "not spark and not services and not crash",
    "kills": "crash",
    "servers and Spark": "(spark or services) and not crash",
}
NOTHING_TO_RUN = 5
TELL_SECONDS = 30


@dataclass
class Share:
    """One process of pytest, with the file that has its output."""

    name: str
    process: subprocess.Popen[bytes]
    output: Path

    def said(self) -> str:
        return self.output.read_text(errors="replace")

    def tests(self) -> int:
        """Count the tests that are done, by pytest's characters."""
        return sum(len(line) for line in re.findall(r"^([.FEsxX]+)(?: *\[.*\])?$", self.said(), re.MULTILINE))


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    print("Running all tests in three processes: some 25 minutes on 2 cores", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        running = [_start(Path(folder) / name, name, marks) for name, marks in SHARES.items()]
        codes = set()
        try:
            began = told = time.monotonic()
            while running:
                for share in [each for each in running if _ended(each, 1 / len(running))]:
                    running.remove(share)
                    codes.add(share.process.returncode)
                    print(f"== {share.name}\n{share.said()}", flush=True)
                if running and time.monotonic() - told >= TELL_SECONDS:
                    told = time.monotonic()
                    minutes, seconds = divmod(int(told - began), 60)
                    far = ", ".join(f"{each.name} {each.tests()} tests" for each in running)
                    print(f"{minutes:2}:{seconds:02} {far}", flush=True)
        finally:
            for share in running:
                share.process.send_signal(signal.SIGINT)  # pytest ends what its tests have started
            for share in running:
                share.process.wait()
    if codes - {0, NOTHING_TO_RUN}:
        return 1
    return 0 if 0 in codes else NOTHING_TO_RUN


def _start(output: Path, name: str, marks: str) -> Share:
    command = [sys.executable, "-m", "pytest", *sys.argv[1:], "-m", marks]
    with output.open("wb") as file:
        return Share(
            name, subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True), output
        )


def _ended(share: Share, seconds: float) -> bool:
    try:
        share.process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
