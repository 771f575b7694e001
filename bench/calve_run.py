"""Runs `calve run --once` and measures it."""

from __future__ import annotations

import compileall
import json
import re
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import calve
from bench.measure import Figures, measured
from kit.running import Calve

WAIT_SECONDS = 3600


def calve_run(folder: Path, yaml: str, count: int, *more: str, environment: dict[str, str] | None = None) -> Figures:
    """Work off all that is there, in a process of its own, start-up included; print its warnings and where time went.

    `inside events/s` leaves out what lies before the first batch and behind the last commit; `more` are arguments.
    """
    _compile()
    calve = Calve(folder, yaml)
    calve.log.unlink(missing_ok=True)
    try:
        with measured(count) as found:
            code = calve.start("--once", "--json", "--debug", *more, environment=environment).wait(WAIT_SECONDS)
    finally:
        calve.end()
    if code:
        raise SystemExit(calve.said()[-3000:])
    entries = [json.loads(line) for line in calve.said().splitlines() if line.startswith("{")]
    for one in entries:
        if one["level"] == "warning":
            print(f"  warning: {one['message']}", flush=True)
    steps = ", ".join(f"{step} {share:.0%}" for step, share in _shares(entries).items())
    print(f"  {folder.name}, {count:,} events, time of the tasks: {steps}", flush=True)
    commits = sum(one["message"].startswith("committed ") for one in entries)
    return found | {"inside events/s": count / _seconds_inside(entries), "commits": commits}


@cache
def _compile() -> None:
    """Write the bytecode of Calve, which its installation brings, whatever PYTHONDONTWRITEBYTECODE says."""
    compileall.compile_dir(Path(calve.__file__).parent, quiet=1)


def _shares(entries: list[dict[str, Any]]) -> dict[str, float]:
    """Return the share of the tasks' time that each step took, from the log."""
    total: dict[str, float] = {}
    for one in entries:
        for step, seconds in one.get("steps", {}).items():
            total[step] = total.get(step, 0.0) + seconds
    return {step: seconds / sum(total.values()) for step, seconds in total.items()}


def _seconds_inside(entries: list[dict[str, Any]]) -> float:
    """Return the seconds from the start of the first batch to the last commit, from the log."""
    batch = next(one for one in entries if "steps" in one)
    took = re.search(r" in ([\d.]+) s", batch["message"])
    assert took
    commit = [one for one in entries if one["message"].startswith("committed ")][-1]
    between = datetime.fromisoformat(commit["time"]) - datetime.fromisoformat(batch["time"])
    return float(took[1]) + between.total_seconds()
