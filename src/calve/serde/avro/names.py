"""Gives a renamed field the name that it had first, so that all versions of a schema fill the same column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from calve.serde.avro.schema import Type

__all__ = ["renamed"]


@dataclass
class _Names:
    """The first name of each field of a record, by all the names that it had, and the names of records within."""

    first: dict[str, str] = field(default_factory=dict)
    inside: dict[str, _Names] = field(default_factory=dict)


def renamed(kind: Type, earlier: Callable[[], Sequence[Type]]) -> Type:
    """Return a type with the first names of its fields: of a field with an alias the name in the earlier versions.

    Args:
        kind: The type.
        earlier: Returns the earlier versions, oldest first; called only if a field has an alias.
    """
    if not _has_aliases(kind):
        return kind
    names = _Names()
    for version in earlier():
        _with_first_names(version, names)
    return _with_first_names(kind, names)


def _has_aliases(kind: Type) -> bool:
    inside = any(map(_has_aliases, kind.parts))
    return inside or any(field.aliases or _has_aliases(field.type) for field in kind.fields)


def _with_first_names(kind: Type, names: _Names) -> Type:
    parts = tuple(_with_first_names(part, names) for part in kind.parts)
    own = {record_field.name for record_field in kind.fields}
    used: set[str] = set()
    fields = []
    for record_field in kind.fields:
        old = next((alias for alias in record_field.aliases if alias in names.first and alias not in own), None)
        first = names.first.get(record_field.name) or (names.first[old] if old is not None else record_field.name)
        first = record_field.name if first in used or (first != record_field.name and first in own) else first
        used.add(first)
        names.first[record_field.name] = first
        inside = names.inside.setdefault(first, _Names())
        fields.append(replace(record_field, name=first, type=_with_first_names(record_field.type, inside)))
    return replace(kind, parts=parts, fields=tuple(fields))
