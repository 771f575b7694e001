"""A batch of several tasks makes one small file for each partition and not one for each task, and says so."""

from __future__ import annotations

import json

import pytest

from calve.pipeline.spark_job import TASK_BYTES

YAML = """
events:
  source:
    file: {path: "in/*.ndjson"}
  sink:
    - iceberg:
        table_identifier: shop.events
        auto_create: true
        schema:
          columns: [{name: id, type: long}, {name: part, type: long}]
          partition_spec: [{column: part}]
        distribution: hash
        dlq: {table: ops.dead}
"""
PARTS, ROWS = 5, 400


@pytest.mark.spark
def test_small_parts_that_several_tasks_have_become_one_file_for_each_partition(calve):
    job = calve(YAML)
    (job.folder / "in").mkdir()
    for file in range(2):
        events = [{"id": file * ROWS + n, "part": n % PARTS, "pad": "x" * (TASK_BYTES // ROWS)} for n in range(ROWS)]
        lines = [*map(json.dumps, events), "no JSON"]
        (job.folder / "in" / f"{file}.ndjson").write_text("\n".join(lines) + "\n")
    job.killed_at("pipeline.after-stage")
    assert job.once() == 0, job.said()[-2000:]
    table = job.catalog().load_table("shop.events")
    files = [task.file for task in table.scan().plan_files()]
    assert sorted(file.partition[0] for file in files) == list(range(PARTS))
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(2 * ROWS))
    dead = job.catalog().load_table("ops.dead")
    assert (len(list(dead.scan().plan_files())), len(dead.scan().to_arrow())) == (1, 2)
