"""Types of columns by name from the settings, and whether date-times are recognized."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyiceberg import types as iceberg

from calve.table.type_text import declared

__all__ = ["ColumnTypes"]


@dataclass(frozen=True)
class ColumnTypes:
    """Decides the types of columns that Calve creates.

    Attributes:
        types: The type as text, perhaps with a default, by dotted name or glob. `element`, `key` and `value` are names
            below lists and maps; `*` matches dots, too.
        date_times: Whether a column whose texts are all date-times becomes a timestamptz or timestamp.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    date_times: bool = True

    def of(self, path: Sequence[str], next_id: Callable[[], int] | None = None) -> iceberg.IcebergType | None:
        """Return the declared type of the column at a path, or None; an exact name wins, then the first glob."""
        text = self._text(path)
        return None if text is None else declared(text, next_id)[0]

    def default(self, path: Sequence[str]) -> Any:
        """Return the declared default of the column at a path, as PyIceberg's fields have it, or None."""
        text = self._text(path)
        return None if text is None else declared(text)[1]

    @property
    def has_defaults(self) -> bool:
        """Whether a declared type has a default."""
        return any(declared(text)[1] is not None for text in self.types.values())

    def _text(self, path: Sequence[str]) -> str | None:
        name = ".".join(path)
        text = self.types.get(name)
        return next((text for matches, text in self._globs if matches(name)), None) if text is None else text

    @cached_property
    def _globs(self) -> list[tuple[Callable[[str], object], str]]:
        return [
            (re.compile(fnmatch.translate(glob)).match, text)
            for glob, text in self.types.items()
            if set("*?[") & set(glob)
        ]
