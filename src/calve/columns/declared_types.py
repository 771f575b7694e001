"""Types of columns by name from the settings, and whether date-times are recognized."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pyiceberg import types as iceberg

from calve.event.column_names import ELEMENT
from calve.table.type_text import declared

__all__ = ["OBJECTS", "ColumnTypes"]

OBJECTS = {"map": "map<string, string>", "variant": "variant", "string": "string"}
"""The types of columns for objects, by their words in the settings."""


@dataclass(frozen=True)
class ColumnTypes:
    """Decides the types of columns that Calve creates.

    Attributes:
        types: The type as text, perhaps with a default, by dotted name or glob. `element`, `key` and `value` are names
            below lists and maps; `*` matches dots, too.
        objects: What objects become, `struct`, `map`, `variant` or `string`, by name or glob; lists of objects count
            as objects.
        date_times: Whether a column whose texts are all date-times becomes a timestamptz or timestamp.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    date_times: bool = True
    objects: Mapping[str, str] = field(default_factory=dict)

    def of(self, path: Sequence[str], next_id: Callable[[], int] | None = None) -> iceberg.IcebergType | None:
        """Return the declared type of the column at a path, or None; an exact name wins, then the first glob."""
        text = _matching(self.types, path)
        return None if text is None else declared(text, next_id)[0]

    def of_objects(self, path: Sequence[str], next_id: Callable[[], int]) -> iceberg.IcebergType | None:
        """Return the type of objects in the column at a path, which may be a list's; None: a struct."""
        names = [path[:end] for end in range(len(path), 0, -1) if set(path[end:]) <= {ELEMENT}]
        words = (_matching(self.objects, name) for name in names)
        text = OBJECTS.get(next(filter(None, words), ""))
        return None if text is None else declared(text, next_id)[0]

    def default(self, path: Sequence[str]) -> Any:
        """Return the declared default of the column at a path, as PyIceberg's fields have it, or None."""
        text = _matching(self.types, path)
        return None if text is None else declared(text)[1]

    @property
    def has_defaults(self) -> bool:
        """Whether a declared type has a default."""
        return any(declared(text)[1] is not None for text in self.types.values())


def _matching(values: Mapping[str, str], path: Sequence[str]) -> str | None:
    """Return the value of an exact name, else of the first glob that matches."""
    name = ".".join(path)
    if name in values:
        return values[name]
    return next((value for glob, value in values.items() if set("*?[") & set(glob) and _glob(glob)(name)), None)


@lru_cache(1_000)
def _glob(glob: str) -> Callable[[str], object]:
    return re.compile(fnmatch.translate(glob)).match
