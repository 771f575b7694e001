"""A survey finds the tables of the first events of a batch, writes nothing, and no event makes it fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from calve.dead_letters.rejects import DeadLetterLocation
from calve.expression import compile_format
from calve.pipeline import batch
from calve.record.target import TableRef
from calve.route.sink_route import SinkRoute
from calve.sinks.iceberg.job import TableJob
from calve.sources.source import Split
from calve.task.job import Job
from calve.task.survey import survey
from kit.running import Calve

EVENTS = [b'{"to": "a"}', b'{"to": "b", "n": 1}', b'{"to": "a"', b"no JSON", b'{"to": "a/b"}', b'{"n": 1}']


@dataclass(frozen=True)
class Texts:
    """A reader of splits, of which one cannot be read."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield events, and others later."""
        if split.body.get("broken"):
            raise OSError("gone")
        yield pa.record_batch({"event": pa.array(EVENTS, pa.binary())})
        yield pa.record_batch({"event": pa.array([b'{"to": "late"}'], pa.binary())})


def test_the_tables_of_the_first_events_are_found(tmp_path: Path) -> None:
    letters = DeadLetterLocation(str(tmp_path / "dlq"))
    sinks = [TableJob("iceberg", SinkRoute(compile_format(to)), letters, "c", {}) for to in ("ns.${/to}", "ns.all")]
    found = survey(
        Job("p", "run", Texts(), tuple(sinks), max_open_writers=9), iter([[Split({"broken": True})], [Split({})]])
    )
    assert set(found) == {TableRef(0, "ns.a"), TableRef(0, "ns.b"), TableRef(1, "ns.all")}
    assert not list(tmp_path.iterdir())


YAML = """
orders:
  source: {file: {path: in/*.ndjson}}
  sink: [iceberg: {table_identifier: "shop.${/to}", auto_create: true, schema_evolution: true}]
"""


@pytest.mark.spark
def test_events_of_tables_that_exist_are_read_once_by_a_run_that_begins(tmp_path: Path, spark: SparkSession) -> None:
    calve, passes = Calve(tmp_path, YAML, spark), 0
    real = batch.run_job

    def run_job(*arguments: object) -> object:
        nonlocal passes
        passes += 1
        return real(*arguments)  # type: ignore[arg-type]

    (tmp_path / "in").mkdir()
    found = []
    with mock.patch.object(batch, "run_job", run_job):
        for number in range(2):
            (tmp_path / "in" / f"{number}.ndjson").write_text('{"to": "a", "n": 1}\n{"to": "b", "n": 2}\n')
            before = passes
            assert calve.once() == 0, calve.said()
            found.append(passes - before)
    assert found == [2, 1], "the first run reads them twice, to make their tables"
    assert [calve.rows(f"shop.{name}").column("n").to_pylist() for name in "ab"] == [[1, 1], [2, 2]]
