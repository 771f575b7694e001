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
    for each in earlier():
        _with_first_names(each, names)
    return _with_first_names(kind, names)


def _has_aliases(kind: Type) -> bool:
    inside = any(map(_has_aliases, kind.parts))
    return inside or any(each.aliases or _has_aliases(each.type) for each in kind.fields)


def _with_first_names(kind: Type, names: _Names) -> Type:
    parts = tuple(_with_first_names(part, names) for part in kind.parts)
    own = {each.name for each in kind.fields}
    taken: set[str] = set()
    fields = []
    for each in kind.fields:
        old = next((alias for alias in each.aliases if alias in names.first and alias not in own), None)
        first = names.first.get(each.name) or (names.first[old] if old is not None else each.name)
        first = each.name if first in taken or (first != each.name and first in own) else first
        taken.add(first)
        names.first[each.name] = first
        inside = names.inside.setdefault(first, _Names())
        fields.append(replace(each, name=first, type=_with_first_names(each.type, inside)))
    return replace(kind, parts=parts, fields=tuple(fields))
