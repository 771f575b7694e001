"""The life of a batch, from its splits to its staged record."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterable

from calve.engine.engine import Engine
from calve.errors import CalveError, UnprocessableError, WorkerLostError
from calve.event.reject import Code
from calve.ledger.ledger import Ledger
from calve.observe.bug_report import BugReports
from calve.observe.humanize import size
from calve.pipeline.distribution import Distribution
from calve.pipeline.pipeline_parts import PipelineParts
from calve.pipeline.quarantine import Quarantine
from calve.pipeline.spark_job import count_rows, divide, run_job, run_survey
from calve.processors.key_filter import KeyMemory
from calve.record.receipt import Receipt, merge_misfits
from calve.record.staged import StagedBatch
from calve.record.target import TableRef
from calve.record.written import Rejects
from calve.sinks.stdout.sink import print_lines
from calve.sources.source import APART, LOADED, Planned, Split
from calve.stop_point import stop_at
from calve.task.isolation import WHOLE, Isolation
from calve.task.job import Job

__all__ = ["Receipts", "RewritePass", "Writer", "run_batch", "unprocessable"]

_PASSES = 5
"""One pass for unknown tables, one for new fields, some for other writers that change tables meanwhile."""

_CRASHES = 3
"""How often a batch must end Spark's workers before its events are suspected."""

Receipts = list[Receipt]
TablesBySink = dict[int, frozenset[TableRef]] | None


@dataclasses.dataclass(frozen=True)
class RewritePass:
    """The part of a staged batch that is rewritten.

    Attributes:
        targets: The tables.
        number: Makes file names unique; counts from 1.
    """

    targets: frozenset[TableRef]
    number: int

    def apply_to(self, job: Job) -> Job:
        """Return the job of a pass for these tables; it writes only new dead letters, and to files.

        A table of dead letters may already have this batch's rows, and nothing is ever added to a committed batch.
        """
        sinks = (sink.rejecting_into(dataclasses.replace(sink.dead_letters, table=None)) for sink in job.sinks)
        isolation = dataclasses.replace(job.isolation, is_probe=False, is_of_staged=True)
        return dataclasses.replace(
            job, sinks=tuple(sinks), isolation=isolation, number=job.number + self.number * _PASSES
        )


