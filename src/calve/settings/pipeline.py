"""What a configuration says: pipelines of plugins, each knowing where it stands in its file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from calve.settings.node import nearest
from calve.settings.option import option
from calve.settings.problems import Location, Problem

__all__ = [
    "DEFAULT_ROUTE",
    "Gate",
    "Parsed",
    "PipelineKeys",
    "PipelineSettings",
    "Plugin",
    "Plugins",
    "SinkEntry",
    "SinkKeys",
]

DEFAULT_ROUTE = "_default"
"""The route of the events that no other route takes."""


@dataclass(frozen=True)
class Plugins:
    """What a configuration may name: settings classes by plugin.

    Attributes:
        sources: Settings classes of sources.
        sinks: Settings classes of sinks.
        processors: Settings classes of processors.
        condition: Compiles a route's condition; the `SettingsError` it raises is reported where the condition stands.
        faults: Yields what is wrong with whole pipelines, given those with a source of their own and all by name.
    """

    sources: Mapping[str, type] = field(default_factory=dict)
    sinks: Mapping[str, type] = field(default_factory=dict)
    processors: Mapping[str, type] = field(default_factory=dict)
    condition: Callable[[str], object] | None = None
    faults: Callable[[Sequence[PipelineSettings], Mapping[str, PipelineSettings]], Iterable[Problem]] = (
        lambda pipelines, by_name: ()
    )


@dataclass(frozen=True)
class PipelineKeys:
    """One pipeline, from a source to its sinks."""

    workers: int = option(1, "How many workers the pipeline has; accepted for compatibility.", minimum=1)
    delay: timedelta = option(
        timedelta(seconds=3), "How long Data Prepper waits for its buffer; accepted for compatibility.", unit="ms"
    )
    buffer: dict[str, Any] | None = option(None, "Data Prepper's buffer; ignored, because Calve needs none.")


@dataclass(frozen=True)
class SinkKeys:
    """What every sink takes beside its own keys."""

    routes: list[str] = option([], "The sink takes the events of these routes; without routes it takes all.")
    include_keys: list[str] = option(
        [],
        "Only these top-level fields of an event are written, spelled exactly as in the event. Routes, table names and "
        "dead letters have the whole event.",
    )
    exclude_keys: list[str] = option(
        [], "These top-level fields of an event are not written; like `include_keys`, which excludes it."
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse both lists together, and paths as keys, as Data Prepper does."""
        if self.include_keys and self.exclude_keys:
            yield "exclude_keys", "include_keys and exclude_keys cannot both be given; keep one"
        for name in ("include_keys", "exclude_keys"):
            for index, key in enumerate(getattr(self, name)):
                if "/" in key:
                    yield f"{name}[{index}]", "a key is the name of a top-level field and cannot contain `/`"

    def oddities(self, needs: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Warn of fields that are left out although the sink needs them.

        Args:
            needs: What each of these fields is for.
        """
        for field_name, purpose in needs.items():
            said = f"leaves out the field of {purpose}: every event will be rejected"
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
class Gate:
    """What one pipeline lets through on an event's way to a sink.

    Attributes:
        pipeline: Its name.
        conditions: All its routes: conditions by name.
        routes: Names of those of which one must match; `_default`: none of all does.
    """

    pipeline: str
    conditions: Mapping[str, str]
    routes: tuple[str, ...]


@dataclass(frozen=True)
class SinkEntry(Plugin):
    """A sink.

    Attributes:
        pipeline: The pipeline it stands in, which `path` begins below.
        gates: What an event must pass, pipeline by pipeline; none where it takes all.
        routes: Names of the routes of its pipeline whose events it takes; empty: all events.
        include_keys: If not empty, only these top-level fields are written.
        exclude_keys: These top-level fields are not written.
    """

    pipeline: str = ""
    gates: tuple[Gate, ...] = ()
    routes: tuple[str, ...] = ()
    include_keys: tuple[str, ...] = ()
    exclude_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class PipelineSettings:
    """One pipeline.

    Attributes:
        name: Its name, fit for a folder.
        source: Where events come from.
        sinks: At least one.
        routes: Conditions by route, in the order of the file.
        processors: In their order.
        workers: As in the file; nothing depends on it.
        delay: As in the file; nothing depends on it.
        file: The file it stands in.
        line: The line of its name.
        places: Where each key path stands; ask `where`.
        feeds: The pipelines that take their events from it, also through others; their sinks are among its own.
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
    places: dict[str, Location] = field(default_factory=dict, repr=False, compare=False)
    feeds: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Its name, and those of the pipelines that run as a part of it."""
        return f"{self.name} (feeds {', '.join(self.feeds)})" if self.feeds else self.name

    def where(self, path: str) -> Location:
        """Find where a key path stands, e.g. `sink[0].iceberg.table_identifier` or `route.errors`.

        A path that is not in the file gives the place of the longest part of it that is.
        """
        return nearest(self.places, path) or Location(self.file, self.line)

    def problem(self, path: str, message: str) -> Problem:
        """Make an error about a key path, to be raised in a `SettingsErrors`."""
        return Problem(self.where(path), f"{self.name}.{path}" if path else self.name, message)


@dataclass(frozen=True)
class Parsed:
    """All pipelines with a source of their own, in the order of the files, and what is odd but no error."""

    pipelines: list[PipelineSettings]
    warnings: list[Problem]
