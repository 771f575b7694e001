"""Divides a batch's splits over tasks, and runs them as one job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from calve import structs
from calve.engine.engine import Engine
from calve.record.receipt import Failure, Receipt
from calve.record.target import TableRef
from calve.sources.source import Reader, Split
from calve.task import reduce_task
from calve.task.job import Job
from calve.task.survey import survey
from calve.task.task import run_tasks, shuffle_tasks

__all__ = ["count_rows", "divide", "run_job", "run_survey"]

_REPORTS = structs.decoder(Receipt | Failure)  # type: ignore[arg-type]
TASK_BYTES = 16 << 20
"""The bytes per task: small batches have few tasks, and so few files."""
_UNEVEN = 1.05
"""So much larger the largest task may be for splits to stay together."""
CHANGES_BYTES = 256 << 20
"""About the most bytes of row changes per task, which keeps them in memory: a batch may be one large transaction."""


def divide(splits: Sequence[Split], parallelism: int, in_order: bool = False) -> list[list[Split]]:
    """Divide splits into tasks of about equal size, in order; at most one task per core, unless changes need more.

    Splits that follow each other stay together where that is as even: those of a partition of a topic often have tables
    or keys of their own, of which each task writes a file.

    Args:
        splits: The splits of a batch.
        parallelism: The cores.
        in_order: All splits of a task come before all of the next one; a task has at most about `CHANGES_BYTES`.
    """
    total = _size(splits)
    count = max(1, min(len(splits), parallelism, -(-total // TASK_BYTES)))
    if in_order:
        return _cut(splits, max(count, -(-total // CHANGES_BYTES)), total)
    groups: list[list[Split]] = [[] for _ in range(count)]
    sizes = [0] * count
    for split in sorted(splits, key=lambda split: -split.size_bytes):
        smallest = sizes.index(min(sizes))
        groups[smallest].append(split)
        sizes[smallest] += split.size_bytes + 1
    together = _cut(splits, count, total)
    if max(map(_size, together)) <= _UNEVEN * max(sizes):
        return together
    order = {id(split): position for position, split in enumerate(splits)}
    groups = [sorted(group, key=lambda split: order[id(split)]) for group in groups if group]
    return sorted(groups, key=lambda group: order[id(group[0])])


def _size(splits: Sequence[Split]) -> int:
    return sum(split.size_bytes for split in splits)


def _cut(splits: Sequence[Split], count: int, total: int) -> list[list[Split]]:
    groups: list[list[Split]] = [[] for _ in range(count)]
    before = 0
    for split in splits:
        middle = before + split.size_bytes // 2
        groups[min(middle * count // max(total, 1), count - 1)].append(split)
        before += split.size_bytes
    return [group for group in groups if group] or [[]]


def run_job(spark: Engine, job: Job, groups: list[list[Split]]) -> list[Receipt]:
    """Run one pass over a batch, divided into tasks; return the receipts in the order of the tasks.

    Raises:
        CalveError: A task or Spark itself failed. Files of the other tasks stay unreferenced.
    """
    numbers = range(len(groups)) if job.only is None else sorted(job.only)
    if job.shuffle_partitions:
        first, second = partial(shuffle_tasks, job, groups), partial(reduce_task.run, job)
        reports = spark.tasks.run_twice(first, second, numbers, job.shuffle_partitions)
    else:
        reports = spark.tasks.run(partial(run_tasks, job, groups), numbers)
    outcomes = [_REPORTS.decode(report) for report in reports]
    for failure in (report for report in outcomes if isinstance(report, Failure)):
        raise failure.to_error()
    return [report for report in outcomes if isinstance(report, Receipt)]


def run_survey(spark: Engine, job: Job, splits: Sequence[Split]) -> set[TableRef]:
    """Return the tables of the first events of each split.

    Raises:
        CalveError: Spark failed.
    """
    tasks = max(1, min(spark.tasks.parallelism, len(splits)))  # a batch may have no splits
    return set(spark.tasks.run(partial(survey, job), [splits[number::tasks] for number in range(tasks)]))


def count_rows(spark: Engine, reader: Reader, splits: Sequence[Split]) -> list[int]:
    """Count the events of splits, in parallel.

    Raises:
        CalveError: A split cannot be read.
    """
    counts: list[int] = spark.tasks.run(partial(_rows, reader), splits)
    return counts


def _rows(reader: Reader, splits: Iterator[Split]) -> Iterator[int]:
    for split in splits:
        yield sum(len(batch) for batch in reader.read(split))
