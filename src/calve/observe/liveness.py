"""Whether the process that wrote a status still runs; the operating system knows, not the file."""

from __future__ import annotations

import os
import socket
from datetime import datetime
from pathlib import Path
from typing import Literal

from calve.observe.report import PipelineReport, now

__all__ = ["Liveness", "liveness", "process_started"]

Liveness = Literal["alive", "silent", "gone", "ended"]
"""alive · silent (no recent status, from another machine or hanging) · gone (ended without a status) · ended."""

SILENCE_SECONDS = 15.0
"""A status is written every second; a driver without one for this time hangs or is gone."""


def liveness(report: PipelineReport, at: datetime | None = None) -> Liveness:
    """Return whether the pipeline of a report still runs; for another machine only the age of the report counts."""
    if report.state in ("stopped", "failed"):
        return "ended"
    if report.host == socket.gethostname() and not _runs(report.pid, report.process_started):
        return "gone"
    age = ((at or now()) - report.updated).total_seconds() if report.updated else SILENCE_SECONDS
    return "alive" if age < SILENCE_SECONDS else "silent"


def process_started(pid: int) -> int:
    """Return the start of a process in ticks since boot, to recognize a reused pid; 0 if unknown on this system."""
    return _stat(pid)[1]


def _runs(pid: int, started: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # a process of another user: it exists
    state, start = _stat(pid)
    dead = state in ("Z", "X")  # a zombie has only a pid
    return not dead and (start == started or 0 in (start, started))


def _stat(pid: int) -> tuple[str, int]:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", 0
    fields = stat.rpartition(")")[2].split()  # proc(5): fields 3 and 22, counted after the name in brackets
    return fields[0], int(fields[19])
