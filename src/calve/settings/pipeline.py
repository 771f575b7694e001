"""The parsed configuration: pipelines of plugins, each with its location in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from calve.errors import SettingsError
from calve.settings.node import nearest
from calve.settings.notify import NotifySettings
from calve.settings.option import option
from calve.settings.otlp import OtlpSettings
from calve.settings.problems import Location, SettingsProblem

__all__ = [
    "DEFAULT_ROUTE",
    "BranchSettings",
    "GateSettings",
    "Parsed",
    "PipelineKeys",
    "PipelineSettings",
    "Plugin",
    "Plugins",
    "SinkEntry",
    "SinkKeys",
    "named",
    "only",
]

DEFAULT_ROUTE = "_default"
"""The route of events that match no other route."""


@dataclass(frozen=True)
class Plugins:
    """The plugins that a configuration may use: settings classes by name.

    Attributes:
        sources: Settings classes of sources; one with `plugin()` stands for the plugin whose name and settings that
            returns.
        sinks: Settings classes of sinks.
        processors: Settings classes of processors.
        refused: Why others of Data Prepper are not among them, by kind (`source`, `processor`, `sink`) and name.
        adding: Returns the settings of a processor that adds metadata attributes to events, by the keys of the fields.
        condition: Compiles the condition of a route; its `SettingsError` is reported at the condition's location.
        faults: Yields errors of whole pipelines, given those with a source of their own and all by name.
    """

    sources: Mapping[str, type] = field(default_factory=dict)
    sinks: Mapping[str, type] = field(default_factory=dict)
    processors: Mapping[str, type] = field(default_factory=dict)
    refused: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    adding: Callable[[Mapping[str, str]], Any] | None = None
    condition: Callable[[str], object] | None = None
    faults: Callable[[Sequence[PipelineSettings], Mapping[str, PipelineSettings]], Iterable[SettingsProblem]] = (
        lambda pipelines, by_name: ()
    )


@dataclass(frozen=True)
class PipelineKeys:
    """One pipeline, from a source to its sinks."""

    workers: int = option(1, "Accepted for compatibility with Data Prepper; no effect.", minimum=1)
    delay: timedelta = option(
        timedelta(seconds=3), "Accepted for compatibility with Data Prepper; no effect.", unit="ms"
    )
    buffer: dict[str, Any] | None = option(
        None, "Accepted for compatibility with Data Prepper; no effect, because Calve needs no buffer."
    )
    notify: list[NotifySettings] = option(
        [], "Who is sent what happens to the tables of this pipeline: commits, complete partitions, rejects."
    )
    otlp: OtlpSettings | None = option(
        None, "Push the metrics to an OpenTelemetry collector (`pip install 'calve[otel]'`)."
    )


@dataclass(frozen=True)
class SinkKeys:
    """Keys of every sink, in addition to its own."""

    routes: list[str] = option(
        [], "The sink receives the events of these routes; without routes it receives all events."
    )
    include_keys: list[str] = option(
        [],
        "Only these top-level fields of an event are written, with the exact spelling of the event. Routes, table "
        "names and dead letters see the whole event.",
    )
    exclude_keys: list[str] = option(
        [], "These top-level fields of an event are not written. Cannot be combined with `include_keys`."
    )
    notify: list[NotifySettings] = option([], "As `notify` of the pipeline, for the tables of this sink alone.")

    def check(self) -> Iterator[tuple[str, str]]:
        """Reject both lists together, and paths as keys, as Data Prepper does."""
        if self.include_keys and self.exclude_keys:
            yield "exclude_keys", "include_keys and exclude_keys cannot be combined; keep one"
        for name in ("include_keys", "exclude_keys"):
            for index, key in enumerate(getattr(self, name)):
                if "/" in key:
                    yield f"{name}[{index}]", "a key is the name of a top-level field and cannot contain `/`"

    def oddities(self, needs: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield warnings about omitted fields that the sink needs.

        Args:
            needs: The purpose of each such field.
        """
        for field_name, purpose in needs.items():
            said = f"omits the field of {purpose}: every event will be rejected"
            if self.include_keys and field_name not in self.include_keys:
                yield "include_keys", said
            elif field_name in self.exclude_keys:
                yield f"exclude_keys[{self.exclude_keys.index(field_name)}]", said


@dataclass(frozen=True)
class Plugin:
    """A source or a processor.

    Attributes:
        name: The plugin's name.
        value: An instance of its settings class.
        path: Its key path in the pipeline, e.g. `source.http`.
        line: The line of its name.
    """

    name: str
    value: Any
    path: str
    line: int


@dataclass(frozen=True)
class GateSettings:
    """The routes of one pipeline that an event must match on its way to a sink.

    Attributes:
        pipeline: Its name.
        conditions: All its routes: conditions by name.
        routes: Names of routes of which one must match; `_default` matches if no route does.
    """

    pipeline: str
    conditions: Mapping[str, str]
    routes: tuple[str, ...]


@dataclass(frozen=True)
class SinkEntry(Plugin):
    """A sink.

    Attributes:
        pipeline: The pipeline that contains it; `path` is relative to it.
        gates: What an event must match, pipeline by pipeline; empty if it takes all events.
        routes: Names of the routes of its pipeline whose events it takes; empty: all events.
        include_keys: If not empty, only these top-level fields are written.
        exclude_keys: These top-level fields are not written.
        notify: Who is sent what happens to its tables.
        branch: The name of the branch that its events come from; empty: they come from the first pipeline.
    """

    pipeline: str = ""
    gates: tuple[GateSettings, ...] = ()
    routes: tuple[str, ...] = ()
    include_keys: tuple[str, ...] = ()
    exclude_keys: tuple[str, ...] = ()
    notify: tuple[NotifySettings, ...] = ()
    branch: str = ""


