"""Pipelines that are fed by another pipeline: checked at both ends, and joined into one pipeline with all sinks.

A connector is another branch of the same stream. So the pipelines after it become a part of the first one: their
sinks are its sinks, each with the routes of every pipeline on the way, or those since the last one that has processors.
No queue between them can lose or duplicate events (docs/decisions/0013).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from calve.settings.notify import NotifySettings
from calve.settings.option import option
from calve.settings.pipeline import BranchSettings, PipelineSettings, Plugin, SinkEntry
from calve.settings.problems import Location, SettingsProblem, unknown

__all__ = ["Ends", "FromPipeline", "ToPipeline", "faults", "joined"]


@dataclass(frozen=True)
class FromPipeline:
    """Receives the events that a sink of another pipeline in the configuration sends to this pipeline."""

    name: str = option(
        doc="The other pipeline. One of its sinks must be `pipeline` with the name of this pipeline.", minimum=1
    )


@dataclass(frozen=True)
class ToPipeline:
    """Sends events to another pipeline in the configuration; both run as one, under the name of the first."""

    name: str = option(
        doc="The other pipeline. Its source must be `pipeline` with the name of this pipeline.", minimum=1
    )


@dataclass(frozen=True)
class Ends:
    """Source and sinks of a pipeline, as far as they could be read.

    Attributes:
        source: None if it was wrong.
        sinks: None for each sink that was wrong.
        locations: The location of each key path.
    """

    name: str
    source: Plugin | None
    sinks: Sequence[SinkEntry | None]
    locations: Mapping[str, Location]

    @property
    def upstream(self) -> str | None:
        """The pipeline that feeds it; None if it has a source of its own, or a wrong one."""
        return self.source.value.name if self.source and isinstance(self.source.value, FromPipeline) else None

    def connectors(self) -> Iterator[tuple[str, str]]:
        """Yield the name of each pipeline that it feeds, and the key path of this name."""
        for sink in self.sinks:
            if sink and isinstance(sink.value, ToPipeline):
                yield sink.value.name, f"{sink.path}.name"

    def problem(self, path: str, message: str) -> SettingsProblem:
        """Return an error about a key path."""
        return SettingsProblem(self.locations[path], f"{self.name}.{path}", message)


def faults(ends: Sequence[Ends], names: Collection[str]) -> Iterator[SettingsProblem]:
    """Yield errors of connectors whose other end is missing or wrong, and of loops.

    Args:
        ends: Of every pipeline that could be read.
        names: Of all pipelines.
    """
    by_name = {end.name: end for end in ends}
    for end in ends:
        yield from _of_source(end, by_name, names)
        yield from _of_sinks(end, by_name, names)
    yield from _circles(by_name)


def joined(pipelines: Sequence[PipelineSettings]) -> tuple[list[PipelineSettings], list[SettingsProblem]]:
    """Join pipelines with valid connectors; return those with a source of their own, and the errors."""
    by_name = {pipeline.name: pipeline for pipeline in pipelines}
    roots = [pipeline for pipeline in pipelines if not isinstance(pipeline.source.value, FromPipeline)]
    whole = [_whole(pipeline, by_name) for pipeline in roots]
    wrong = [
        problem for pipeline in whole for check in (_fieldless, _collected) for problem in check(pipeline, by_name)
    ]
    return whole, wrong


def _of_source(end: Ends, by_name: Mapping[str, Ends], names: Collection[str]) -> Iterator[SettingsProblem]:
    path, upstream = "source.pipeline.name", end.upstream
    if upstream is None:
        return
    if upstream not in names:
        yield end.problem(path, unknown("pipeline", upstream, {*names} - {end.name}))
    elif (other := by_name.get(upstream)) and all(other.sinks) and end.name not in dict(other.connectors()):
        yield end.problem(
            path, f"{upstream} has no sink for this pipeline; add `- pipeline: {{name: {end.name}}}` to its sinks"
        )


def _of_sinks(end: Ends, by_name: Mapping[str, Ends], names: Collection[str]) -> Iterator[SettingsProblem]:
    met: set[str] = set()
    for name, path in end.connectors():
        other = by_name.get(name)
        if name in met:
            yield end.problem(path, f"{name} already receives these events; list all its routes in one sink")
        elif name not in names:
            yield end.problem(path, unknown("pipeline", name, {*names} - {end.name}))
        elif other and other.source and other.upstream != end.name:
            takes = f"from {other.upstream}" if other.upstream else f"from its own source, {other.source.name}"
            yield end.problem(
                path, f"{name} reads its events {takes}; its source must be `pipeline: {{name: {end.name}}}`"
            )
        met.add(name)


def _circles(by_name: Mapping[str, Ends]) -> Iterator[SettingsProblem]:
    """Follow each pipeline to its source; report each loop once."""
    seen: set[str] = set()
    for start in by_name:
        way: list[str] = []
        at: str | None = start
        while at is not None and at in by_name and at not in seen:
            seen.add(at)
            way.append(at)
            at = by_name[at].upstream
        if at is not None and at in way:
            circle = [*way[way.index(at) :], at]
            message = f"the pipelines form a loop: {' → '.join(reversed(circle))}"
            yield by_name[at].problem("source.pipeline.name", message)


def _whole(root: PipelineSettings, by_name: Mapping[str, PipelineSettings]) -> PipelineSettings:
    sinks: list[SinkEntry] = []
    feeds: list[str] = []
    branches: list[BranchSettings] = []
    waiting = list(reversed(root.sinks))
    while waiting:
        sink = waiting.pop()
        if isinstance(sink.value, ToPipeline):
            feeds.append(sink.value.name)
            fed = by_name[sink.value.name]
            if fed.processors:
                keys = sink.include_keys, sink.exclude_keys
                branches.append(BranchSettings(fed.name, sink.branch, sink.gates, tuple(fed.processors), *keys))
                sink = replace(sink, branch=fed.name, gates=(), include_keys=(), exclude_keys=())
            waiting += [_behind(sink, inner, fed.notify) for inner in reversed(fed.sinks)]
        else:
            sinks.append(sink)
    return replace(root, sinks=sinks, feeds=tuple(feeds), branches=tuple(branches))


def _behind(connector: SinkEntry, inner: SinkEntry, notify: tuple[NotifySettings, ...]) -> SinkEntry:
    """Return a sink as seen from before the connector: with more routes and receivers, and fewer fields."""
    include = [key for key in inner.include_keys if not connector.include_keys or key in connector.include_keys]
    return replace(
        inner,
        gates=(*connector.gates, *inner.gates),
        include_keys=tuple(include) if inner.include_keys else connector.include_keys,
        exclude_keys=(*connector.exclude_keys, *inner.exclude_keys),
        notify=(*connector.notify, *notify, *inner.notify),
        branch=connector.branch,
    )


def _collected(whole: PipelineSettings, by_name: Mapping[str, PipelineSettings]) -> Iterator[SettingsProblem]:
    for fed in (by_name[name] for name in whole.feeds):
        if fed.otlp:
            yield fed.problem("otlp", f"it runs as a part of {whole.name}; set it there")


def _fieldless(whole: PipelineSettings, by_name: Mapping[str, PipelineSettings]) -> Iterator[SettingsProblem]:
    for sink in whole.sinks:
        own = next(own_sink for own_sink in by_name[sink.pipeline].sinks if own_sink.path == sink.path)
        included = bool(own.include_keys or sink.include_keys)
        if included and not {*sink.include_keys} - {*sink.exclude_keys}:
            message = "writes no field: include_keys and exclude_keys of this and earlier pipelines leave none"
            yield by_name[sink.pipeline].problem(sink.path, message)
