"""Pipelines share one Spark fairly, and Spark shows what its jobs are for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from calve.engine import session
from calve.engine.engine import Engine
from kit.running import until

pytestmark = pytest.mark.spark


@pytest.fixture
def engine(spark: SparkSession) -> Engine:
    return session.start()


def backlog(folder: Path, items: Iterator[int]) -> Iterator[int]:
    """Each task holds its core for a moment, as long as the other pipeline is not done."""
    for item in items:
        (folder / f"{item}").touch()
        with contextlib.suppress(AssertionError):
            until((folder / "done").exists, "the other pipeline is done", seconds=0.2)
        yield item


def begun(folder: Path, items: Iterator[str]) -> Iterator[int]:
    """How many tasks of the backlog began before this one, which ends the backlog."""
    for item in items:
        yield len(list(folder.iterdir()))
        (folder / item).touch()


def test_the_backlog_of_one_pipeline_does_not_starve_another(engine: Engine, tmp_path: Path) -> None:
    """The next core that is free is the other pipeline's, not the backlog's: most of its tasks begin later."""
    begun_before: list[int] = []

    def first() -> None:
        engine.describe("first", "a backlog")
        engine.tasks.run(partial(backlog, tmp_path), range(100))

    def second() -> None:
        engine.describe("second", "one file")
        begun_before.extend(engine.tasks.run(partial(begun, tmp_path), ["done"]))

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    until(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists(), "the backlog has both cores")
    threads[1].start()
    for thread in threads:
        thread.join()
    assert begun_before[0] < 100


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
