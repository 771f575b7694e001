"""Line charts as SVG paths, drawn by the server."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from calve.dashboard.history import SAMPLE_SECONDS, SPAN_SECONDS, Sample
from calve.observe.humanize import amount, duration, size

__all__ = ["Chart", "charts", "rows_chart"]

WIDTH, HEIGHT = 600, 120
_GAP_SECONDS = 6 * SAMPLE_SECONDS
"""A longer time without a sample interrupts the line: nothing was observed."""
_LEAST_SECONDS = 60.0
"""The least time of an axis: in the first minutes of a run the line must not be a hair at the edge."""
_Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """One line over the time that was observed, at most the last hour.

    Attributes:
        title: What is measured.
        path: The SVG path; empty without samples.
        now: The last value, formatted.
        grid: Horizontal lines: their height in the drawing, and the value, formatted.
        begins: How long ago the left edge is.
        summary: The chart in one sentence, for readers who do not see it.
    """

    title: str
    path: str
    now: str
    grid: list[tuple[float, str]]
    begins: str
    summary: str


@dataclass(frozen=True)
class _Axis:
    """The time from the left edge to the right one, in epoch seconds."""

    start: float
    end: float

    def x(self, at: float) -> float:
        return max(0.0, WIDTH * (at - self.start) / (self.end - self.start))


def charts(samples: Sequence[Sample], now: float, rate: str = "", lag: str = "", freshness: str = "") -> list[Chart]:
    """Return the charts of a pipeline: rate, lag, freshness, and rejects and refused requests if there are some.

    Args:
        samples: Oldest first.
        now: The time now, in epoch seconds.
        rate: The present figure, in the words of the overview; empty: the last sample. So are `lag` and `freshness`.
        lag: See `rate`.
        freshness: See `rate`.
    """
    in_rows = not samples or samples[-1].lag_rows >= 0
    first = samples[0].at if samples else now
    axis = _Axis(min(max(first, now - SPAN_SECONDS), now - _LEAST_SECONDS), now)
    waiting: Callable[[Sample], float | None] = _rows if in_rows else lambda sample: float(sample.lag_bytes)
    rejects = list(_rates(samples, lambda sample: sample.rejects))
    refused = list(_rates(samples, lambda sample: sample.refused))
    return [
        _chart("Rate", list(_rates(samples, lambda sample: sample.events)), axis, amount, rate),
        _chart("Lag", list(_values(samples, waiting)), axis, amount if in_rows else size, lag),
        _chart(
            "Fresh",
            list(_values(samples, lambda sample: sample.freshness_seconds)),
            axis,
            _seconds,
            freshness,
        ),
        *([_chart("Rejected events per second", rejects, axis, _few)] if _any(rejects) else []),
        *([_chart("Refused requests per second", refused, axis, _few)] if _any(refused) else []),
    ]


def rows_chart(points: _Points, now: float) -> Chart:
    """Return the chart of a table: the rows that were committed since the first point, over time.

    Args:
        points: Times and rows since the first start, oldest first.
        now: The time now, in epoch seconds.
    """
    first, before = points[0] if points else (now, 0.0)
    axis = _Axis(min(max(first, now - SPAN_SECONDS), now - _LEAST_SECONDS), now)
    added = [(at, max(0.0, rows - before)) for at, rows in points]
    if added and added[-1][0] < now:
        added.append((now, added[-1][1]))
    return _chart("Rows committed meanwhile", added, axis, amount, gap_seconds=SPAN_SECONDS)


def _any(points: _Points) -> bool:
    return any(value for _, value in points)


def _few(value: float) -> str:
    return f"{value:.2g}" if value < 10 else amount(value)


def _rows(sample: Sample) -> float | None:
    return float(sample.lag_rows) if sample.lag_rows >= 0 else None


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 10 else duration(value)


def _rates(samples: Sequence[Sample], count: Callable[[Sample], int]) -> Iterator[tuple[float, float]]:
    for before, after in pairwise(samples):
        seconds = after.at - before.at
        if 0 < seconds <= _GAP_SECONDS:
            yield after.at, max(0.0, (count(after) - count(before)) / seconds)


def _values(samples: Sequence[Sample], value: Callable[[Sample], float | None]) -> Iterator[tuple[float, float]]:
    for sample in samples:
        number = value(sample)
        if number is not None:
            yield sample.at, number


def _chart(
    title: str,
    points: _Points,
    axis: _Axis,
    as_text: Callable[[float], str],
    present: str = "",
    gap_seconds: float = _GAP_SECONDS,
) -> Chart:
    begins = duration(axis.end - axis.start)
    if not points:
        return Chart(title, "", present or "unknown", [], begins, f"{title}: no figures yet")
    last, highest = points[-1][1], max(value for _, value in points)
    top = _round_up(highest)
    grid = [(_y(top * part, top), as_text(top * part)) for part in (1.0, 0.5)] if top else []
    now = present or as_text(last)
    summary = f"{title}, over the last {begins}: now {now}, at most {as_text(highest)}"
    return Chart(title, _path(points, axis, top, gap_seconds), now, grid, begins, summary)


def _round_up(value: float) -> float:
    """Return the next larger of 1, 2, 4, 5, 8, 10 times a power of ten: half of it is a round number, too."""
    if value <= 0:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 2, 4, 5, 8, 10, 20) if step * unit >= value)


def _y(value: float, top: float) -> float:
    return HEIGHT - 2 - (HEIGHT - 4) * (value / top if top > 0 else 0.0)


def _path(points: _Points, axis: _Axis, top: float, gap_seconds: float) -> str:
    parts: list[str] = []
    previous = float("-inf")
    for at, value in points:
        parts.append(f"{'M' if at - previous > gap_seconds else 'L'}{axis.x(at):.1f} {_y(value, top):.1f}")
        previous = at
    return " ".join(parts)
