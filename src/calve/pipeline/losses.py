"""What a task does not write of events that it writes: values that became null, and fields without a column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from calve.convert.converter import Converted
from calve.observe import tally
from calve.pipeline.job import Target

__all__ = ["Losses"]


class Losses:
    """The counts of one task, by table."""

    def __init__(self) -> None:
        self._nulled: dict[Target, dict[str, int]] = defaultdict(dict)
        self._reasons: dict[Target, dict[str, str]] = defaultdict(dict)
        self._ignored: dict[Target, dict[str, int]] = defaultdict(dict)

    def add(self, target: Target, converted: Converted) -> None:
        """Count what was converted for a table; of the reasons the first of each column stays."""
        if converted.nulled:
            tally.add(self._nulled[target], converted.nulled)
            self._reasons[target] = converted.reasons | self._reasons[target]
        if converted.ignored:
            tally.add_bounded(self._ignored[target], converted.ignored)

    def receipt(self, misfits: Collection[Target] = ()) -> dict[str, Any]:
        """Return the receipt's part, without the tables whose events come again."""
        nulled = [
            [name[1], counts, self._reasons[name]] for name, counts in self._nulled.items() if name not in misfits
        ]
        ignored = [[name[1], counts] for name, counts in self._ignored.items() if name not in misfits]
        return {"nulled": nulled, "ignored": ignored}
