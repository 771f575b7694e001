"""A user's own Spark job that is killed: `CALVE_KILLS=20 pytest tests/crash/test_spark_sink.py` is the long run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from itertools import cycle, islice
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from calve.engine.jvm import jars

pytestmark = pytest.mark.spark
KILLS = int(os.environ.get("CALVE_KILLS", "1"))
POINTS = (
    {"CALVE_STOP_AT": "commit.after-table"},  # one of the batch's two tables has it
    {"KILL_AFTER": "1"},  # Spark repeats a batch that is committed
    {"CALVE_STOP_AT": "ledger.after-begin"},  # its rows are kept
    {"CALVE_STOP_AT": "commit.after-swap:3"},
    {"CALVE_STOP_AT": "pipeline.after-stage:2"},
    {"CALVE_STOP_AT": "ledger.before-begin"},
    {"CALVE_STOP_AT": "pipeline.after-acknowledge:2"},
)
ROWS = 40


def run(folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    classes = os.pathsep.join(map(str, jars.resolve(jars.needed())))
    command = [sys.executable, str(Path(__file__).parents[1] / "kit" / "spark_job.py"), classes, str(folder)]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, check=False, timeout=600)


def table(folder: Path, name: str) -> pa.Table:
    """Read a table from its newest metadata."""
    metadata = folder / "warehouse" / "shop" / name / "metadata"
    version = (metadata / "version-hint.text").read_text().strip()
    return StaticTable.from_metadata(str(metadata / f"v{version}.metadata.json")).scan().to_arrow()


def test_a_stream_of_a_users_own_job_is_exact_through_kills(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    files = 2 * KILLS + 1
    for number in range(files):
        rows = [{"n": number * ROWS + row, "text": "7" if row else "poison"} for row in range(ROWS)]
        (tmp_path / "in" / f"{number:04}.json").write_text("\n".join(map(json.dumps, rows)))
    for kill in islice(cycle(POINTS), KILLS):
        killed = run(tmp_path, kill)
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-4000:].decode()
    ended = run(tmp_path, {})
    assert ended.returncode == 0, ended.stderr[-4000:].decode()
    expected = [number for number in range(files * ROWS) if number % ROWS]
    assert sorted(table(tmp_path, "all")["n"].to_pylist()) == expected
    assert sorted(table(tmp_path, "even")["n"].to_pylist()) == [*range(0, files * ROWS, 2)]
    published = tmp_path.glob("state/orders/dlq/[!._]*")
    letters = [json.loads(line) for file in published for line in file.read_text().splitlines()]
    assert sorted(json.loads(letter["event"])["n"] for letter in letters) == [*range(0, files * ROWS, ROWS)]
