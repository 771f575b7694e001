"""When equality deletes of a pipeline's tables are converted, and what is said of those that it did not write."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from calve.commit.mark import CommitTarget
from calve.commit.outcome import Outcome
from calve.observe.status import PipelineStatus
from calve.pipeline.delete_compaction import DeleteCompaction
from calve.record.target import WriteMode


def commit(compaction: DeleteCompaction, mode: WriteMode, rows: int, limit: int) -> None:
    context: Any = SimpleNamespace(name="db.t", target=CommitTarget("db.t", write_mode=mode))
    compaction.committed("lakehouse", context, Outcome(batches=(1,), equality_deletes=rows), limit)


@pytest.mark.parametrize(("limit", "fate"), [(500, "are converted now"), (0, "stay until `calve maintain db.t")])
def test_a_pipeline_that_wrote_equality_deletes_before_says_once_that_it_now_deletes_by_position(
    caplog: pytest.LogCaptureFixture, limit: int, fate: str
) -> None:
    caplog.set_level("INFO", "calve")
    compaction = DeleteCompaction(PipelineStatus("p"), threading.Condition())
    for rows in (0, 3, 3):
        commit(compaction, "merge-on-read", rows, limit)
        assert compaction.has_work() is bool(rows and limit)
    [said] = [record.getMessage() for record in caplog.records if "equality deletes" in record.getMessage()]
    assert said.startswith("db.t has 3 rows of equality deletes. From now on its rows are deleted by position")
    assert fate in said


@pytest.mark.parametrize(("rows", "limit", "is_due"), [(500, 500, False), (501, 500, True), (10**9, 0, False)])
def test_a_pipeline_that_goes_on_with_equality_deletes_says_nothing_and_converts_beyond_its_limit(
    caplog: pytest.LogCaptureFixture, rows: int, limit: int, is_due: bool
) -> None:
    caplog.set_level("INFO", "calve")
    compaction = DeleteCompaction(PipelineStatus("p"), threading.Condition())
    commit(compaction, "equality-delete", rows, limit)
    assert compaction.has_work() is is_due
    assert not caplog.records
