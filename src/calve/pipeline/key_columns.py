"""What masks and processors do to the columns of keys that sinks name: found, and told, before any event is read."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from calve.errors import SettingsError
from calve.event.envelope.shape import SHAPES
from calve.expression import compile_format
from calve.pipeline.branches import attributes_of, plugins_before
from calve.pipeline.masking import masks_of, remembering
from calve.processors.effects import Effects, UnknownEffectError, effects_of
from calve.processors.expressions import Compiler
from calve.settings import PipelineSettings
from calve.settings.pipeline import SinkEntry
from calve.sources.settings import SourceSettings

__all__ = ["fill_notes", "key_notes", "lost_keys", "remembering_notes"]


def lost_keys(pipeline: PipelineSettings, metadata: Collection[str]) -> Iterator[tuple[SinkEntry, str]]:
    """Yield each sink with a column in its key that no event has after the processors, and why."""
    for sink in pipeline.sinks:
        effects = _effects(pipeline, sink, metadata)
        for name in _keys(sink.value) if effects else ():
            assert effects is not None
            origins = effects.sources([name])
            if name not in effects.of(origins):
                others = [other for other, column in effects.of(origins).items() if column.source == name]
                change = f"rename it to {' and '.join(others)}" if others else "remove it"
                why = f"{name} is in the key, and the processors {change}"
                yield sink, f"{why}: name columns of keys as they are after the processors"


def key_notes(pipeline: PipelineSettings) -> Iterator[str]:
    """Yield a sentence for each column of a key that masks or processors change."""
    if not pipeline.every_processor:
        return
    source: SourceSettings = pipeline.source.value
    attributes = SHAPES[source.envelope].metadata if source.envelope else {}
    masks = masks_of(pipeline)
    for sink in pipeline.sinks:
        effects = _effects(pipeline, sink, [*source.metadata, *attributes]) or Effects(())
        for name in _keys(sink.value):
            origins = sorted(effects.sources([name]) - {name}) or [name]
            column = effects.of(origins).get(name)
            notes = [f"comes from {' and '.join(origins)}"] if origins != [name] else []
            notes += [f"becomes {column.kind}"] if column and column.kind and column.source else []
            notes += ["is hashed by mask"] if masks and any(masks.of(origin) for origin in origins) else []
            if notes:
                yield f"{sink.pipeline}.{sink.path}: the key column {name} {', '.join(notes)}"


def fill_notes(pipeline: PipelineSettings) -> Iterator[str]:
    """Yield a sentence for each processor that gives updates a value which their older row may have."""
    for sink in pipeline.sinks:
        keeps = getattr(sink.value, "partial_updates", "") == "keep" and not pipeline.source.value.has_keys
        for plugin in plugins_before(pipeline, sink.branch) if keeps else ():
            entries = getattr(plugin.value, "entries", ()) if plugin.name == "add_entries" else ()
            names = [
                entry.key for entry in entries if entry.key and not (entry.overwrite_if_key_exists or entry.add_when)
            ]
            if names:
                why = f"{plugin.path} gives {' and '.join(names)} to updates without a schema that lack it"
                yield f"{sink.pipeline}.{sink.path}: partial_updates: keep does not keep what {why}: set add_when"


def remembering_notes(pipeline: PipelineSettings) -> Iterator[str]:
    """Yield which processors drop events that a sink would take as newer rows, by keys that do not tell these apart."""
    for plugin, keys in remembering(pipeline):
        names = {key.parts[0] for key in keys}
        for sink in pipeline.sinks:
            columns, document_id = _keys(sink.value), getattr(sink.value, "id_text", None)
            replaces = getattr(sink.value, "changes", False) and (not columns or names <= {*columns})
            if replaces or (document_id and names <= (compile_format(document_id).fields or frozenset())):
                where = f"{sink.pipeline}.{sink.path}"
                yield (
                    f"{pipeline.name}.{plugin.path}: drops later events of a key, which for {where} may be newer rows "
                    "and deletes: add what tells versions apart to its keys, or leave it out, since one row or "
                    "document of each key is kept there"
                )


def _keys(settings: object) -> list[str]:
    names: list[str] = getattr(settings, "key_columns", [])
    return list(dict.fromkeys(name.partition(".")[0] for name in names))


def _effects(pipeline: PipelineSettings, sink: SinkEntry, metadata: Collection[str]) -> Effects | None:
    """Return what the processors before a sink do to columns; None: it is not known."""
    plugins = plugins_before(pipeline, sink.branch)
    try:
        compiler = Compiler([*metadata, *attributes_of(plugins)])
        steps = [step for plugin in plugins for step in plugin.value.steps(compiler)]
        return effects_of(steps)
    except (UnknownEffectError, SettingsError):
        return None
