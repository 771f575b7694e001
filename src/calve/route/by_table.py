"""Values that differ by table: the first pattern that matches a table's name decides."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Generic, TypeVar

__all__ = ["ByTable", "TablePattern"]

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class TablePattern:
    """Matches names of tables.

    Attributes:
        text: A name, a pattern with `*` and `?`, or a regular expression.
        is_regex: Whether it is a regular expression, which must match the whole name.
    """

    text: str
    is_regex: bool = False

    @property
    def is_name(self) -> bool:
        """Whether only one table can match."""
        return not self.is_regex and not set("*?[") & set(self.text)

    def matches(self, table: str) -> bool:
        """Return whether a table's name matches."""
        return bool(re.fullmatch(self.text, table)) if self.is_regex else fnmatchcase(table, self.text)


@dataclass(frozen=True)
class ByTable(Generic[T]):
    """A value for each table.

    Attributes:
        default: That of tables that no pattern matches.
        own: Patterns with values, of which the first match wins.
    """

    default: T
    own: tuple[tuple[TablePattern, T], ...] = ()

    def of(self, table: str) -> T:
        """Return the value for a table."""
        return next((value for pattern, value in self.own if pattern.matches(table)), self.default)

    def values(self) -> list[T]:
        """Return all values, the default first."""
        return [self.default, *(value for _, value in self.own)]

    def map(self, change: Callable[[T], R]) -> ByTable[R]:
        """Return the results of a function of the values, for the same tables."""
        return ByTable(change(self.default), tuple((pattern, change(value)) for pattern, value in self.own))
