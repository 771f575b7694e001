"""The rows of tables over the last hour: a point whenever a sample has more, in memory and in one local file."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from calve import structs
from calve.files.private import make_private
from calve.observe.log import Log
from calve.observe.report import PipelineReport
from calve.state import durable

__all__ = ["SAMPLE_SECONDS", "SPAN_SECONDS", "RowHistory"]

SAMPLE_SECONDS = 10
SPAN_SECONDS = 3600
MOST_TABLES, MOST_OF_PIPELINE = 600, 20
"""So many tables together, and of one pipeline: those that committed last. The file stays below 10 MB."""
_MOST_POINTS = SPAN_SECONDS // SAMPLE_SECONDS + 1
Points = list[tuple[float, int]]


class RowHistory:
    """Times and rows by pipeline and table, oldest first. Thread-safe; the dashboard goes on without its file.

    Args:
        file: Where it is kept over restarts; None: only in memory.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._points: dict[str, dict[str, Points]] = self._load()

    def add(self, reports: list[PipelineReport], now: float | None = None) -> None:
        """Add a point for each table that has other rows now, and forget old points and surplus tables."""
        at = time.time() if now is None else now
        most = max(1, min(MOST_OF_PIPELINE, MOST_TABLES // max(1, len(reports))))
        with self._lock:
            before, self._points = self._points, {}
            for report in reports[:MOST_TABLES]:
                old = before.get(report.pipeline, {})
                self._points[report.pipeline] = {
                    name: _with(old.get(name, []), at, rows) for name, rows in _newest(report, most)
                }

    def of(self, pipeline: str, table: str) -> list[tuple[float, float]]:
        """Return the points of a table; none for one that is not followed."""
        with self._lock:
            return [(at, float(rows)) for at, rows in self._points.get(pipeline, {}).get(table, ())]

    def fill(self, pipeline: str, table: str, points: Iterable[tuple[float, int]]) -> None:
        """Replace the points of a table; oldest first."""
        with self._lock:
            self._points.setdefault(pipeline, {})[table] = list(points)

    def save(self) -> None:
        """Write the file; if that fails, the history of the pipelines, which is beside it, says it."""
        if self._file is None or not self._points:
            return
        with self._lock:
            data = msgspec.json.encode(self._points)
        try:
            make_private(self._file.parent)
            durable.replace(self._file, data)
        except Exception:  # as its neighbour, which logs it
            return

    def _load(self) -> dict[str, dict[str, Points]]:
        if self._file is None:
            return {}
        try:
            return structs.decode(self._file.read_bytes(), dict[str, dict[str, Points]])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            Log().warning(f"the history of tables begins again: {self._file} cannot be read: {error}")
            return {}


def _newest(report: PipelineReport, most: int) -> Iterator[tuple[str, int]]:
    """Yield the tables that committed last, with their rows."""
    tables = [(name, table) for name, table in report.targets.items() if table.last_commit]
    tables.sort(key=lambda named: named[1].last_commit or 0, reverse=True)
    yield from ((name, table.rows) for name, table in tables[:most])


def _with(points: Points, at: float, rows: int) -> Points:
    """Return the points of the last hour, and the last one before it, with a new one if the rows are others."""
    if points and rows < points[-1][1]:  # another state: it counts from the beginning
        points = []
    if not points or rows != points[-1][1]:
        points = [*points, (at, rows)]
    recent = [number for number, (moment, _) in enumerate(points) if moment >= at - SPAN_SECONDS]
    first = max(0, (recent[0] if recent else len(points)) - 1)
    return points[first:][-_MOST_POINTS:]
