"""The tables of a database that a source reads."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from calve.errors import SettingsError
from calve.settings import option

__all__ = ["Tables"]


def _check_patterns(patterns: list[str]) -> None:
    for pattern in patterns:
        if "." not in pattern.strip("."):
            raise SettingsError(f"{pattern!r} has no schema (MySQL: database); write e.g. `shop.{pattern.strip('.')}`")


@dataclass(frozen=True)
class Tables:
    """The tables to read, by patterns of `schema.table` with `*` and `?`."""

    include: list[str] = option(["*.*"], "Patterns of tables to read.", minimum=1, check=_check_patterns)
    exclude: list[str] = option([], "Patterns of tables not to read; they win.", check=_check_patterns)

    def has(self, schema: str, table: str) -> bool:
        """Return whether a table is to be read."""
        name = f"{schema}.{table}"
        return _matches(name, self.include) and not _matches(name, self.exclude)


def _matches(name: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
