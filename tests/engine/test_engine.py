"""Pipelines share one Spark fairly, and Spark shows what its jobs are for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from calve.engine import session
from calve.engine.engine import Engine
from running import until

pytestmark = pytest.mark.spark


@pytest.fixture
def engine(spark: SparkSession) -> Engine:
    return session.start()


def backlog(folder: Path, items: Iterator[int]) -> Iterator[int]:
    """The first task ends when the other pipeline has a job, all others when that job has run."""
    for item in items:
        end = "submitted" if item == 0 else "done"
        (folder / f"{item}").touch()
        until((folder / end).exists, end)
        yield item


def touched(folder: Path, items: Iterator[str]) -> Iterator[str]:
    for item in items:
        (folder / item).touch()
        yield item


def test_the_backlog_of_one_pipeline_does_not_starve_another(engine: Engine, tmp_path: Path) -> None:
    """Two cores run two tasks of the backlog; the first core that is free is the other pipeline's."""
    tracker = engine.context.statusTracker()

    def first() -> None:
        engine.describe("first", "a backlog")
        engine.tasks.run(partial(backlog, tmp_path), range(6))

    def second() -> None:
        engine.describe("second", "one file")
        engine.tasks.run(partial(touched, tmp_path), ["done"])

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    until(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists(), "the backlog has both cores")
    threads[1].start()
    until(lambda: tracker.getJobIdsForGroup("second"), "the other job waits")
    (tmp_path / "submitted").touch()
    for thread in threads:
        thread.join()


def test_jobs_have_the_group_the_pool_and_the_text_of_their_pipeline_alone(engine: Engine) -> None:
    def run() -> None:
        engine.describe("orders", "batch 17, 12.0 MiB")
        properties = [engine.context.getLocalProperty(f"spark.{key}") for key in ("jobGroup.id", "scheduler.pool")]
        found.extend([*properties, engine.context.getLocalProperty("spark.job.description")])

    found: list[str | None] = []
    pool_here = engine.context.getLocalProperty("spark.scheduler.pool")  # other tests of this process have run jobs
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == ["orders", "orders", "orders: batch 17, 12.0 MiB"]
    assert engine.context.getLocalProperty("spark.scheduler.pool") == pool_here


def test_the_sql_session_is_made_once_and_is_that_of_the_context(engine: Engine) -> None:
    assert engine.session is engine.session
    assert engine.session.sparkContext is engine.context
