"""The passes over a batch: what a task may leave for the next one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from calve.pipeline import batch
from calve.record.receipt import Misfit, Receipt
from calve.record.target import TableRef
from calve.sources.source import Planned, Split
from calve.task.job import Job


@pytest.mark.parametrize("in_order", [True, False])
def test_tasks_leave_rows_only_in_a_first_pass_after_which_all_come_again(
    monkeypatch: pytest.MonkeyPatch, in_order: bool
) -> None:
    peeked: list[bool] = []

    def run_job(spark: object, job: Job, groups: object) -> list[Receipt]:
        peeked.append(job.peeks)
        return [Receipt(misfits=[Misfit(TableRef(0, "ns.t"), None)] if len(peeked) == 1 else [])]

    monkeypatch.setattr(batch, "run_job", run_job)
    reader = cast(Any, None)
    writer = batch.Writer(
        cast(Any, SimpleNamespace(tasks=SimpleNamespace(parallelism=2))),
        lambda *_: Job("p", "run", reader, (), 1),
        lambda misfits: None,
        cast(Any, None),
        in_order,
    )
    writer.attempt(1, Planned([Split({}), Split({})], {}))
    assert peeked == [in_order, False]