@dataclasses.dataclass(frozen=True)
class Writer:
    """Writes batches.

    Attributes:
        spark: Runs the tasks.
        parts: The pipeline's parts.
        state_id: The identity of the pipeline's ledger.
        reports: Reports events that make a batch fail.
        distribution: Decides whether tasks shuffle small parts.
        crashes: How often each batch ended Spark's workers; the first time may be a lack of memory.
        memory: Returns the keys that were seen before a batch; None: the pipeline remembers none.
    """

    spark: Engine
    parts: PipelineParts
    state_id: str
    reports: BugReports
    distribution: Distribution = dataclasses.field(default_factory=Distribution)
    crashes: Counter[int] = dataclasses.field(default_factory=Counter)
    memory: Callable[[int], KeyMemory | None] = lambda batch: None

    def write(self, batch: int, planned: Planned) -> Receipts:
        """Write a batch's files, invisibly. Events that make it fail become dead letters."""
        try:
            return self.attempt(batch, planned)
        except WorkerLostError as error:
            self.crashes[batch] += 1
            if self.crashes[batch] < _CRASHES:
                raise
            return self._without_bad_events(batch, planned, error)
        except UnprocessableError as error:
            return self._without_bad_events(batch, planned, error)

    def _without_bad_events(self, batch: int, planned: Planned, first: CalveError) -> Receipts:
        quarantine = Quarantine(
            lambda isolation: self.attempt(batch, planned, isolation), lambda: self.count(batch, planned)
        )
        self.reports.begins(batch, first)
        receipts = quarantine.run(first)
        stop_at("quarantine.after-write")
        self.reports.found(
            batch,
            unprocessable(rejects for receipt in receipts for rejects in receipt.rejects),
            [error for _, error in quarantine.found],
        )
        return receipts

    def count(self, batch: int, planned: Planned) -> list[int]:
        """Count the events of each split of a batch."""
        job = self._job(batch, planned.time_tenths)
        self.spark.describe(job.pipeline, f"batch {batch}, count of its events")
        return count_rows(self.spark, job.reader, planned.splits)

    def tables(self, planned: Planned) -> set[TableRef]:
        """Return the tables of the first events of a batch that is not begun; none where that fails."""
        job = self._job(0, 0)
        self.spark.describe(job.pipeline, "tables of the first events")
        try:
            return run_survey(self.spark, job, planned.splits)
        except CalveError:
            return set()  # the writing pass reports the error

    def attempt(
        self, batch: int, planned: Planned, isolation: Isolation = WHOLE, again: RewritePass | None = None
    ) -> Receipts:
        """Write the files of a batch, or of a part of it, in as many passes as its tables need.

        If a table lacks columns for a task's events, the same task writes them in a later pass; other tasks' files for
        this table stay. With row changes all tasks repeat the table, because the net row depends on all its changes.
        """
        receipts: Receipts = []
        splits_read = [number for number in range(len(planned.splits)) if isolation.reads(number)]
        groups, numbers = self._divide(planned, splits_read)
        only: TablesBySink = None if again is None else dict.fromkeys(range(len(groups)), again.targets)
        is_load = again is None and bool(planned.splits) and all(split.body.get(LOADED) for split in planned.splits)
        if is_load and (lacking := self.parts.lacking(planned)):
            self.parts.tables.fit(lacking)
        for number in range(_PASSES):
            job = self._job(batch, planned.time_tenths, number, only)
            job = dataclasses.replace(job, split_numbers=numbers, splits=len(planned.splits), isolation=isolation)
            if any(split.body.get(APART) for split in planned.splits):
                job = dataclasses.replace(job, sinks=tuple(sink.apart(job.pipeline) for sink in job.sinks))
            if again is not None:
                job = again.apply_to(job)
            else:
                job = self.distribution.choose(job, len(groups if only is None else only))
            if self.parts.in_order and len(groups) > 1 and not (is_load and job.preserves_source_keys):
                job = dataclasses.replace(job, shuffle_partitions=len(groups))
            self.spark.describe(job.pipeline, f"batch {batch}, {size(sum(map(_bytes, groups)))}")
            written = run_job(self.spark, job, groups)
            if again is None:
                self.distribution.learn(job, written)
            misfits = merge_misfits(written)
            if not misfits:
                return receipts + written
            self.parts.tables.fit(misfits)
            if self.parts.in_order:
                continue
            receipts += written
            only = {
                receipt.task: frozenset(misfit.target for misfit in receipt.misfits)
                for receipt in written
                if receipt.misfits
            }
        sink, table = misfits[0].target
        raise UnprocessableError(
            f"The events of batch {batch} still do not fit the table {table} after {_PASSES} passes",
            step="convert",
            target=table,
            sink=sink,
            hint="If another writer permanently changes this table, stop it, or set schema_evolution: false",
        )

    def _job(self, batch: int, time_tenths: int, number: int = 0, only: TablesBySink = None) -> Job:
        job = self.parts.job(self.state_id, batch, time_tenths, number, only)
        return dataclasses.replace(job, memory=self.memory(batch)) if batch else job  # a survey knows no keys

    def _divide(self, planned: Planned, numbers: list[int]) -> tuple[list[list[Split]], list[list[int]]]:
        """Divide the splits with these numbers over tasks; return splits and numbers by task."""
        if not numbers:
            return [[]], [[]]
        splits = [planned.splits[number] for number in numbers]
        tasks = 1 if self.parts.one_task else self.spark.tasks.parallelism
        groups = divide(splits, tasks, self.parts.in_order and not self.parts.one_task)
        number_of = {id(split): number for split, number in zip(splits, numbers, strict=True)}
        return groups, [[number_of[id(split)] for split in group] for group in groups]


def _bytes(splits: Iterable[Split]) -> int:
    return sum(split.size_bytes for split in splits)


def run_batch(batch: int, planned: Planned, since: float, ledger: Ledger, writer: Writer) -> StagedBatch:
    """Bring one batch from its splits to its staged record; may be repeated safely.

    Args:
        batch: Its number.
        planned: Its splits.
        since: When its oldest event was first seen waiting, seconds since the epoch.
        ledger: Where it is begun and staged.
        writer: Runs its tasks.
    """
    staged = ledger.staged(batch)
    if staged is not None:
        return staged
    if ledger.begun(batch) is None:
        ledger.begin(batch, planned)  # a replay reads the same splits
    planned = ledger.begun(batch) or planned  # with its recorded time
    started = time.monotonic()
    receipts = writer.write(batch, planned)
    if lines := [line for receipt in receipts for line in receipt.lines]:
        print_lines(lines)
    record = StagedBatch.of(batch, planned, receipts, since, round(time.monotonic() - started, 3))
    ledger.stage(batch, record)  # durable from here on
    return record


def unprocessable(rejects: Iterable[Rejects]) -> Counter[str]:
    """Count the events that were left out, by table."""
    counts = Counter[str]()
    for file in rejects:
        counts.update({table: codes.get(Code.UNPROCESSABLE, 0) for table, codes in file.counts.items()})
    return +counts
