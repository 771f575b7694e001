"""Is the process that wrote a status still there? Asked of the operating system, not of the file."""

from __future__ import annotations

import os
import socket
from datetime import datetime
from pathlib import Path
from typing import Literal

from calve.observe.report import PipelineReport, now

__all__ = ["Liveness", "liveness", "process_started"]

Liveness = Literal["alive", "silent", "gone", "ended"]
"""alive · silent (no news, and nothing more can be known from here) · gone (died without a word) · ended (said so)."""

SILENCE_SECONDS = 15.0
"""A status is written every second; a driver that is silent for this long hangs or is gone."""


def liveness(report: PipelineReport, at: datetime | None = None) -> Liveness:
    """Say whether the pipeline of a report still runs; a report from another machine is judged by its age alone."""
    if report.state in ("stopped", "failed"):
        return "ended"
    if report.host == socket.gethostname() and not _runs(report.pid, report.process_started):
        return "gone"
    age = ((at or now()) - report.updated).total_seconds() if report.updated else SILENCE_SECONDS
    return "alive" if age < SILENCE_SECONDS else "silent"


def process_started(pid: int) -> int:
    """Give the start of a process in ticks since the machine's, to tell a reused number apart; 0: not known here."""
    return _stat(pid)[1]


def _runs(pid: int, started: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's process: it exists
    state, found = _stat(pid)
    dead = state in ("Z", "X")  # a zombie has a number and nothing else
    return not dead and (found == started or 0 in (found, started))


def _stat(pid: int) -> tuple[str, int]:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", 0
    fields = stat.rpartition(")")[2].split()  # proc(5): fields 3 and 22, counted behind the name in brackets
    return fields[0], int(fields[19])
