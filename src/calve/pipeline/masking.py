"""The masks of a pipeline on the driver: what its settings say, and the tables that masked rows are for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from calve.errors import SettingsError
from calve.processors.mask import TEXT_ACTIONS, MaskColumns, UnmaskableError
from calve.settings import PipelineSettings
from calve.settings.pipeline import Plugin
from calve.settings.problems import SettingsProblem
from calve.sources.settings import SourceSettings

if TYPE_CHECKING:
    from calve.processors.masking import Masks
    from calve.sources.source import SourceTable

__all__ = ["mask_faults", "masked_table", "masks_of", "without_masks"]

_KEY_HINT = "only `hash` keeps the values of a key different; hash it, or leave it as it is"


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


def mask_faults(pipeline: PipelineSettings) -> Iterator[SettingsProblem]:
    """Yield masks behind other processors, whose dead letters would not be masked, and masks that unite keys."""
    kinds = [isinstance(plugin.value, MaskColumns) for plugin in pipeline.processors]
    for plugin, is_mask in zip(pipeline.processors, kinds, strict=True):
        if is_mask and not all(kinds[: pipeline.processors.index(plugin)]):
            yield pipeline.problem(plugin.path, "must come before all other processors: they would see what it hides")
    if (masks := masks_of(pipeline)) is None:
        return
    for sink in pipeline.sinks:
        for name in getattr(sink.value, "identifier_columns", ()):
            if (mask := masks.of(name)) and not mask[0].is_unique:
                why = (
                    f"{sink.path} has {name} in its key, and `{mask[0].action}` makes different keys equal: {_KEY_HINT}"
                )
                yield pipeline.problem(_path_of(pipeline, mask[1]), why)


def masked_table(table: SourceTable, masks: Masks) -> SourceTable:
    """Return a source table as its masked rows are.

    Raises:
        SettingsError: A mask makes different keys equal, or there are none any more.
    """
    from calve.processors.masking import description

    schema: dict[str, Any] = json.loads(table.schema_json)
    keys, fields = schema.get("identifier-field-ids", []), []
    for field in schema["fields"]:
        mask = masks.of(field["name"])
        if mask is None:
            fields.append(field)
            continue
        entry, processor = mask
        if field["id"] in keys and not entry.is_unique:
            message = f"The column {field['name']} is in the key of {table.name}, and `{entry.action}` does not keep it"
            raise SettingsError(message, step="settings", target=table.name, hint=_KEY_HINT[:1].upper() + _KEY_HINT[1:])
        if entry.action != "drop":
            kind = {"type": "string"} if entry.action in TEXT_ACTIONS else {}
            doc = description(field.get("doc", ""), entry, processor)
            fields.append({**_with_default(field, mask), **kind, "doc": doc})
    text = json.dumps({**schema, "fields": fields}, separators=(",", ":"))
    return replace(table, schema_json=text)


def _with_default(field: Mapping[str, Any], mask: tuple[Any, MaskColumns]) -> dict[str, Any]:
    """Return a field whose defaults are masked like values; one that cannot be is left out."""
    from calve.processors.masking import ColumnMasking

    masked = dict(field)
    for name in ("initial-default", "write-default"):
        if name in masked:
            try:
                masked[name] = ColumnMasking(*mask).of(masked[name])
            except UnmaskableError:
                del masked[name]
    return masked


def _path_of(pipeline: PipelineSettings, processor: MaskColumns) -> str:
    return next(plugin.path for plugin in pipeline.processors if plugin.value is processor)
