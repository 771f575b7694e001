"""The life of a batch, from its splits to its staged record."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from calve.commit.ledger import Ledger
from calve.errors import SchemaConflictError
from calve.pipeline.distribution import Distribution
from calve.pipeline.job import Job, Misfit, Target, merge_misfits
from calve.pipeline.spread import divide, run_job
from calve.sources.source import Planned

__all__ = ["Writer", "run_batch"]

_PASSES = 5
"""A pass for unknown tables, one for new fields, and some for other writers that change tables meanwhile."""

Receipts = list[dict[str, Any]]
Only = dict[int, frozenset[Target]] | None


@dataclasses.dataclass(frozen=True)
class Writer:
    """What a batch needs to be written.

    Attributes:
        job: Makes the job of a pass: the batch, its moment, the pass, the tables to write by task (None: all).
        fit: Creates or evolves tables for the misfits that tasks found.
        in_order: Whether what happens to a row must stay in its order: tasks then hand changes on by key.
        one_task: Whether one task takes the whole batch: what it does to a document it must do in order.
        distribution: Decides whether tasks hand small parts on.
    """

    spark: SparkSession
    job: Callable[[int, int, int, Only], Job]
    fit: Callable[[list[Any]], None]
    in_order: bool = False
    one_task: bool = False
    distribution: Distribution = dataclasses.field(default_factory=Distribution)

    def write(self, batch: int, planned: Planned) -> Receipts:
        """Write a batch's files; nothing becomes visible.

        What a task could not write, because a table does not fit its events, the same task writes in a later pass; what
        other tasks wrote into that table stands. With changes everything comes again, as what is left of a row depends
        on all its changes.
        """
        receipts: Receipts = []
        tasks = 1 if self.one_task else self.spark.sparkContext.defaultParallelism
        groups = divide(planned.splits, tasks, self.in_order)
        numbers = {id(split): number for number, split in enumerate(planned.splits)}
        places = [[numbers[id(split)] for split in group] for group in groups]
        only: Only = None
        for number in range(_PASSES):
            job = dataclasses.replace(self.job(batch, planned.moment, number, only), places=places)
            job = self.distribution.choose(job, len(groups if only is None else only))
            if self.in_order and len(groups) > 1:
                job = dataclasses.replace(job, gatherers=len(groups))
            found = run_job(self.spark, job, groups)
            self.distribution.learn(job, found)
            misfits = merge_misfits(found)
            if not misfits:
                return receipts + found
            self.fit(misfits)
            if self.in_order:
                continue
            receipts += found
            only = {one["task"]: _targets(one) for one in found if one["misfits"]}
        names = ", ".join(sorted({misfit.target[1] for misfit in misfits}))
        raise SchemaConflictError(
            f"The events of batch {batch} still do not fit after {_PASSES} passes: {names}",
            step="convert",
            target=names,
            hint="Another writer changes these tables all the time; stop it, or set schema_evolution: false",
        )


def run_batch(batch: int, planned: Planned, since: float, ledger: Ledger, writer: Writer) -> dict[str, Any]:
    """Bring one batch from its splits to its staged record, however often it is called.

    Args:
        batch: Its number.
        planned: Its splits.
        since: When its oldest event was first seen waiting, seconds since the epoch.
        ledger: Where it is begun and staged.
        writer: Runs its tasks.

    Returns:
        The staged record: `batch`, `position`, `tables`, `documents`, `rejects`, `nulled`, `ignored`, counts and
        `since`.
    """
    staged = ledger.staged(batch)
    if staged is not None:
        return staged
    if ledger.begun(batch) is None:
        ledger.begin(batch, planned)  # a replay reads the same splits
    planned = ledger.begun(batch) or planned  # with its moment
    started = time.monotonic()
    record = _record(batch, planned, since, writer.write(batch, planned))
    record["seconds"] = round(time.monotonic() - started, 3)
    ledger.stage(batch, record)  # durable from here on
    return record


def _targets(receipt: dict[str, Any]) -> frozenset[Target]:
    return frozenset(Misfit.from_json(misfit).target for misfit in receipt["misfits"])


def _record(batch: int, planned: Planned, since: float, receipts: Receipts) -> dict[str, Any]:
    first = [receipt for receipt in receipts if receipt["first"]]
    steps = receipts[0]["seconds"] if receipts else {}
    return {
        "batch": batch,
        "position": planned.position,
        "waiting": list(planned.waiting),
        "since": since,
        "staged_at": time.time(),
        "events": sum(receipt["events"] for receipt in first),
        "bytes": sum(receipt["bytes"] for receipt in first),
        "unrouted": sum(receipt["unrouted"] for receipt in first),
        "passed_over": sum(receipt["passed_over"] for receipt in first),
        "tables": [table for receipt in receipts for table in receipt["tables"]],
        "documents": [one for receipt in receipts for one in receipt["documents"]],
        "rejects": [one for receipt in receipts for one in receipt["rejects"]],
        "nulled": [one for receipt in receipts for one in receipt["nulled"]],
        "ignored": [one for receipt in receipts for one in receipt["ignored"]],
        "steps": {step: round(sum(receipt["seconds"][step] for receipt in receipts), 3) for step in steps},
    }
