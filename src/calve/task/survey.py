"""Finds the tables of the first events of splits, before a batch is read. Runs on executors."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

import pyarrow as pa

from calve.record.target import TableRef
from calve.sources.source import Split
from calve.task.job import Job
from calve.task.path import EventPath
from calve.task.step_clock import StepClock

__all__ = ["survey"]


def survey(job: Job, groups: Iterator[list[Split]]) -> Iterator[TableRef]:
    """Yield the tables of the first events of splits; nothing is written, and events that cannot be read have none."""
    for split in itertools.chain.from_iterable(groups):
        tables: dict[TableRef, None] = {}
        with contextlib.suppress(Exception):  # the writing pass reports the error
            for table in _tables(job, split):
                tables[table] = None
        yield from tables


def _tables(job: Job, split: Split) -> Iterator[TableRef]:
    """Yield the tables of the first batch of events of a split."""
    path = EventPath(job, 0, _ignore, StepClock())
    with contextlib.closing(path.read_split(0, split)) as batches:
        events = next(batches, None)
    if events is not None:
        for routed in path.route(path.process(path.decode(events))):
            yield from (target for target, _ in routed.shares)


def _ignore(target: TableRef, events: pa.Table, rejects: pa.Table) -> None:
    """Leave rejects to the pass that writes the batch."""
