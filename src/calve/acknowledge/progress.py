"""Tracks which staged batches are done, in order, and their totals.

A batch is done when all of its tables are committed and no earlier batch is open. Totals are counted here separately,
at that time, because the ledger may only have finished batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from msgspec.structs import replace

from calve.acknowledge.watermark import EventTime, Origins, complete_through, event_times, newest, summary
from calve.observe import tally
from calve.observe.status import BatchCounts, PipelineStatus
from calve.observe.totals import Totals
from calve.record.staged import StagedBatch
from calve.record.target import BranchRef
from calve.record.written import Rejects
from calve.table.completeness import Completeness

__all__ = ["StagedBatches", "counts"]

_MOST_OFFSETS = 64 << 10
"""The most characters of a position in a snapshot: about a thousand topics of Kafka."""


class StagedBatches:
    """The staged batches of one pipeline, oldest first. Its owner guards it with a lock.

    Args:
        totals: The totals of all finished batches, from the ledger.
        name: The pipeline's name.
        rule_of: Returns how it is decided through which time a table is complete.
    """

    def __init__(
        self, totals: Totals, name: str, rule_of: Callable[[BranchRef], Completeness] = lambda _: Completeness()
    ) -> None:
        self._rule_of = rule_of
        self._origins = Origins(totals.origins)
        self._records: dict[int, StagedBatch] = {}
        self._rejected: dict[int, dict[str, int]] = {}
        self._event_times: dict[int, dict[BranchRef, EventTime]] = {}
        self._done = PipelineStatus(name, totals)
        self._counted = 0
        self._committed: dict[BranchRef, int] = {}
        self._times: dict[BranchRef, EventTime] = {
            BranchRef(catalog, table, branch): (latest, through)
            for catalog, table, branch, latest, through in totals.event_times
        }

    def add(self, record: StagedBatch) -> None:
        """Add a staged batch."""
        self._keep(record)
        self._event_times[record.batch] = event_times(record, self._rule_of, self._origins)

    def lose(self, batch: int, table: str, codes: Mapping[str, int]) -> None:
        """Count events of a batch that only a table's commit rejected; once for each commit."""
        record = self._records[batch]
        self._keep(replace(record, rejects=[*record.rejects, Rejects({table: dict(codes)})]))

    def _keep(self, record: StagedBatch) -> None:
        rejects = counts(record).rejects
        self._records[record.batch] = record
        self._rejected[record.batch] = {table: sum(codes.values()) for table, codes in rejects.items()}

    def committed(self, target: BranchRef, through: int) -> None:
        """Record that a table has batch `through`: its later snapshots do not count the rejects so far."""
        self._committed[target] = through

    def waiting(self) -> tuple[int, int]:
        """Return the number of batches that are not done, and the bytes of their files."""
        size = sum(table.bytes for record in self._records.values() for table in record.tables)
        return len(self._records), size

    def event_time(self, target: BranchRef, through: int) -> EventTime | None:
        """Return the event times of a table after the commit of batch `through`; None if unknown."""
        staged = [times.get(target) for batch, times in self._event_times.items() if batch <= through]
        return newest([self._times.get(target), *staged])

    def summary(self, target: BranchRef, through: int) -> dict[str, str]:
        """Return the snapshot summary of a commit of one table that ends with batch `through`.

        `calve.offsets` is the source's position after that batch, unless it is large: every table keeps it in each of
        its snapshots. `calve.complete-batch` is the last batch up to which
        all tables have all rows: from these a lost state can be rebuilt.
        """
        after = self._committed.get(target, 0)
        batches = (rejects for batch, rejects in self._rejected.items() if after < batch <= through)
        rejected = sum(rejects.get(target.table, 0) for rejects in batches)
        position = msgspec.json.encode(self._records[through].position).decode()
        offsets = {"calve.offsets": position} if len(position) <= _MOST_OFFSETS else {}
        return {
            **offsets,
            "calve.complete-batch": str(min(self._records) - 1),
            "calve.rejected": str(rejected),
            **summary(self.event_time(target, through)),
        }

    def record(self, batch: int) -> StagedBatch:
        """Return a staged batch, with the events that its commits rejected."""
        return self._records[batch]

    def count(self, record: StagedBatch) -> Totals:
        """Add a finished batch to the totals, only once even if repeated; return them."""
        if self._counted < record.batch:
            self._counted = record.batch
            self._done.batch_written(counts(record), record.seconds)
            rows: dict[str, int] = {}
            for table in record.tables:
                rows[table.table] = rows.get(table.table, 0) + table.rows
            for index in record.documents:
                rows[index.index] = rows.get(index.index, 0) + index.rows
                self._done.superseded(index.index, index.superseded)
            for name, number in rows.items():
                self._done.table_committed(name, number, None)
            times_of_batch = self._event_times.get(record.batch) or event_times(record, self._rule_of, self._origins)
            for target, time in times_of_batch.items():
                self._times[target] = newest([self._times.get(target), time]) or time
                self._done.valid_through(target.table, complete_through(self._times[target]))
        times = [(*target, *time) for target, time in self._times.items()]
        return replace(self._done.totals(), event_times=times, origins=self._origins.seen())

    def forget(self, record: StagedBatch) -> None:
        """Forget a batch that the ledger has as committed."""
        batch = record.batch
        del self._records[batch], self._rejected[batch], self._event_times[batch]


def counts(record: StagedBatch) -> BatchCounts:
    """Return the counts of a staged batch."""
    counts_of_batch = BatchCounts(
        record.batch,
        record.events,
        record.bytes,
        record.unrouted,
        passed_over=record.passed_over,
        dropped=record.dropped,
        added=record.added,
        duplicates=record.duplicates,
        forgotten_keys=record.forgotten_keys,
    )
    for file in record.rejects:
        for table, codes in file.counts.items():
            tally.add(counts_of_batch.rejects.setdefault(table, {}), codes)
        for table, examples in file.examples.items():
            counts_of_batch.examples[table] = examples | counts_of_batch.examples.get(table, {})
    for entry in record.tables:
        if entry.late:
            tally.add(counts_of_batch.late, {entry.table: entry.late})
    for nulled in record.nulled:
        tally.add(counts_of_batch.nulled.setdefault(nulled.table, {}), nulled.counts)
        if nulled.reasons:
            counts_of_batch.reasons[nulled.table] = nulled.reasons | counts_of_batch.reasons.get(nulled.table, {})
    for ignored in record.ignored:
        tally.add_bounded(counts_of_batch.ignored.setdefault(ignored.table, {}), ignored.counts)
    for failed in record.failed_rules:
        tally.add(counts_of_batch.failed_rules.setdefault(failed.table, {}), failed.counts)
    documents: dict[str, list[int]] = {}
    for index in record.documents:
        totals = documents.setdefault(index.index, [0, 0])
        totals[:] = totals[0] + index.rows + index.superseded, totals[1] + index.derived_ids
    counts_of_batch.derived_ids.update(
        {name: derived for name, (all_of_them, derived) in documents.items() if derived and derived >= all_of_them}
    )
    return counts_of_batch
