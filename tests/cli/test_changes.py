from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kit.running import LITTLE, PATIENCE_SECONDS, Calve

YAML = """\
crm:
  source:
    file: {path: "*.ndjson"}
  sink:
    - iceberg:
        table_identifier: crm.customers
        auto_create: true
        identifier_columns: [id]
        operation: ${/op}
        exclude_keys: [op]
"""


def calve(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "calve", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def brief(line: str) -> list[Any]:
    change = json.loads(line)
    return [change["metadata"]["iceberg_operation"], change["metadata"]["document_id"], change["event"]["city"]]


@pytest.mark.spark
def test_what_a_pipeline_writes_can_be_followed_and_ctrl_c_ends_it(spark: SparkSession, tmp_path: Path) -> None:
    job = Calve(tmp_path, YAML, spark)
    (tmp_path / "1.ndjson").write_text('{"id": 1, "city": "Bern"}\n{"id": 2, "city": "Biel"}\n')
    assert job.once() == 0, job.said()
    command = [
        sys.executable,
        "-m",
        "calve",
        "changes",
        "crm.customers",
        "--follow",
        "--polling-interval",
        "100ms",
        *LITTLE,
    ]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as following:
        try:
            assert following.stdout
            assert following.stderr
            first = sorted(brief(following.stdout.readline()) for _ in range(2))
            assert first == [["INSERT", "1", "Bern"], ["INSERT", "2", "Biel"]]
            (tmp_path / "2.ndjson").write_text(
                '{"op": "update", "id": 1, "city": "Basel"}\n{"op": "delete", "id": 2}\n{"id": 3, "city": "Chur"}\n'
            )
            assert job.once() == 0, job.said()
            second = [brief(following.stdout.readline()) for _ in range(4)]
            assert [change for change in second if change[1] == "1"] == [
                ["UPDATE_BEFORE", "1", "Bern"],
                ["UPDATE_AFTER", "1", "Basel"],
            ]
            assert sorted(change for change in second if change[1] != "1") == [
                ["DELETE", "2", "Biel"],
                ["INSERT", "3", "Chur"],
            ]
            following.send_signal(signal.SIGINT)
            assert following.stdout.read() == ""
            assert following.wait(PATIENCE_SECONDS) == 0
            (said,) = following.stderr.read().splitlines()
            assert said.startswith("Starting Spark, which takes some seconds")
        finally:
            following.kill()


def test_a_catalog_that_is_not_there_is_said_before_spark_starts(tmp_path: Path) -> None:
    ran = calve(tmp_path, "changes", "shop.orders")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "There is no table shop.orders in" in ran.stderr
    assert "there is no such catalog. Set the catalog with --catalog" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--follow", "--to", "5"), "--follow continues after the newest snapshot"),
        (("--from", "yesterday"), "'yesterday' is not a valid integer"),
        (("--catalog", "rest"), "'rest' is not KEY=VALUE"),
        (("--polling-interval", "soon"), "durations are written 500ms, 30s"),
    ],
)
def test_a_wrong_command_is_said(tmp_path: Path, arguments: tuple[str, ...], why: str) -> None:
    ran = calve(tmp_path, "changes", "shop.orders", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert why in ran.stderr
