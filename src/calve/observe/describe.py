"""Sentences about a report, for the command line and the dashboard."""

from __future__ import annotations

from calve.observe.humanize import ago
from calve.observe.liveness import liveness
from calve.observe.report import PipelineReport

__all__ = ["state_of"]


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
