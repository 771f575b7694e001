"""Which staged batches are done, in order, and what they add up to.

A batch is done when none of its tables has anything left to commit and no earlier batch is open. Totals are counted
here once more, at that moment, because the ledger may only remember what is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from calve.acknowledge.completeness import EventTime, Target, complete_through, event_times, newest, summary
from calve.observe import tally
from calve.observe.status import BatchCounts, PipelineStatus

__all__ = ["Progress", "counts"]


class Progress:
    """The staged batches of one pipeline, oldest first. Its owner guards it with a lock.

    Args:
        totals: What all batches that are done add up to, from the ledger.
        name: The pipeline's name.
    """

    def __init__(self, totals: Mapping[str, Any], name: str) -> None:
        self._records: dict[int, dict[str, Any]] = {}
        self._told: dict[int, dict[Target, EventTime]] = {}
        self._done = PipelineStatus(name, totals)
        self._counted: dict[str, Any] | None = None
        self._times: dict[Target, EventTime] = {
            (catalog, table, branch): (latest, through)
            for catalog, table, branch, latest, through in totals.get("event_times", ())
        }

    def add(self, record: dict[str, Any]) -> None:
        """Take a staged batch."""
        self._records[record["batch"]] = record
        self._told[record["batch"]] = event_times(record)

    def lose(self, batch: int, table: str, codes: Mapping[str, int]) -> None:
        """Count events of a batch that only a table's commit turned away; once for each commit."""
        record = self._records[batch]
        record["rejects"] = [*record["rejects"], {"counts": {table: dict(codes)}}]

    def waiting(self) -> tuple[int, int]:
        """Give the number of batches that are not done, and the bytes of their files."""
        size = sum(table["bytes"] for record in self._records.values() for table in record["tables"])
        return len(self._records), size

    def event_time(self, target: Target, through: int) -> EventTime | None:
        """Give how far a table is once batch `through` is committed; None: nothing ever told."""
        told = [times.get(target) for batch, times in self._told.items() if batch <= through]
        return newest([self._times.get(target), *told])

    def summary(self, target: Target, through: int) -> dict[str, str]:
        """Give the snapshot summary of a commit of one table that ends with batch `through`.

        `calve.offsets` is the source's position behind that batch. `calve.complete-batch` is the last batch that all
        tables have, together with those before it: from these a lost state can be made anew.
        """
        table = target[1]
        records = [record for batch, record in self._records.items() if batch <= through]
        rejected = sum(sum(counts(record).rejects.get(table, {}).values()) for record in records)
        return {
            "calve.offsets": msgspec.json.encode(self._records[through]["position"]).decode(),
            "calve.complete-batch": str(min(self._records) - 1),
            "calve.rejected": str(rejected),
            **summary(self.event_time(target, through)),
        }

    def finished(self, left: set[int]) -> list[dict[str, Any]]:
        """Give the batches, in order, before the first one that is in `left`."""
        open_from = min(left, default=None)
        return [self._records[batch] for batch in sorted(self._records) if open_from is None or batch < open_from]

    def count(self, record: dict[str, Any]) -> dict[str, Any]:
        """Add a batch that is done to the totals, once however often it is called; give them as JSON values."""
        if self._counted is not record:
            self._counted = record
            self._done.batch_written(counts(record), record.get("seconds", 0.0))
            rows: dict[str, int] = {}
            for table in record["tables"]:
                rows[table["table"]] = rows.get(table["table"], 0) + table["rows"]
            for index in record.get("documents", ()):
                rows[index["index"]] = rows.get(index["index"], 0) + index["rows"]
                self._done.superseded(index["index"], index["superseded"])
            for name, number in rows.items():
                self._done.table_committed(name, number, None)
            for target, time in event_times(record).items():
                self._times[target] = newest([self._times.get(target), time]) or time
                self._done.valid_through(target[1], complete_through(self._times[target]))
        return {**self._done.totals(), "event_times": [[*target, *time] for target, time in self._times.items()]}

    def forget(self, record: dict[str, Any]) -> None:
        """Let go of a batch that the ledger remembers as committed."""
        del self._records[record["batch"]], self._told[record["batch"]]


def counts(record: Mapping[str, Any]) -> BatchCounts:
    """Give what a staged batch held."""
    sums = (record["batch"], record["events"], record["bytes"], record["unrouted"])
    found = BatchCounts(*sums, passed_over=record.get("passed_over", 0))
    for file in record["rejects"]:
        for table, codes in file["counts"].items():
            tally.add(found.rejects.setdefault(table, {}), codes)
        for table, examples in file.get("examples", {}).items():
            found.examples[table] = examples | found.examples.get(table, {})
    for table, columns, *reasons in record["nulled"]:  # earlier versions staged no reasons and no ignored fields
        tally.add(found.nulled.setdefault(table, {}), columns)
        for one in reasons:
            found.reasons[table] = one | found.reasons.get(table, {})
    for table, fields in record.get("ignored", ()):
        tally.add_bounded(found.ignored.setdefault(table, {}), fields)
    return found