@dataclass(frozen=True)
class BranchSettings:
    """A fed pipeline with processors: what it gets is another stream than that of the pipeline before it.

    Attributes:
        name: Its name.
        upstream: The branch that its events come from; empty: they come from the first pipeline.
        gates: What an event must match on the way from there, pipeline by pipeline.
        processors: Its processors, in order.
        include_keys: If not empty, its processors get only these top-level fields.
        exclude_keys: Its processors do not get these top-level fields.
    """

    name: str
    upstream: str
    gates: tuple[GateSettings, ...]
    processors: tuple[Plugin, ...]
    include_keys: tuple[str, ...] = ()
    exclude_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class PipelineSettings:
    """One pipeline.

    Attributes:
        name: Its name, valid as the name of a folder.
        source: The source of the events.
        sinks: At least one.
        routes: Conditions by route, in the order of the file.
        processors: In order.
        workers: As in the file; no effect.
        delay: As in the file; no effect.
        file: The file that contains it.
        line: The line of its name.
        locations: The location of each key path; see `where`.
        feeds: The pipelines that it feeds, directly or through others; their sinks are among its own.
        branches: Those of them with processors, each after the one that it comes from.
        shown: Its YAML, and that of the pipelines that it feeds, without secrets and comments.
        notify: Who is sent what happens to its tables.
        otlp: The collector that gets its metrics.
    """

    name: str
    source: Plugin
    sinks: list[SinkEntry]
    routes: dict[str, str]
    processors: list[Plugin]
    workers: int
    delay: timedelta
    file: str
    line: int
    locations: dict[str, Location] = field(default_factory=dict, repr=False, compare=False)
    feeds: tuple[str, ...] = ()
    branches: tuple[BranchSettings, ...] = ()
    shown: str = field(default="", repr=False, compare=False)
    notify: tuple[NotifySettings, ...] = ()
    otlp: OtlpSettings | None = None

    @property
    def title(self) -> str:
        """Its name, and the names of the pipelines that run as a part of it."""
        return f"{self.name} (feeds {', '.join(self.feeds)})" if self.feeds else self.name

    def way(self, branch: str) -> list[BranchSettings]:
        """Return the branches on the way to a branch, itself the last one; empty: those of the first pipeline."""
        by_name, way = {fed.name: fed for fed in self.branches}, list[BranchSettings]()
        while branch:
            way.insert(0, by_name[branch])
            branch = way[0].upstream
        return way

    def gates(self, sink: SinkEntry) -> tuple[GateSettings, ...]:
        """Return all that an event must match on the way from the source to a sink, whatever changes it there."""
        return (*(gate for branch in self.way(sink.branch) for gate in branch.gates), *sink.gates)

    @property
    def every_processor(self) -> list[Plugin]:
        """Its processors, and those of its branches."""
        return [*self.processors, *(plugin for branch in self.branches for plugin in branch.processors)]

    def where(self, path: str) -> Location:
        """Return the location of a key path, e.g. `sink[0].iceberg.table_identifier` or `route.errors`.

        For a path that is not in the file, it is the location of its longest part that is.
        """
        return nearest(self.locations, path) or Location(self.file, self.line)

    def problem(self, path: str, message: str) -> SettingsProblem:
        """Return an error about a key path, to be raised in a `SettingsErrors`."""
        return SettingsProblem(self.where(path), f"{self.name}.{path}" if path else self.name, message)


@dataclass(frozen=True)
class Parsed:
    """All pipelines with a source of their own, in the order of the files, and the warnings."""

    pipelines: list[PipelineSettings]
    warnings: list[SettingsProblem]


def named(pipelines: Sequence[PipelineSettings], name: str | None) -> list[PipelineSettings]:
    """Return the pipeline with this name, or all pipelines if the name is None.

    Raises:
        SettingsError: No pipeline has this name.
    """
    selected = [pipeline for pipeline in pipelines if name in (None, pipeline.name)]
    if feeder := next((pipeline.name for pipeline in pipelines if name in pipeline.feeds), None):
        message = f"The pipeline {name} runs as a part of {feeder}, which feeds it"
        raise SettingsError(message, step="settings", target=name or "", hint=f"Choose {feeder}: --pipeline {feeder}")
    if not selected:
        names = ", ".join(pipeline.name for pipeline in pipelines)
        message = f"The configuration has no pipeline {name}"
        raise SettingsError(message, step="settings", target=name or "", hint=f"It has: {names}")
    return selected


def only(pipelines: Sequence[PipelineSettings], name: str | None) -> PipelineSettings:
    """Return the pipeline with this name, or the only one if the name is None.

    Raises:
        SettingsError: No pipeline has this name, or there are several.
    """
    selected = named(pipelines, name)
    if len(selected) > 1:
        names = ", ".join(pipeline.name for pipeline in selected)
        message = f"There are {len(selected)} pipelines"
        raise SettingsError(message, step="settings", hint=f"Choose one with --pipeline: {names}")
    return selected[0]
