"""The progress of running pipelines: a live line on a terminal, otherwise a plain line every ten seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from calve.observe import tally
from calve.observe.humanize import ago, amount, many, size
from calve.observe.log import Log
from calve.observe.report import PipelineReport
from calve.observe.terminal import Terminal
from calve.observe.ticker import Ticker

__all__ = ["ProgressLine", "ending", "summary"]

REDRAW_SECONDS = 0.5
LINE_SECONDS = 10.0
_ENDED = ("stopped", "failed")

Reports = Callable[[], list[PipelineReport]]


class ProgressLine:
    """Shows reports until its context ends: redrawn on a terminal, otherwise a line every ten seconds on progress.

    With `json` the lines are log records. The last line of a pipeline summarizes the run, once.

    Args:
        reports: Returns the current reports.
        terminal: Shows the live line.
        json: Whether the log is JSON.
        show_rejects: The command that shows the rejects.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        reports: Reports,
        terminal: Terminal,
        *,
        json: bool = False,
        show_rejects: str = "calve dlq show",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reports = reports
        self._terminal = terminal
        self._json = json
        self._show_rejects = show_rejects
        self._clock = clock
        self._lines_due = clock() + LINE_SECONDS
        self._shown: dict[str, tuple[object, ...]] = {}
        self._ticker: Ticker | None = None

    def tick(self) -> None:
        """Show the current reports."""
        if self._terminal.live and not self._json:
            self._terminal.redraw(" │ ".join(f"{report.pipeline} {summary(report)}" for report in self._reports()))
        elif self._clock() >= self._lines_due:
            self._lines_due = self._clock() + LINE_SECONDS
            self._lines()

    def close(self) -> None:
        """Clear the live line and print how each pipeline ended."""
        self._terminal.redraw("")
        self._lines()

    def __enter__(self) -> ProgressLine:
        self._ticker = Ticker("calve-progress", REDRAW_SECONDS, self.tick)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ticker:
            self._ticker.close()
        self.close()

    def _lines(self) -> None:
        for report in self._reports():
            moved = (report.state, report.events, report.rows, report.lag_rows, len(report.errors), report.refusing)
            if self._shown.get(report.pipeline) != moved:
                self._shown[report.pipeline] = moved
                text = ending(report, self._show_rejects) if report.state in _ENDED else summary(report)
                Log(report.pipeline).info(text, **(_fields(report) if self._json else {}))


def summary(report: PipelineReport) -> str:
    """Return a report as one short line, without the pipeline's name."""
    parts: list[str] = [report.state]
    if report.events_per_second >= 1 and report.state not in _ENDED:
        parts.append(f"{amount(report.events_per_second)} events/s")
    parts.append(f"{many(report.rows, 'row')} written to {many(len(report.targets), 'table')}")
    if report.lag_rows > 0:
        parts.append(f"lag {amount(report.lag_rows)} row{'s' * (report.lag_rows != 1)}")
    elif report.lag_bytes > 0:
        parts.append(f"lag {size(report.lag_bytes)}")
    if report.last_commit:
        parts.append(f"last commit {ago(report.last_commit)}")
    if rejects := sum(report.rejects.values()):
        parts.append(many(rejects, "reject"))
    return " · ".join(parts + _errors(report))


def ending(report: PipelineReport, show_rejects: str) -> str:
    """Return how a run ended and what it did, with its rejects by code, without the pipeline's name."""
    rows = {name: count for name, count in report.run.rows.items() if name not in report.dead_letter_tables}
    tables = sum(count > 0 for count in rows.values())
    parts = [
        report.state,
        many(report.run.events, "event"),
        f"{many(sum(rows.values()), 'row')} written to {many(tables, 'table')}",
    ]
    if rejects := report.run.rejects:
        codes = ", ".join(f"{code} {count:,}" for code, count in sorted(rejects.items(), key=lambda entry: -entry[1]))
        parts.append(f"{sum(rejects.values()):,} rejected ({codes}): {show_rejects}")
    if report.run.dropped:
        parts.append(f"{report.run.dropped:,} dropped by processors")
    if report.run.unrouted:
        parts.append(f"{report.run.unrouted:,} without a route")
    if report.refused:
        parts.append(f"requests refused: {tally.largest(report.refused, 5)}")
    return " · ".join(parts + _errors(report))


def _errors(report: PipelineReport) -> list[str]:
    held = [f"{name}: {table.error.message}" for name, table in report.tables.items() if table.error]
    refusing = [f"refuses events: {report.refusing}"] if report.refusing and report.state not in _ENDED else []
    return [f"error: {text}" for text in [error.message for error in report.errors] + held + refusing]


def _fields(report: PipelineReport) -> dict[str, object]:
    return {
        "state": report.state,
        "events": report.events,
        "events_per_second": report.events_per_second,
        "rows": report.rows,
        "tables": len(report.tables),
        "rejects": sum(report.rejects.values()),
        "rejects_of_run": report.run.rejects,
        "dropped_of_run": report.run.dropped,
        "unrouted_of_run": report.run.unrouted,
        "refused_requests": report.refused,
        "lag_rows": report.lag_rows,
        "lag_bytes": report.lag_bytes,
        "last_commit": report.last_commit,
        "staged_batches": report.staged_batches,
        "freshness_seconds": report.freshness_seconds,
        "errors": len(report.errors) + sum(table.error is not None for table in report.tables.values()),
    }
