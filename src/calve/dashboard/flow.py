"""The drawing of a pipeline: source, processors, routes and tables, with how much went along each arrow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from calve.observe.blueprint import Blueprint, SinkPart
from calve.observe.humanize import harmless, many
from calve.observe.report import PipelineReport

__all__ = ["Branch", "Flow", "FlowTarget", "flow", "sink_of"]

_MOST_TABLES = 8
"""The tables of a branch that are drawn."""
_FORMAT = re.compile(r"\$\{[^}]*\}")


@dataclass(frozen=True)
class FlowTarget:
    """A table or index: its name without control characters, `key` the name itself, and what came to it."""

    name: str
    key: str
    rows: str
    rejects: str


@dataclass(frozen=True)
class Branch:
    """A sink.

    Attributes:
        route: The routes on the way to it; empty: all events.
        kind: The plugin.
        target: Its table, with `${…}` where events decide.
        rows: How many rows its tables have got.
        leaves: Its tables.
        more: How many more there are, as words; empty: none.
    """

    route: str
    kind: str
    target: str
    rows: str
    leaves: list[FlowTarget]
    more: str


@dataclass(frozen=True)
class Flow:
    """A pipeline.

    Attributes:
        read: What came from the source.
        processors: Their names, in order.
        processed: What the processors left; empty without processors.
        branches: The sinks.
        lost: What came to no table, each as words.
    """

    source: str
    read: str
    processors: list[str]
    processed: str
    branches: list[Branch]
    lost: list[str]


def flow(blueprint: Blueprint, report: PipelineReport) -> Flow:
    """Return the drawing of a pipeline with the counts since its first start."""
    processed = report.events - report.dropped + report.added
    return Flow(
        source=harmless(blueprint.source),
        read=many(report.events, "event"),
        processors=[harmless(name) for name in blueprint.processors],
        processed=many(max(0, processed), "event") if blueprint.processors else "",
        branches=[_branch(number, blueprint, report) for number in range(len(blueprint.sinks))],
        lost=list(_lost(report)),
    )


def sink_of(blueprint: Blueprint, table: str) -> SinkPart | None:
    """Return the sink that writes a table: the first whose target it may be; None: it is of none of them."""
    sinks = (sink for sink in blueprint.sinks if _pattern(sink.target).fullmatch(table))
    return next(sinks, None)


def _pattern(target: str) -> re.Pattern[str]:
    return re.compile(".+".join(map(re.escape, _FORMAT.split(target))), re.DOTALL)


def _branch(number: int, blueprint: Blueprint, report: PipelineReport) -> Branch:
    sink = blueprint.sinks[number]
    named = {name: table for name, table in report.targets.items() if sink_of(blueprint, name) is sink}
    names = sorted(named, key=lambda name: (-named[name].rows, name))
    leaves = [
        FlowTarget(harmless(name), name, many(named[name].rows, "row"), _rejects(sum(named[name].rejects.values())))
        for name in names[:_MOST_TABLES]
    ]
    return Branch(
        route=harmless(", then ".join(" or ".join(routes) for routes in sink.routes)),
        kind=harmless(sink.kind),
        target=harmless(sink.target),
        rows=many(sum(table.rows for table in named.values()), "row"),
        leaves=leaves,
        more=many(len(names) - _MOST_TABLES, "more table") if len(names) > _MOST_TABLES else "",
    )


def _rejects(count: int) -> str:
    return f"{count:,} rejected" if count else ""


def _lost(report: PipelineReport) -> Iterator[str]:
    if report.dropped:
        yield f"{many(report.dropped, 'event')} dropped by processors"
    if report.unrouted:
        yield f"{many(report.unrouted, 'event')} without a route"
    if rejects := sum(report.rejects.values()):
        yield f"{many(rejects, 'event')} rejected, to the dead letters"
