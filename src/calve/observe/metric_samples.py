"""The samples of a pipeline by family, for Prometheus and OpenTelemetry alike; with very many tables the first ones
are named, and the others are one sample.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

from calve.observe.metric_families import COUNTERS, GAUGES, Samples
from calve.observe.report import PipelineReport
from calve.observe.tally import OTHERS

__all__ = ["MOST_NAMED", "Kind", "families"]

NamedSample = tuple[list[str], float]
Kind = Literal["counter", "gauge"]
MOST_NAMED = 1_000
"""Tables, or partitions, of a pipeline that are named: a page must not grow with ten thousand of them."""
_SUMMED = ("table", "partition", "column", "field")
"""Labels whose values are not kept for the others."""
_OF_OTHERS = {"calve_valid_through_timestamp_seconds": min}
"""Gauges of which the largest value is not the one to know."""


def families(report: PipelineReport) -> Iterator[tuple[Kind, str, str, tuple[str, ...], list[NamedSample]]]:
    """Yield every family: its kind, name, text, labels beside `pipeline`, and the samples that have a value.

    Tables keep their order, also from one run to the next, so a table that is named stays so. Of the others there is
    the sum of a counter, and the largest value of a gauge: its alert still fires.
    """
    names = {"table": _Names(report.tables), "partition": _Names(report.lag_parts)}
    for name, text, labels, samples in COUNTERS:
        yield "counter", name, text, labels, _bounded(_known(report, samples), labels, names, operator.add)
    for name, text, labels, samples in GAUGES:
        yield "gauge", name, text, labels, _bounded(_known(report, samples), labels, names, _OF_OTHERS.get(name, max))


class _Names:
    """Which names of a label have samples of their own: the first ones, and some that are not among these names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._ranks = {name: rank for rank, name in enumerate(names)}
        self._strangers: set[str] = set()

    def __contains__(self, name: str) -> bool:
        if (rank := self._ranks.get(name)) is not None:
            return rank < MOST_NAMED
        if len(self._strangers) < MOST_NAMED:
            self._strangers.add(name)
        return name in self._strangers


def _known(report: PipelineReport, samples: Samples) -> list[NamedSample]:
    return [(values, value) for values, value in samples(report) if value is not None]


def _bounded(
    samples: list[NamedSample],
    labels: tuple[str, ...],
    names: Mapping[str, _Names],
    combine: Callable[[float, float], float],
) -> list[NamedSample]:
    if not labels or labels[0] not in names or len(samples) <= MOST_NAMED:
        return samples
    named: list[NamedSample] = []
    others: dict[tuple[str, ...], float] = {}
    for values, value in samples:
        if values[0] in names[labels[0]]:
            named.append((values, value))
        else:
            key = tuple(OTHERS if label in _SUMMED else text for label, text in zip(labels, values, strict=True))
            others[key] = combine(others[key], value) if key in others else value
    return named + [(list(key), value) for key, value in others.items()]
