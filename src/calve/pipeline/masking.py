"""The masks of a pipeline, from its settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from calve.processors.fields import FieldKey, keys
from calve.processors.mask import MaskColumns
from calve.settings import PipelineSettings
from calve.settings.pipeline import Plugin
from calve.settings.problems import SettingsProblem
from calve.sources.settings import SourceSettings

if TYPE_CHECKING:
    from calve.processors.masking import Masks

__all__ = ["KEY_HINT", "mask_faults", "masks_of", "remembering", "without_masks"]

_TAGGED = ("avro", "protobuf", "json_schema")
KEY_HINT = "only `hash` keeps the values of a key different; hash it, or leave it as it is"


def masks_of(settings: PipelineSettings) -> Masks | None:
    """Return the masks of a pipeline; None without any."""
    source: SourceSettings = settings.source.value
    processors = tuple(plugin.value for plugin in settings.processors if isinstance(plugin.value, MaskColumns))
    if not processors:
        return None
    from calve.processors.masking import Masks  # brings pyarrow.compute, which reading a configuration does not need

    return Masks(processors, source.row_attributes)


def without_masks(processors: Sequence[Plugin]) -> list[Plugin]:
    """Return the processors that come after the masks."""
    return [plugin for plugin in processors if not isinstance(plugin.value, MaskColumns)]


def remembering(pipeline: PipelineSettings) -> Iterator[tuple[Plugin, list[FieldKey]]]:
    """Yield the processors that remember keys of events, each with these."""
    for plugin in pipeline.processors:
        if hasattr(plugin.value, "memory"):
            yield plugin, keys(plugin.value.names)


def mask_faults(pipeline: PipelineSettings, by_name: Mapping[str, PipelineSettings]) -> Iterator[SettingsProblem]:
    """Yield what would show hidden values or lose a key, such as masks behind other processors.

    Args:
        pipeline: The pipeline, with the sinks of all that it feeds.
        by_name: All pipelines, as written.
    """
    for fed in map(by_name.__getitem__, pipeline.feeds):
        for plugin in fed.processors:
            if isinstance(plugin.value, MaskColumns):
                why = f"must be in {pipeline.name}, which reads the events: letters here would have what it hides"
                yield fed.problem(plugin.path, why)
    kinds = [isinstance(plugin.value, MaskColumns) for plugin in pipeline.processors]
    for plugin, is_mask in zip(pipeline.processors, kinds, strict=True):
        if is_mask and not all(kinds[: pipeline.processors.index(plugin)]):
            yield pipeline.problem(plugin.path, "must come before all other processors: they would see what it hides")
    if (masks := masks_of(pipeline)) is None:
        return
    for of in map(by_name.__getitem__, (pipeline.name, *pipeline.feeds) if not masks.keeps_unmasked else ()):
        for plugin in of.processors:
            if getattr(plugin.value, "makes_fields", False):
                why = "makes fields that no mask has seen: parse texts before Calve, or allow it: "
                yield of.problem(plugin.path, f"{why}`unmasked: keep` in mask")
    yield from _of_tags(pipeline)
    yield from _of_sinks(pipeline, by_name, masks)
    for plugin, names in remembering(pipeline):
        for key in names:
            parts = [part for part in key.parts if not part.isdecimal()]  # masks of lists are those of their elements
            paths = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
            if any((mask := masks.of(path)) and not mask[0].is_unique for path in paths):
                why = (
                    f"`mask` makes different values of {key.text} equal, so events that are no duplicates would be lost"
                )
                yield pipeline.problem(plugin.path, f"{why}: {KEY_HINT}")


def _of_tags(pipeline: PipelineSettings) -> Iterator[SettingsProblem]:
    """Yield tags where no schema has any, and those that may make the values of keys equal."""
    source: SourceSettings = pipeline.source.value
    has_keys = any(getattr(sink.value, "key_columns", ()) for sink in pipeline.sinks) or any(remembering(pipeline))
    for plugin in pipeline.processors:
        for number, entry in enumerate(plugin.value.columns if isinstance(plugin.value, MaskColumns) else ()):
            path = f"{plugin.path}.columns[{number}].tags"
            if entry.tags and (source.serde is None or source.serde.format not in _TAGGED):
                why = "are those of fields of Avro, Protobuf and JSON Schema (serde_format of Kafka's topics)"
                yield pipeline.problem(path, f"{why}; of other events name the columns")
            elif entry.tags and has_keys and not entry.is_unique:
                yield pipeline.problem(path, f"may be those of a key, and a schema may change: {KEY_HINT}, by its name")


def _of_sinks(
    pipeline: PipelineSettings, by_name: Mapping[str, PipelineSettings], masks: Masks
) -> Iterator[SettingsProblem]:
    """Yield what sinks read that masks withhold, and keys whose values masks make equal."""
    for sink in pipeline.sinks:
        if sink.value.adds_keys:
            why = "identifier_columns: from_key does not go with masks, which hide the records' keys; name the columns"
            yield by_name[sink.pipeline].problem(sink.path, why)
        settings = repr((sink.value, pipeline.gates(sink)))
        for name in sorted(masks.hidden):
            if re.search(rf"""getMetadata\(\\*["']{name}\\*["']\)""", settings):
                way = f"add it to a mask, as in {{names: [{name}], action: hash}}, or read a field: ${{id}}"
                yield by_name[sink.pipeline].problem(
                    sink.path, f"reads {name}, whose values of rows mask withholds: {way}"
                )
        for name in getattr(sink.value, "key_columns", ()):
            if (mask := masks.of(name)) and not mask[0].is_unique:
                why = (
                    f"{sink.path} has {name} in its key, and `{mask[0].action}` makes different keys equal: {KEY_HINT}"
                )
                yield pipeline.problem(_path_of(pipeline, mask[1]), why)


def _path_of(pipeline: PipelineSettings, processor: MaskColumns) -> str:
    return next(plugin.path for plugin in pipeline.processors if plugin.value is processor)
