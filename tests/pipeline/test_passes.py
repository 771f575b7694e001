"""The passes over a batch: what a task may leave for the next one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from calve.errors import WorkerLostError
from calve.pipeline import batch
from calve.pipeline.spark_job import TASK_BYTES
from calve.record.receipt import Misfit, Receipt
from calve.record.target import TableRef
from calve.sources.source import LOADED, Planned, Split
from calve.task.job import Job

AGAIN = batch.RewritePass(frozenset({TableRef(0, "ns.t")}), 1)


def writer_of(in_order: bool, made: list[Misfit] | None = None) -> batch.Writer:
    spark = cast(Any, SimpleNamespace(tasks=SimpleNamespace(parallelism=2), describe=lambda pipeline, work: None))
    none, made = cast(Any, None), [] if made is None else made
    lacking = [Misfit(TableRef(0, "ns.new"), None)]
    parts: Any = SimpleNamespace(
        job=lambda *_: Job("p", "run", none, (), 1),
        tables=SimpleNamespace(fit=made.extend),
        lacking=lambda planned: lacking,
        in_order=in_order,
        one_task=False,
    )
    return batch.Writer(spark, parts, "state", none)


@pytest.mark.parametrize("splits", [[], [Split({}), Split({})], [Split({})] * 5])
def test_a_survey_that_fails_finds_no_table_and_one_of_no_splits_has_a_task(splits: list[Split]) -> None:
    asked: list[int] = []

    def run(function: object, items: list[list[Split]]) -> list[TableRef]:
        asked.extend(map(len, items))
        raise WorkerLostError("an event ended it")

    writer = writer_of(in_order=False)
    cast(Any, writer.spark).tasks.run = run
    assert writer.tables(Planned(splits)) == set()
    assert (len(asked), sum(asked)) == (max(1, min(2, len(splits))), len(splits))


@pytest.mark.parametrize(("of_load", "again", "made"), [(2, None, 1), (1, None, 0), (2, AGAIN, 0)])
def test_the_tables_of_a_load_are_there_before_its_rows_are_read(
    monkeypatch: pytest.MonkeyPatch, of_load: int, again: batch.RewritePass | None, made: int
) -> None:
    found: list[Misfit] = []
    then: list[int] = []
    monkeypatch.setattr(batch, "run_job", lambda spark, job, groups: then.append(len(found)) or [Receipt()])
    splits = [Split({LOADED: True} if number < of_load else {}) for number in range(2)]
    writer_of(in_order=True, made=found).attempt(1, Planned(splits, {}), again=again)
    assert (then, len(found)) == ([made], made)


@pytest.mark.parametrize(
    ("of_load", "again", "preserves_source_keys", "shuffle_partitions"),
    [(2, None, True, 0), (2, None, False, 2), (1, None, True, 2), (2, AGAIN, True, 2)],
)
def test_tasks_hand_nothing_on_if_no_two_of_them_can_have_the_same_key(
    monkeypatch: pytest.MonkeyPatch,
    of_load: int,
    again: batch.RewritePass | None,
    preserves_source_keys: bool,
    shuffle_partitions: int,
) -> None:
    jobs: list[Job] = []
    monkeypatch.setattr(batch, "run_job", lambda spark, job, groups: jobs.append(job) or [Receipt()])
    monkeypatch.setattr(Job, "preserves_source_keys", preserves_source_keys)
    splits = [Split({"n": number, **({LOADED: True} if number < of_load else {})}, TASK_BYTES) for number in range(2)]
    writer_of(in_order=True).attempt(1, Planned(splits, {}), again=again)
    assert [job.shuffle_partitions for job in jobs] == [shuffle_partitions]


@pytest.mark.parametrize(
    ("sinks", "more", "keeps"),
    [
        ([True, True], {}, True),
        ([True, False], {}, False),
        ([True], {"processors": object()}, False),
        ([True], {"envelopes": object()}, False),
        ([True], {"serde": object()}, False),
    ],
)
def test_keys_are_kept_if_each_sink_keeps_them_and_nothing_changes_the_rows(
    sinks: list[bool], more: dict[str, Any], keeps: bool
) -> None:
    made = tuple(cast(Any, SimpleNamespace(preserves_source_keys=each)) for each in sinks)
    assert Job("p", "run", cast(Any, None), made, 1, **more).preserves_source_keys is keeps
