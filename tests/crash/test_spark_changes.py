"""A stream of changes that is killed: `CALVE_KILLS=20 pytest tests/crash/test_spark_changes.py` is the long run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from calve.engine.jvm import jars
from kit.changes_job import FIRST

pytestmark = pytest.mark.spark
KILLS = int(os.environ.get("CALVE_KILLS", "1"))
NEW = ("INSERT", "UPDATE_AFTER")
TESTS = Path(__file__).parents[1]


def run(folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    classes = os.pathsep.join(map(str, jars.resolve(jars.needed())))
    command = [sys.executable, str(TESTS / "kit" / "changes_job.py"), classes, str(folder)]
    variables = {"PYTHONPATH": str(TESTS), "SNAPSHOTS": str(2 * KILLS + 3)}
    return subprocess.run(
        command, env=os.environ | variables | environment, capture_output=True, check=False, timeout=600
    )


def test_a_stream_of_changes_is_exact_through_kills(tmp_path: Path) -> None:
    for kill in range(KILLS):
        killed = run(tmp_path, {"KILL_AFTER": "2"} | ({"KILL_BEFORE": "1"} if kill % 2 else {}))
        assert killed.returncode == -signal.SIGKILL, killed.stderr[-4000:].decode()
    ended = run(tmp_path, {})
    assert ended.returncode == 0, ended.stderr[-4000:].decode()
    batches = [json.loads((tmp_path / "out" / f"{epoch}.json").read_text()) for epoch in range(2 * KILLS + 2)]
    table = dict.fromkeys(range(FIRST), "v0")  # the stream begins after the first snapshot
    changes = [row for batch in batches for row in sorted(batch, key=lambda row: row[2] in NEW)]
    for number, text, change, *_ in changes:
        if change in NEW:
            assert number not in table
            table[number] = text
        else:
            assert table.pop(number) == text
    assert sorted(map(list, table.items())) == json.loads((tmp_path / "table.json").read_text())
