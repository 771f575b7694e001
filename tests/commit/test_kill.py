"""Real processes commit, are killed, and commit again; PyIceberg counts the rows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from calve import stop_point

pytestmark = [pytest.mark.spark, pytest.mark.crash]

WRITER = Path(__file__).with_name("lake_writer.py")
BOUND_SECONDS = 120


def start(folder: Path, pipeline: str, first: int, last: int, stop_at: str = "") -> subprocess.Popen[bytes]:
    arguments = [str(folder), pipeline, str(first), str(last)]
    environment = os.environ | {stop_point.VARIABLE: stop_at}
    return subprocess.Popen(
        [sys.executable, str(WRITER), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )


def finish(*writers: subprocess.Popen[bytes]) -> list[int]:
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() in (b"ready\n", b"")  # nothing: it was killed before
    for writer in writers:
        writer.communicate(b"go\n", timeout=BOUND_SECONDS)
    return [writer.returncode for writer in writers]


def ids(folder: Path) -> list[int]:
    catalog = SqlCatalog("lakehouse", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder))
    try:
        return sorted(catalog.load_table("db.events").scan().to_arrow()["id"].to_pylist())
    finally:
        catalog.close()


def test_a_writer_killed_around_its_commit_and_started_again_adds_each_batch_once(tmp_path: Path) -> None:
    for point in ("catalog.after-create", "commit.before-swap:2", "commit.after-swap:2"):
        assert finish(start(tmp_path, "shop", 1, 3, point)) == [-signal.SIGKILL], point
    assert finish(start(tmp_path, "shop", 1, 3)) == [0]
    assert ids(tmp_path) == [1, 2, 3]


def test_processes_side_by_side_on_one_table_lose_and_double_nothing(tmp_path: Path) -> None:
    writers = [start(tmp_path, "shop", 1, 8), start(tmp_path, "till", 101, 108)]
    assert finish(*writers) == [0, 0]
    assert ids(tmp_path) == [*range(1, 9), *range(101, 109)]
