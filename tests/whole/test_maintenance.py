"""Maintenance beside a pipeline that writes on: nothing is lost, nothing comes back, whatever is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kit.readers import with_pyiceberg
from kit.running import LITTLE, Calve, post, until
from services.process import free_ports

pytestmark = [pytest.mark.spark, pytest.mark.crash]

QUICK = {"flush_interval": "50ms", "commit_interval": "50ms"}
COLUMNS = [
    {"name": "id", "type": "long"},
    {"name": "city", "type": "string"},
    {"name": "version", "type": "long", "required": True},
]
Row = tuple[Any, int]


def configuration(port: int) -> str:
    """Two tables of one stream: `db.rows` is left to `calve maintain`, `db.own` is converted by the pipeline."""
    spec = [{"column": "city", "transform": "identity"}]
    sink = {
        "operation": "${/op}",
        "write_mode": "equality-delete",
        "identifier_columns": ["id"],
        "auto_create": True,
        **QUICK,
    }
    rows = {"schema": {"columns": COLUMNS, "partition_spec": spec}, "table_properties": {"format-version": "3"}}
    own = {"schema": {"columns": COLUMNS}, "equality_delete_limit": 25}
    sinks = [
        {**sink, **rows, "table_identifier": "db.rows", "equality_delete_limit": 0},
        {**sink, **own, "table_identifier": "db.own"},
    ]
    return json.dumps({"p": {"source": {"http": {"port": port}}, "sink": [{"iceberg": one} for one in sinks]}})


class Changes:
    """Sends changes until it is told to stop, and applies each request that was accepted to a dictionary."""

    def __init__(self, job: Calve, port: int) -> None:
        self.oracle: dict[int, Row] = {}
        self.sent = 0
        self._job, self._port = job, port
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Changes:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _send(self) -> None:
        chosen = random.Random(5)
        while not self._stop.is_set():
            events = [self._change(chosen, number) for number in range(20)]
            until(lambda found=events: post(self._port, found, f"{self.sent}") == 200, "the events are accepted")
            self.sent += 1
            until(self._arrived, "the events are committed")
            self._stop.wait(1)  # a commit a second: maintenance that finds rows on a slow machine must be faster once

    def _arrived(self) -> bool:
        """One batch after the other, so that their number is bounded on a slow machine."""
        return self._stop.is_set() or table(self._job, "db.rows").get("commits", 0) >= self.sent

    def _change(self, chosen: random.Random, number: int) -> dict[str, Any]:
        key, city, version = chosen.randrange(100), chosen.choice(("x", "y", None)), self.sent * 100 + number
        if chosen.random() < 0.3:
            self.oracle.pop(key, None)
            return {"op": "delete", "id": key}
        self.oracle[key] = (city, version)
        return {"op": "update", "id": key, "city": city, "version": version}


@pytest.fixture(scope="module")
def job(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Calve]:
    [port] = free_ports(1)
    job = Calve(tmp_path_factory.mktemp("maintained"), configuration(port), spark)
    job.port = port  # type: ignore[attr-defined]
    job.start()
    yield job
    job.end()


def test_maintenance_beside_a_pipeline_leaves_what_a_dictionary_holds_whatever_is_killed(
    job: Calve,
) -> None:
    with Changes(job, job.port) as changes:
        until(lambda: table(job, "db.rows").get("commits", 0) > 3, "changes are committed")
        process = start_maintain(job, "db.rows", "--only", "convert")
        replaced = operations(job)
        until(lambda: operations(job) > replaced or process.poll() is not None, "it has rewritten", 300, 0.3)
        with suppress(ProcessLookupError):  # it was faster
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        maintain(job, "--only", "convert", "--only", "expire", "--older-than", "0s")
        until(lambda: table(job, "db.own").get("last_conversion"), "the pipeline converts")
    assert job.stop() == 0
    [report] = json.loads(maintain(job, "--only", "convert", "--json"))["tables"]
    assert (report["after"]["equality_delete_files"], report["error"]) == (0, None)
    wanted = [[key, city, version] for key, (city, version) in sorted(changes.oracle.items())]
    queries = [f"select id, city, version from lakehouse.db.{name} order by id" for name in ("rows", "own")]
    spark = job.shared_spark()
    assert [[[*row] for row in spark.sql(query).collect()] for query in queries] == [wanted, wanted]
    read = with_pyiceberg(job.folder / "lakehouse", "db.rows")
    assert sorted([row["id"], row["city"], row["version"]] for row in read) == wanted


def operations(job: Calve) -> int:
    """Count the rewrites of the table."""
    found = job.catalog().load_table("db.rows").snapshots()
    return sum(one.summary is not None and one.summary.operation.value == "replace" for one in found)


def table(job: Calve, name: str) -> dict[str, Any]:
    return job.status("p").get("tables", {}).get(name, {})


def start_maintain(job: Calve, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        job.command("maintain", *arguments, "--master", "local[2]", *LITTLE),
        cwd=job.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def maintain(job: Calve, *arguments: str) -> str:
    done = job.call("maintain", "db.rows", *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout
