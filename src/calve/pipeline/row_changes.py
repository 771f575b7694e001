"""Rows whose columns are known before they are read: what masks and processors do to the tables that they are for."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from calve.errors import SettingsError
from calve.pipeline.branches import CompiledProcessors
from calve.pipeline.masking import KEY_HINT, masks_of
from calve.processors.effects import Effects, LostKeyError, UnknownEffectError, effects_of
from calve.processors.expressions import Compiler
from calve.processors.mask import TEXT_ACTIONS, MaskColumns, UnmaskableError
from calve.settings import PipelineSettings
from calve.settings.pipeline import Plugin
from calve.settings.problems import SettingsProblem

if TYPE_CHECKING:
    import pyarrow as pa

    from calve.processors.masking import Masks
    from calve.sources.source import SourceTable

__all__ = ["changed_table", "check_tables", "unknown_effects"]

_NEW_ID = 1 << 30
"""Columns that processors add have field ids from here on, by their names: the source has no such ids."""
Fields = list[dict[str, Any]]


def unknown_effects(
    pipeline: PipelineSettings, processors: Sequence[Plugin], metadata: Collection[str]
) -> Iterator[SettingsProblem]:
    """Yield the processors that cannot change rows of tables, because their effect on columns is not known.

    Args:
        pipeline: The pipeline that has them.
        processors: The processors, without masks.
        metadata: The metadata attributes of events.
    """
    for plugin in processors:
        if hasattr(plugin.value, "memory"):
            why = "drops events whose key has passed before: in a stream of changes these are later changes of a row"
            yield pipeline.problem(plugin.path, f"{why}. Upserts by the key keep one row of each")
            continue
        try:
            effects_of(list(plugin.value.steps(Compiler(metadata))))
        except UnknownEffectError as error:
            why = f"cannot change rows of tables, whose columns must be known before the first row: {error}"
            yield pipeline.problem(plugin.path, f"{why}. Use SQL on the table that is written")
        except SettingsError as error:
            yield pipeline.problem(plugin.path, str(error))


def check_tables(
    settings: PipelineSettings, tables: Sequence[SourceTable], metadata: Mapping[str, pa.DataType]
) -> None:
    """Check that the rows of source tables keep their keys through masks and processors.

    Raises:
        SettingsError: The rows would lose their key, or different keys become equal.
    """
    masks = masks_of(settings)
    for effects in CompiledProcessors(settings, metadata).effects:
        for table in tables:
            changed_table(table, masks, effects)


def changed_table(table: SourceTable, masks: Masks | None, effects: Effects | None) -> SourceTable:
    """Return a source table as its rows are after masks and processors.

    Raises:
        SettingsError: The rows would lose their key, or different keys become equal.
    """
    if masks is None and effects is None:
        return table
    schema: dict[str, Any] = json.loads(table.schema_json)
    fields: Fields = schema["fields"]
    keys = schema.get("identifier-field-ids", [])
    if masks is not None:
        fields = list(_masked(table, fields, keys, masks))
    if effects is not None:
        fields = _processed(table, fields, keys, effects)
    text = json.dumps({**schema, "fields": fields}, separators=(",", ":"))
    return replace(table, schema_json=text)


def _masked(table: SourceTable, fields: Fields, keys: Collection[int], masks: Masks) -> Iterator[dict[str, Any]]:
    from calve.processors.masking import description  # brings pyarrow.compute

    for field in fields:
        mask = masks.of(field["name"])
        if mask is None:
            yield field
            continue
        entry, processor = mask
        if field["id"] in keys and not entry.is_unique:
            message = f"The column {field['name']} is in the key of {table.name}, and `{entry.action}` does not keep it"
            raise SettingsError(message, step="settings", target=table.name, hint=KEY_HINT[:1].upper() + KEY_HINT[1:])
        if entry.action != "drop":
            kind = {"type": "string"} if entry.action in TEXT_ACTIONS else {}
            doc = description(field.get("doc", ""), entry, processor)
            yield {**_with_default(field, mask), **kind, "doc": doc}


def _with_default(field: Mapping[str, Any], mask: tuple[Any, MaskColumns]) -> dict[str, Any]:
    """Return a field whose defaults are masked like values; one that cannot be is left out."""
    from calve.processors.column_masking import ColumnMasking

    masked = dict(field)
    for name in _defaults(field):
        try:
            masked[name] = ColumnMasking(*mask).of(masked[name])
        except UnmaskableError:
            del masked[name]
    return masked


def _processed(table: SourceTable, fields: Fields, keys: Collection[int], effects: Effects) -> Fields:
    by_name = {field["name"]: field for field in fields}
    try:
        changed = effects.of(by_name, [name for name, field in by_name.items() if field["id"] in keys])
    except LostKeyError as error:
        message = f"The processors remove the column {error} of the key of {table.name}, or make different keys equal"
        raise SettingsError(message, step="settings", target=table.name, hint="Leave the columns of keys") from error
    processed: Fields = []
    for name, column in changed.items():
        if column.kind == "null":
            continue
        source = by_name[column.source] if column.source else {"id": None, "required": False}
        if source["id"] is None or any(field["id"] == source["id"] for field in processed):
            source = {**source, "id": _NEW_ID + zlib.crc32(name.encode()) % (_NEW_ID - 1), "required": False}
        if column.kind is not None:
            source = {key: value for key, value in source.items() if key not in _defaults(source)}
        processed.append({**source, "name": name, "type": column.kind or source["type"]})
    return processed


def _defaults(field: Mapping[str, Any]) -> list[str]:
    return [name for name in ("initial-default", "write-default") if name in field]
