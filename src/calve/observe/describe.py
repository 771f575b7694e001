"""Sentences about a report, for the command line and the dashboard."""

from __future__ import annotations

from calve.observe.humanize import ago, many, size
from calve.observe.liveness import liveness
from calve.observe.report import KeyIndexStats, PipelineReport

__all__ = ["index_of", "state_of"]


def state_of(report: PipelineReport) -> str:
    """Return the state of a pipeline, and of its process."""
    up = f"up {ago(report.started).removesuffix(' ago')}, " if report.started else ""
    where = f"pid {report.pid} on {report.host}"
    news = ago(report.updated) if report.updated else "never"
    match liveness(report):
        case "ended":
            return f"{report.state} {news}"
        case "gone":
            return f"not running (killed?): was {report.state} {news}; the next `calve run` continues from there"
        case "silent":
            return f"{report.state}, but silent: last update {news} ({where})"
        case _:
            return f"{'paused' if report.paused else report.state} ({up}{where})"


def index_of(stats: KeyIndexStats) -> str:
    """Return what a key index has, and whether the table agrees with it."""
    audited = f" ({ago(stats.last_audit)})" if stats.last_audit else ""
    stale = f", {stats.stale:,} stale" if stats.stale else ""
    anew = f", began anew {many(stats.rebuilt, 'time')}" if stats.rebuilt else ""
    return f"{many(stats.rows, 'row')}, {size(stats.size_bytes)}, {stats.audited_rows:,} audited{audited}{stale}{anew}"
