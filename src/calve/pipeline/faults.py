"""Finds conflicts in and between pipelines whose parts are valid; needs no server."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

import pyarrow as pa

from calve.event.envelope.shape import OPERATION_ATTRIBUTE, SHAPES, change_stream
from calve.pipeline.branches import attributes_of, metadata_before
from calve.pipeline.key_columns import lost_keys
from calve.pipeline.masking import mask_faults, masks_of, without_masks
from calve.pipeline.row_changes import unknown_effects
from calve.settings import PipelineSettings
from calve.settings.pipeline import Plugin
from calve.settings.problems import SettingsProblem
from calve.sources.settings import Claim, SourceSettings

__all__ = ["faults"]


def faults(pipelines: Sequence[PipelineSettings], by_name: Mapping[str, PipelineSettings]) -> Iterator[SettingsProblem]:
    """Yield the problems of complete pipelines, and of several pipelines together.

    Args:
        pipelines: Those with a source of their own, with the sinks of all that they feed.
        by_name: All pipelines, as written.
    """
    for pipeline in pipelines:
        source: SourceSettings = pipeline.source.value
        yield from mask_faults(pipeline, by_name)
        attributes = SHAPES[source.envelope].metadata if source.envelope else {}
        metadata = {**source.metadata, **{name: attribute.kind for name, attribute in attributes.items()}}
        yield from _replaced(pipeline, by_name, metadata)
        metadata = {name: kind for name, kind in metadata.items() if name not in _hidden(pipeline)}
        for sink, why in lost_keys(pipeline, metadata):
            yield by_name[sink.pipeline].problem(sink.path, why)
        yield from _remembering(pipeline, by_name)
        if change_stream(source.envelope) or source.has_keys:
            yield from _unknown_effects(pipeline, by_name, metadata)
        keyed = [sink for sink in pipeline.sinks if sink.value.adds_keys]
        stream = change_stream(source.envelope) or ("from_key" if keyed else None)
        metadata |= {OPERATION_ATTRIBUTE: pa.string()} if keyed else {}
        for sink in keyed:
            if (column := keyed[0].value.key_column) != sink.value.key_column:
                why = f"keys that are single values get one column in all of a pipeline; another sink has {column}"
                yield by_name[sink.pipeline].problem(f"{sink.path}.key_column", why)
        yield from _full_rows(pipeline, by_name, stream)
        yield from _letter_topics(pipeline, by_name)
        for sink in pipeline.sinks:
            names = metadata_before(pipeline, sink.branch, metadata)
            for key, why in sink.value.faults(stream, source.has_keys, names):
                yield by_name[sink.pipeline].problem(f"{sink.path}.{key}", why)
    yield from _clashes(pipelines)
    yield from _gates(pipelines, by_name)


def _full_rows(
    pipeline: PipelineSettings, by_name: Mapping[str, PipelineSettings], stream: str | None
) -> Iterator[SettingsProblem]:
    """Refuse rows without a key where the source knows them by their keys, or a sink takes no images of updates."""
    source: SourceSettings = pipeline.source.value
    if not any(sink.value.has_full_rows for sink in pipeline.sinks):
        return
    for sink in pipeline.sinks:
        of = by_name[sink.pipeline]
        if sink.value.has_full_rows and source.emits_changes:
            why = "of a database the source says which tables have no key: set its no_key: mirror instead of full_row"
            yield of.problem(f"{sink.path}.identifier_columns", why)
        elif sink.value.adds_keys:
            why = "from_key and full_row do not go together: their changes are read differently. Use two pipelines"
            yield of.problem(f"{sink.path}.identifier_columns", why)
        elif stream and not sink.value.has_tables:
            why = "another sink has full_row, whose updates are two events each; this sink needs a pipeline of its own"
            yield of.problem(sink.path, why)


def _letter_topics(pipeline: PipelineSettings, by_name: Mapping[str, PipelineSettings]) -> Iterator[SettingsProblem]:
    """Refuse topics of dead letters with the same name and other settings: they share an outbox."""
    topics: dict[str, object] = {}
    for sink in pipeline.sinks:
        topic = sink.value.dlq_topic
        if topic and topics.setdefault(topic.topic, topic) != topic:
            why = f"another sink has other settings of the topic {topic.topic}; write the same, or name another topic"
            yield by_name[sink.pipeline].problem(f"{sink.path}.dlq.kafka", why)


def _processors(
    pipeline: PipelineSettings, by_name: Mapping[str, PipelineSettings]
) -> Iterator[tuple[str, PipelineSettings, list[Plugin]]]:
    """Yield each branch (empty: the first pipeline), the pipeline as written, and its processors."""
    for branch in ("", *(fed.name for fed in pipeline.branches)):
        of = by_name[branch or pipeline.name]
        yield branch, of, without_masks(of.processors)


def _unknown_effects(
    pipeline: PipelineSettings, by_name: Mapping[str, PipelineSettings], metadata: Mapping[str, pa.DataType]
) -> Iterator[SettingsProblem]:
    for branch, of, plugins in _processors(pipeline, by_name):
        yield from unknown_effects(of, plugins, metadata_before(pipeline, branch, metadata))


def _remembering(pipeline: PipelineSettings, by_name: Mapping[str, PipelineSettings]) -> Iterator[SettingsProblem]:
    """Refuse processors that remember keys in fed pipelines, where events pass that another branch has, too."""
    for branch, of, plugins in _processors(pipeline, by_name):
        for plugin in plugins if branch else ():
            if hasattr(plugin.value, "memory"):
                why = f"works in the first of connected pipelines only: put it into {pipeline.name}, with a condition"
                yield of.problem(plugin.path, f"{why} if only some events are meant")


def _replaced(
    pipeline: PipelineSettings, by_name: Mapping[str, PipelineSettings], metadata: Mapping[str, pa.DataType]
) -> Iterator[SettingsProblem]:
    """Refuse metadata attributes of processors that the source has already."""
    names = {name.casefold() for name in metadata}
    for _, of, plugins in _processors(pipeline, by_name):
        for name, plugin in [(name, setter) for setter in plugins for name in attributes_of([setter])]:
            if name.casefold() in names:
                why = f"{name} is a metadata attribute of the source; choose another metadata_key"
                yield of.problem(plugin.path, why)


def _hidden(pipeline: PipelineSettings) -> frozenset[str]:
    """Return the metadata attributes that masks withhold."""
    masks = masks_of(pipeline)
    return masks.hidden if masks else frozenset()


def _clashes(pipelines: Sequence[PipelineSettings]) -> Iterator[SettingsProblem]:
    """Refuse two pipelines that want what only one can have: a port, a consumer group, a slot."""
    before: dict[tuple[object, ...], list[tuple[str, Claim]]] = {}
    for pipeline in pipelines:
        source: SourceSettings = pipeline.source.value
        for claim in source.claims(pipeline.name):
            others = before.setdefault(claim.thing, [])
            if name := next((name for name, other in others if claim.clashes(other)), None):
                path = f"{pipeline.source.path}.{claim.key}"
                yield pipeline.problem(path, f"the pipeline {name} also {claim.clash}")
            others.append((pipeline.name, claim))


def _gates(pipelines: Sequence[PipelineSettings], by_name: Mapping[str, PipelineSettings]) -> Iterator[SettingsProblem]:
    """Refuse other rules for the commits of the same branch: whoever commits publishes what waits by its own rules."""
    gates: dict[Hashable, object] = {}
    for sink in [sink for pipeline in pipelines for sink in pipeline.sinks]:
        if (own := sink.value.gated_branch) and gates.setdefault(*own) != own[1]:
            why = "another sink commits to this branch of the table by other rules; give both the same `publish`"
            yield by_name[sink.pipeline].problem(f"{sink.path}.publish", why)
