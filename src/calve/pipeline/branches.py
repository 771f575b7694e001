"""Fed pipelines with processors of their own: what changes events on the way to each sink."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from calve.errors import SettingsError
from calve.pipeline.masking import without_masks
from calve.processors.effects import Effects
from calve.processors.removal import DeleteEntries, SelectEntries
from calve.settings import PipelineSettings, SinkEntry
from calve.settings.pipeline import BranchSettings, GateSettings, Plugin

if TYPE_CHECKING:
    from calve.processors.chain import Processors
    from calve.processors.key_filter import KeyMemory
    from calve.task.branch import FedPipeline

__all__ = ["CompiledProcessors", "attributes_of", "metadata_before", "plugins_before"]


def attributes_of(plugins: Sequence[Plugin]) -> dict[str, pa.DataType]:
    """Return the metadata attributes that processors set."""
    return {name: pa.string() for plugin in plugins for name in getattr(plugin.value, "attributes", ())}


def plugins_before(settings: PipelineSettings, branch: str) -> list[Plugin]:
    """Return what changes the events of a branch, in order, without masks; those of the first pipeline come first."""
    own = without_masks(settings.processors)
    return [*own, *(plugin for way in settings.way(branch) for plugin in _plugins(way))]


def metadata_before(
    settings: PipelineSettings, branch: str, metadata: Mapping[str, pa.DataType]
) -> dict[str, pa.DataType]:
    """Return the metadata attributes of the events of a branch, from those of the source."""
    return {**metadata, **attributes_of(plugins_before(settings, branch))}


class CompiledProcessors:
    """The processors of a pipeline and of those that it feeds; on the driver.

    Args:
        settings: The pipeline.
        metadata: The metadata attributes of events before any processor.

    Attributes:
        first: Those of the first pipeline; None without any.
        branches: The fed pipelines with processors.
        sets: All attributes that processors set.

    Raises:
        SettingsError: An expression is invalid.
    """

    def __init__(self, settings: PipelineSettings, metadata: Mapping[str, pa.DataType]) -> None:
        from calve.processors.chain import (
            compiled,
        )  # brings pyarrow.compute, which reading a configuration does not need

        self._settings = settings
        self._source_names = metadata
        self.first = compiled(without_masks(settings.processors), metadata)
        self._names = {"": _with_sets(metadata, self.first)}
        self.branches: tuple[FedPipeline, ...] = ()
        for branch in settings.branches:
            names = self._names[branch.upstream]
            processors = compiled([*_plugins(branch)], names, branch.name)
            assert processors is not None
            self._names[branch.name] = _with_sets(names, processors)
            self.branches += (self._branch(branch, processors, names),)
        every = [branch.processors for branch in self.branches] + ([self.first] if self.first else [])
        self.sets = frozenset(name for processors in every for name in processors.sets)
        self._metadata = frozenset[str]().union(*(processors.metadata for processors in every))
        gates = [gate for branch in self.branches for gate in branch.gates]
        self._metadata |= {
            name for gate in gates for condition in gate.conditions.values() for name in condition.metadata
        }

    @property
    def memory(self) -> KeyMemory | None:
        """The keys that the first pipeline remembers, without files; None: it remembers none."""
        return self.first.memory if self.first else None

    @property
    def metadata(self) -> frozenset[str]:
        """The metadata attributes of the source that processors, and routes before them, read."""
        return self._metadata - self.sets

    @property
    def effects(self) -> list[Effects | None]:
        """What they do to columns on the way to each sink; None: nothing, or it is not known."""
        return [self._effects(sink.branch) for sink in self._settings.sinks]

    def before(self, sink: SinkEntry) -> tuple[SinkEntry, Mapping[str, pa.DataType]]:
        """Return a sink, and the metadata attributes of the events that it gets.

        The sink has all gates on the way that read the source's metadata alone, those before its branch, too: they
        decide which tables of the source it gets.
        """
        gates = [gate for way in self._settings.way(sink.branch) for gate in way.gates]
        entry = replace(sink, gates=(*filter(self._reads_metadata, gates), *sink.gates)) if gates else sink
        return entry, self._names[sink.branch]

    def _effects(self, branch: str) -> Effects | None:
        names = {way.name for way in self._settings.way(branch)}
        on_the_way = [self.first] if self.first else []
        on_the_way += [compiled.processors for compiled in self.branches if compiled.name in names]
        effects = [processors.effects for processors in on_the_way]
        if not effects or None in effects:
            return None
        return Effects(tuple(step for of_one in effects if of_one for step in of_one.steps))

    def _reads_metadata(self, gate: GateSettings) -> bool:
        from calve.expression import compile_condition

        try:
            conditions = [compile_condition(text, self._source_names) for text in gate.conditions.values()]
        except SettingsError:
            return False
        return all(condition.fields == frozenset() for condition in conditions)

    def _branch(self, branch: BranchSettings, processors: Processors, names: Collection[str]) -> FedPipeline:
        from calve.route.gates import gates
        from calve.task.branch import FedPipeline

        upstream = [way.name for way in self._settings.branches].index(branch.upstream) if branch.upstream else None
        behind = {way.name for way in self._settings.branches if branch in self._settings.way(way.name)}
        sinks = frozenset(number for number, sink in enumerate(self._settings.sinks) if sink.branch in behind)
        return FedPipeline(branch.name, upstream, gates(branch, names), processors, sinks)


def _with_sets(names: Mapping[str, pa.DataType], processors: Processors | None) -> dict[str, pa.DataType]:
    return {**names, **dict.fromkeys(processors.sets if processors else (), pa.string())}


def _plugins(branch: BranchSettings) -> Iterator[Plugin]:
    """Yield what changes the events of a branch: the keys of its connector select fields before its processors."""
    if branch.include_keys:
        yield Plugin("include_keys", SelectEntries(include_keys=_keys(branch.include_keys)), "include_keys", 0)
    if branch.exclude_keys:
        yield Plugin("exclude_keys", DeleteEntries(with_keys=_keys(branch.exclude_keys)), "exclude_keys", 0)
    yield from branch.processors


def _keys(names: Sequence[str]) -> list[str]:
    """Return names of fields as keys of processors."""
    return [name.replace("~", "~0").replace("/", "~1") for name in names]
