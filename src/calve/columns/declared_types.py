"""Types of columns by name from the settings, and whether date-times are recognized."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pyiceberg import types as iceberg

from calve.table.type_text import parse_type

__all__ = ["ColumnTypes"]


@dataclass(frozen=True)
class ColumnTypes:
    """Decides the types of columns that Calve creates.

    Attributes:
        types: The type as text, by dotted name or glob. `element`, `key` and `value` are names below lists and maps;
            `*` matches dots, too.
        date_times: Whether a column whose texts are all date-times becomes a timestamptz or timestamp.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    date_times: bool = True

    def of(self, path: Sequence[str], next_id: Callable[[], int] | None = None) -> iceberg.IcebergType | None:
        """Return the declared type of the column at a path, or None; an exact name wins, then the first glob."""
        name = ".".join(path)
        text = self.types.get(name)
        if text is None:
            text = next((text for matches, text in self._globs if matches(name)), None)
        return None if text is None else parse_type(text, next_id)

    @cached_property
    def _globs(self) -> list[tuple[Callable[[str], object], str]]:
        return [
            (re.compile(fnmatch.translate(glob)).match, text)
            for glob, text in self.types.items()
            if set("*?[") & set(glob)
        ]
