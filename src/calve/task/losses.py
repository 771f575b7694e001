"""What a task does not write of events that it writes: values that became null, and fields without a column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from calve.convert.converter import Converted
from calve.observe import tally
from calve.record.target import TableRef
from calve.record.written import Ignored, Nulled

__all__ = ["Losses"]


class Losses:
    """The counts of one task, by table."""

    def __init__(self) -> None:
        self._nulled: dict[TableRef, dict[str, int]] = defaultdict(dict)
        self._reasons: dict[TableRef, dict[str, str]] = defaultdict(dict)
        self._ignored: dict[TableRef, dict[str, int]] = defaultdict(dict)

    def add(self, target: TableRef, converted: Converted) -> None:
        """Count what was converted for a table; of the reasons the first of each column stays."""
        if converted.nulled:
            tally.add(self._nulled[target], converted.nulled)
            self._reasons[target] = converted.reasons | self._reasons[target]
        if converted.ignored:
            tally.add_bounded(self._ignored[target], converted.ignored)

    def nulled(self, misfits: Collection[TableRef]) -> list[Nulled]:
        """Return the values that became null, without those of tables whose events come again."""
        return [
            Nulled(one.table, counts, self._reasons[one]) for one, counts in self._nulled.items() if one not in misfits
        ]

    def ignored(self, misfits: Collection[TableRef]) -> list[Ignored]:
        """Return the fields without a column, without those of tables whose events come again."""
        return [Ignored(one.table, counts) for one, counts in self._ignored.items() if one not in misfits]
