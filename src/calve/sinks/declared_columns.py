"""The columns that a configuration declares: of a table, or of files.

The module with Iceberg's types (`schema_faults`) is imported only if a configuration declares some.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from calve.settings import option

__all__ = ["ColumnList", "DeclaredColumn"]


def _check_type(text: str) -> None:
    from calve.sinks.schema_faults import check_type

    check_type(text)


@dataclass(frozen=True)
class DeclaredColumn:
    """A column that is declared."""

    name: str = option(doc="The name of the column.", minimum=1)
    type: str = option(
        doc="The Iceberg type, e.g. `long`, `timestamptz`, `decimal(9,2)`, `list<string>`, `variant`.",
        check=_check_type,
    )
    required: bool = option(False, "Whether an event without a value is rejected.")


@dataclass(frozen=True)
class ColumnList:
    """Columns that are declared, in their order."""

    columns: list[DeclaredColumn] = option(doc="The columns.", minimum=1)

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse duplicate columns, and those that readers could not distinguish."""
        from calve.sinks.schema_faults import schema_faults

        yield from schema_faults(list(map(asdict, self.columns)), [])
