"""Line charts as SVG paths, drawn by the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from calve.dashboard.history import SAMPLE_SECONDS, SPAN_SECONDS, Sample
from calve.observe.humanize import amount, duration, size

__all__ = ["Chart", "charts"]

WIDTH, HEIGHT = 600, 120
_GAP_SECONDS = 6 * SAMPLE_SECONDS
"""A longer time without a sample interrupts the line: nothing was observed."""
_Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """One line over the last hour.

    Attributes:
        title: What is measured.
        path: The SVG path; empty without two samples in a row.
        now: The last value, formatted.
        top: The largest value, formatted; the upper edge of the chart.
        summary: The chart in one sentence, for readers who do not see it.
    """

    title: str
    path: str
    now: str
    top: str
    summary: str


def charts(samples: Sequence[Sample], now: float) -> list[Chart]:
    """Return the charts of a pipeline: rate, lag, freshness."""
    in_rows = not samples or samples[-1].lag_rows >= 0
    lag: Callable[[Sample], float | None] = _rows if in_rows else lambda sample: float(sample.lag_bytes)
    return [
        _chart("Events read per second", list(_rates(samples)), now, amount),
        _chart(
            "Lag: rows that wait in the source" if in_rows else "Lag: bytes that wait in the source",
            list(_values(samples, lag)),
            now,
            amount if in_rows else size,
        ),
        _chart(
            "Freshness: age of events when they became visible",
            list(_values(samples, lambda sample: sample.freshness_seconds)),
            now,
            _seconds,
        ),
    ]


def _rows(sample: Sample) -> float | None:
    return float(sample.lag_rows) if sample.lag_rows >= 0 else None


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 10 else duration(value)


def _rates(samples: Sequence[Sample]) -> Iterator[tuple[float, float]]:
    for before, after in pairwise(samples):
        seconds = after.at - before.at
        if 0 < seconds <= _GAP_SECONDS:
            yield after.at, max(0.0, (after.events - before.events) / seconds)


def _values(samples: Sequence[Sample], value: Callable[[Sample], float | None]) -> Iterator[tuple[float, float]]:
    for sample in samples:
        found = value(sample)
        if found is not None:
            yield sample.at, found


def _chart(title: str, points: _Points, now: float, shown: Callable[[float], str]) -> Chart:
    if not points:
        return Chart(title, "", "unknown", "", f"{title}: no figures yet")
    last, top = points[-1][1], max(value for _, value in points)
    summary = f"{title}, over the last hour: now {shown(last)}, at most {shown(top)}"
    return Chart(title, _path(points, now, top), shown(last), shown(top), summary)


def _path(points: _Points, now: float, top: float) -> str:
    parts: list[str] = []
    previous = float("-inf")
    for at, value in points:
        x = WIDTH * (1 - (now - at) / SPAN_SECONDS)
        y = HEIGHT - 2 - (HEIGHT - 4) * (value / top if top > 0 else 0.0)
        parts.append(f"{'M' if at - previous > _GAP_SECONDS else 'L'}{max(x, 0):.1f} {y:.1f}")
        previous = at
    return " ".join(parts)
