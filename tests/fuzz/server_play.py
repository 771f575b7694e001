"""Plays rounds of hostile servers against the clients, without Spark: `make fuzz FUZZ=--servers`.

A round attacks one client in each of its ways. The client must end with an error of Calve's, in bounded time and memory
and after a bounded number of requests; no error may come of answers that mean nothing to the client.
"""

from __future__ import annotations

import json
import queue
import random
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from fuzz.check import Finding
from fuzz.hostile_servers import Hostile, scripts
from fuzz.server_clients import CLIENTS

__all__ = ["of"]

TESTS = Path(__file__).parents[1]
LONGEST_SECONDS = 60.0
"""The clients wait for about a second; the machine may be busy."""
MOST_KB = 1 << 20
MOST_CONNECTIONS = 200
MEANINGLESS = ("wrong types", "many empty lists", "references without an end", "no UTF-8", "wrong length")


class Clients:
    """The process of the clients; restarted when one hangs."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()

    def ask(self, kind: str, port: int) -> dict[str, Any] | str:
        """Return how a client ended, or what became of its process."""
        if self._process is None:
            command = [sys.executable, "-m", "fuzz.server_clients"]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=TESTS
            )
            self._lines = queue.Queue()
            threading.Thread(target=self._read, args=(self._process, self._lines), daemon=True).start()
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"kind": kind, "port": port}) + "\n")
        self._process.stdin.flush()
        try:
            line = self._lines.get(timeout=LONGEST_SECONDS)
        except queue.Empty:
            self.end()
            return "it does not end"
        if not line:
            self.end()
            return "its process is gone"
        ended: dict[str, Any] = json.loads(line)
        return ended

    def end(self) -> None:
        """End the process."""
        if self._process:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin
            self._process.stdin.close()
            self._process = None

    @staticmethod
    def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
        assert process.stdout
        with process.stdout:
            for line in process.stdout:
                lines.put(line)
        lines.put("")


def of(
    seed: str, number: int, folder: Path, kinds: tuple[str, ...] = tuple(CLIENTS)
) -> tuple[Counter[str], list[Finding]]:
    """Play a round of a seed; return what was counted, and what is wrong."""
    folder.mkdir(parents=True)
    counts, findings = Counter[str](), list[Finding]()
    clients = Clients()
    kind = kinds[number % len(kinds)]
    try:
        for name, script in scripts(kind).items():
            rnd = random.Random(f"{seed}-{number}-{name}")
            with Hostile(lambda script=script, rnd=rnd: script(rnd)) as server:
                ended = clients.ask(kind, server.port)
                connections = server.connections
            counts.update(attacks=1, errors=isinstance(ended, dict) and bool(ended["error"]))
            findings += [Finding(*each, f"{kind}, {name}: {ended}") for each in wrong(kind, name, ended, connections)]
    finally:
        clients.end()
    (folder / "findings.txt").write_text("\n".join(finding.text for finding in findings))
    return counts, findings


def wrong(kind: str, name: str, ended: dict[str, Any] | str, connections: int) -> list[tuple[str, str]]:
    """Return the kinds and words of what must not happen."""
    if isinstance(ended, str):
        return [("hang", f"{kind}, {name}: {ended}")]
    faults = []
    if not ended["is_clear"]:
        faults.append(("bug", f"{kind}, {name}: {ended['error'][:80]}"))
    if not ended["error"] and name not in MEANINGLESS:
        faults.append(("bug", f"{kind}, {name}: no error"))
    if ended["grown_kb"] > MOST_KB:
        faults.append(("bug", f"{kind}, {name}: the memory grew"))
    if connections > MOST_CONNECTIONS:
        faults.append(("bug", f"{kind}, {name}: {connections} connections"))
    return faults
