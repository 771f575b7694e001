"""What a task counts of events: values that became null, fields without a column, and rules that did not hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from calve.convert.converter import ConvertedEvents
from calve.observe import tally
from calve.record.written import FailedRules, Ignored, Nulled

__all__ = ["ConversionLosses"]


class ConversionLosses:
    """The counts of one sink in one task, by table."""

    def __init__(self) -> None:
        self._nulled: dict[str, dict[str, int]] = defaultdict(dict)
        self._reasons: dict[str, dict[str, str]] = defaultdict(dict)
        self._ignored: dict[str, dict[str, int]] = defaultdict(dict)
        self._failed: dict[str, dict[str, int]] = defaultdict(dict)

    def add(self, table: str, converted: ConvertedEvents) -> None:
        """Count what was converted for a table; of the reasons the first of each column stays."""
        if converted.nulled:
            tally.add(self._nulled[table], converted.nulled)
            self._reasons[table] = converted.reasons | self._reasons[table]
        if converted.ignored:
            tally.add_bounded(self._ignored[table], converted.ignored)
        if any(converted.failed_rules.values()):
            tally.add(self._failed[table], converted.failed_rules)

    def nulled(self, misfits: Collection[str]) -> list[Nulled]:
        """Return the values that became null, without those of tables whose events come again."""
        counted = self._nulled.items()
        return [Nulled(table, counts, self._reasons[table]) for table, counts in counted if table not in misfits]

    def ignored(self, misfits: Collection[str]) -> list[Ignored]:
        """Return the fields without a column, without those of tables whose events come again."""
        return [Ignored(table, counts) for table, counts in self._ignored.items() if table not in misfits]

    def failed_rules(self, misfits: Collection[str]) -> list[FailedRules]:
        """Return the rows that did not follow rules, without those of tables whose events come again."""
        return [FailedRules(table, counts) for table, counts in self._failed.items() if table not in misfits]
