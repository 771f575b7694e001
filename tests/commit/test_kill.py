"""Real processes commit, are killed, and commit again; PyIceberg counts the rows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from calve import stop_point
from calve.catalog.catalog import Catalog, embedded
from calve.engine import session
from commit import lake_writer

pytestmark = [pytest.mark.spark, pytest.mark.crash]

WRITER = Path(__file__).with_name("lake_writer.py")
BOUND_SECONDS = 240


def start(folder: Path, pipeline: str, first: int, last: int, stop_at: str = "") -> subprocess.Popen[bytes]:
    arguments = [str(folder), pipeline, str(first), str(last)]
    environment = os.environ | {stop_point.VARIABLE: stop_at}
    writer = subprocess.Popen(
        [sys.executable, str(WRITER), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"ready\n"  # one after the other: two cannot make one SQLite catalog at once
    return writer


def finish(*writers: subprocess.Popen[bytes]) -> list[int]:
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=BOUND_SECONDS)
    return [writer.returncode for writer in writers]


def ids(folder: Path) -> list[int]:
    catalog = SqlCatalog("lakehouse", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    try:
        return sorted(catalog.load_table("db.events").scan().to_arrow()["id"].to_pylist())
    finally:
        catalog.close()


def test_writers_side_by_side_on_one_table_that_are_killed_around_a_commit_and_started_again_add_each_batch_once(
    tmp_path: Path, spark: SparkSession
) -> None:
    shop, till = ("shop", 1, 8), ("till", 101, 108)
    doomed = [start(tmp_path, *shop, "commit.after-swap:3"), start(tmp_path, *till, "commit.before-swap:3")]
    assert finish(*doomed) == [-signal.SIGKILL, -signal.SIGKILL]
    assert {1, 2, 3} <= set(ids(tmp_path)) <= {1, 2, 3, 101, 102}
    catalog = Catalog(session.start(), embedded(tmp_path))
    for pipeline in (till, shop):
        lake_writer.write(catalog, *pipeline)
    assert ids(tmp_path) == [*range(1, 9), *range(101, 109)]
