"""Prints what a benchmark found as a table, and writes it into build/bench/ as JSON and as a drawing (SVG)."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import plot
from bench.measure import Figures, Results, medians, shown

FOLDER = Path(__file__).resolve().parents[1] / "build" / "bench"


class Report:
    """The report of one benchmark.

    Args:
        name: Of its files.
        title: What it measured, in a few words.
    """

    def __init__(self, name: str, title: str) -> None:
        self.name = name
        self.title = title
        self._targets: list[dict[str, Any]] = []
        self._load = os.getloadavg()[0]

    def target(self, text: str, value: float, least: float | None = None, most: float | None = None) -> None:
        """Print a value, and whether it meets its target, where there is one."""
        met = (least is None or value >= least) and (most is None or value <= most)
        wanted = (
            "" if least is most else f"; target at least {least:g}" if most is None else f"; target at most {most:g}"
        )
        print(f"{text}: {value:.2f}{wanted}{': met' if met and wanted else ': MISSED' if wanted else ''}", flush=True)
        self._targets.append({"text": text, "value": value, "least": least, "most": most, "met": met})

    def bars(self, results: Results, key: str) -> None:
        """Print and write the medians; the drawing has a bar for each contender's figure `key`."""
        middle = medians(results)
        print(f"\n{table(middle)}\n", flush=True)
        drawing = plot.bars(f"{self.title}: {key}", {name: found[key] for name, found in middle.items()})
        self._write(drawing, medians=middle, rounds=results)

    def lines(self, rows: Mapping[str, Figures], curves: Mapping[str, list[tuple[float, float]]], axes: str) -> None:
        """Print and write rows of figures, and curves of points."""
        print(f"\n{table(rows)}\n", flush=True)
        self._write(plot.lines(f"{self.title}: {axes}", curves), rows=rows, curves=curves)

    def _write(self, drawing: str, **found: Any) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        machine = {"cores": os.cpu_count(), "system": platform.platform(), "load_before": self._load}
        head = {"title": self.title, "command": sys.argv, "ended": time.strftime("%FT%TZ", time.gmtime())}
        whole = {**head, "machine": machine, **found, "targets": self._targets}
        (FOLDER / f"{self.name}.json").write_text(json.dumps(whole, indent=1) + "\n")
        (FOLDER / f"{self.name}.svg").write_text(drawing)
        print(f"written: build/bench/{self.name}.json and .svg")


def table(rows: Mapping[str, Figures]) -> str:
    """Return rows of figures as a Markdown table."""
    keys = list(dict.fromkeys(key for found in rows.values() for key in found))
    lines = [["", *keys], ["---"] * (len(keys) + 1)]
    lines += [[name, *(shown(found[key]) if key in found else "" for key in keys)] for name, found in rows.items()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
