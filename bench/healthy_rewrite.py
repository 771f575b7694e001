"""What a round of maintenance costs: 100 files of 20,000 rows each, joined by Calve's own task and by Iceberg's action.

The rounds of a fresh process are told apart: the first ones pay for classes and for code that is not compiled yet.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from bench.measure import CPU, Figures, shown
from bench.report import Report
from calve.maintenance import by_need
from calve.table.limits import DEFAULTS

FILES = 100


def rewrites(open_day: Callable[[Path], Any], rounds: int, folder: str | None) -> None:
    """Join the files of so many rounds on each side, in processes of their own; report CPU seconds per million rows.

    Args:
        open_day: Opens a table in a folder, as a context.
        rounds: How many rounds.
        folder: Where the tables are made.
    """
    rows: dict[str, Figures] = {}
    curves: dict[str, list[tuple[float, float]]] = {}
    join = by_need.join
    for side, chosen in {"copied": join, "Iceberg's action": lambda *_: None}.items():
        by_need.join = chosen
        with tempfile.TemporaryDirectory(prefix="calve-rewrite-", dir=folder) as place, open_day(Path(place)) as day:
            for number in range(1, rounds + 1):
                rows[f"{side}, round {number}"] = found = _round(day)
                curves.setdefault(f"{side}: CPU s/M", []).append((number, found["CPU s/M"]))
                print(f"{side}, round {number}: " + ", ".join(f"{shown(v)} {k}" for k, v in found.items()), flush=True)
    by_need.join = join
    Report("healthy-rewrite", f"{FILES} files of {day.rows} rows joined into one").lines(rows, curves, "by round")


def _round(day: Any) -> Figures:
    for _ in range(FILES):
        day.commit()
    maintained = by_need.Rounds(
        day.bench, replace(DEFAULTS, small_files=FILES, quiet=timedelta(days=9), max_snapshots=0)
    )
    used = CPU.seconds()
    round = maintained.run()
    million = FILES * day.rows / 1e6
    assert any("joined into" in step for step in round.done), round.done
    return {"CPU s/M": (CPU.seconds() - used) / million, "seconds": round.seconds}
