"""Whatever a pipeline reads from and however it writes, each of its batches is a job of Spark.

`running.Calve` checks the same for each run of all tests in their own process, also of those with databases.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from calve.engine import session
from contract.test_sources import Files, GrowingFile, Objects, Requests, Snapshots, Topic, numbered
from kit.running import until
from services.process import free_ports

pytestmark = pytest.mark.spark
COUNT = 400
MODES = {
    "append": {},
    "equality-delete": {"identifier_columns": ["n"], "operation": "UPDATE", "write_mode": "equality-delete"},
    "upsert": {"identifier_columns": ["n"], "upsert": True},
    "merge-on-read": {"identifier_columns": ["n"], "operation": "UPDATE", "write_mode": "merge-on-read"},
    "copy-on-write": {"identifier_columns": ["n"], "operation": "UPDATE", "write_mode": "copy-on-write"},
}


def descriptions(pipeline: str) -> list[str]:
    """What Spark shows of the jobs of a pipeline."""
    store = session.start().context._jsc.sc().statusStore()
    jobs = store.jobsList(None)
    found = [jobs.apply(number) for number in range(jobs.size())]
    return [job.description().get() for job in found if job.jobGroup().isDefined() and job.jobGroup().get() == pipeline]


def checked(job, name: str) -> None:
    batches = job.status(name)["batches"]
    assert batches > 0
    texts = descriptions(name)
    assert {text.partition(", ")[0] for text in texts} >= {f"{name}: batch {number + 1}" for number in range(batches)}


def test_each_batch_of_each_mode_is_a_job(calve) -> None:
    shared = {"auto_create": True, "max_batch_bytes": "1kb"}
    sinks = {f"job-{mode}": {"table_identifier": f"db.{mode}", **shared, **MODES[mode]} for mode in MODES}
    source = {"file": {"path": "*.ndjson"}}
    job = calve(json.dumps({name: {"source": source, "sink": [{"iceberg": sink}]} for name, sink in sinks.items()}))
    for number in range(3):
        (job.folder / f"{number}.ndjson").write_bytes(b"\n".join(numbered(0, 100)))
    assert job.once() == 0, job.said()
    for name in sinks:
        assert job.status(name)["batches"] == 3
        checked(job, name)


@pytest.mark.services("kafka_broker", "object_store")
def test_each_batch_of_each_source_is_a_job(calve, request, tmp_path) -> None:
    [port], yaml, worlds = free_ports(1), "", {}
    for kind in (Files, GrowingFile, Requests, Snapshots, Topic, Objects):
        name = f"job-of-{kind.__name__}"
        (tmp_path / name).mkdir()
        worlds[name] = world = kind(tmp_path / name, request)
        sink = f"table_identifier: db.{kind.__name__}, auto_create: true, flush_interval: 50ms, commit_interval: 50ms"
        source = world.yaml.replace("port: 0", f"port: {port}")
        yaml += f"{name}:\n  source:\n    {source}\n  sink:\n    - iceberg: {{{sink}}}\n"
    job = calve(yaml)
    with job.running():
        for name, world in worlds.items():
            until(lambda name=name: job.status(name).get("state") == "waiting", "it waits for events")
            world.feed(SimpleNamespace(address=("127.0.0.1", port)), numbered(0, COUNT))
        for name in worlds:
            rows = {f"db.{name.rpartition('-')[2]}": COUNT}
            until(lambda name=name, rows=rows: job.status(name)["run"]["rows"] == rows, "all rows are committed")
    for name in worlds:
        checked(job, name)
