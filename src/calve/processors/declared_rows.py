"""What rows declare of themselves (`event.envelope.schema`) after processors; in tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from calve.event.envelope.schema import Field, field_of, text_of
from calve.processors.effects import ChangedColumn, Effects
from calve.table.kinds import named

__all__ = ["declared_after"]


def declared_after(effects: Effects, text: str) -> str:
    """Return the declaration of processed rows, from that of the rows (`event.envelope.schema`)."""
    row = field_of(text)
    fields = {field.name: field for field in row.fields}
    changed = [_field(name, column, fields) for name, column in effects.of(fields).items()]
    return text_of(replace(row, fields=tuple(changed)))


def _field(name: str, column: ChangedColumn, fields: Mapping[str, Field]) -> Field:
    source = Field(name, "null") if column.source is None else replace(fields[column.source], name=name)
    if column.kind is None:
        return source
    kind = "null" if column.kind == "null" else named(column.kind).field
    return Field(name, kind, doc=source.doc)
