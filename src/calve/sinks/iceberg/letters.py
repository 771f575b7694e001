"""The option `dlq` of the Iceberg sink."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calve.dead_letters.settings import FolderDeadLetters
from calve.errors import SettingsError
from calve.route.names import fault
from calve.settings import option

__all__ = ["DeadLetters"]


def _check_letter_table(text: str) -> None:
    if "${" in text:
        raise SettingsError("all dead letters go to one table: its name cannot have ${…}")
    if bad := fault(text):
        raise SettingsError(bad)


@dataclass(frozen=True)
class DeadLetters(FolderDeadLetters):
    """The location of dead letters: files with limits, or a table."""

    table: str | None = option(
        None,
        "An Iceberg table in the sink's catalog, as `namespace.table`. Each rejected event becomes one row, exactly "
        "once. Calve creates a missing table, partitioned by the day of `timestamp`.",
        check=_check_letter_table,
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse a map with nothing in it, or with two locations."""
        yield from super().check()
        if self == DeadLetters():
            yield "", "needs a location: a path, `s3: {bucket: …}` or `table: namespace.table`"
        if self.table and (self.s3 or self.path):
            yield "table", f"cannot be set beside `{'s3' if self.s3 else 'path'}`; set only one"
