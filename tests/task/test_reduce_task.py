"""Tasks that shuffle small parts: every row is written once, and those of a partition together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from calve.dead_letters.rejects import DeadLetterLocation
from calve.expression import compile_format
from calve.pipeline.distribution import Distribution
from calve.pipeline.spark_job import divide
from calve.record.receipt import Failure, Receipt
from calve.record.written import StagedFiles
from calve.route.sink_route import SinkRoute
from calve.sinks.iceberg.job import TableJob
from calve.sinks.iceberg.sink import SHUFFLE_BELOW_BYTES
from calve.sources.source import Split
from calve.table.loaded import Table
from calve.task import reduce_task
from calve.task.job import Job
from calve.task.task import shuffle_tasks
from kit.content_files import data_file

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "part", LongType()),
    NestedField(3, "at", TimestamptzType()),
    NestedField(4, "table", StringType()),
)
PARTS, TASKS = 5, 3


@dataclass(frozen=True)
class Events:
    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"event": pa.array([json.dumps(event).encode() for event in split.body["events"]])})


def job(folder: Path, **changed: Any) -> Job:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    tables = {
        name: Table(name, name, str(folder / name), SCHEMA.model_dump_json(), spec.model_dump_json())
        for name in ("t.a", "t.b")
    }
    sink = TableJob(
        label="iceberg",
        catalog="c",
        route=SinkRoute(compile_format("t.${/table}", frozenset())),
        tables=tables,
        dead_letters=DeadLetterLocation(str(folder / "dlq")),
        event_time="at",
        shuffle_below_bytes=SHUFFLE_BELOW_BYTES["auto"],
    )
    return Job("p", "run", Events(), (replace(sink, **changed),), max_open_writers=2, shuffle_partitions=TASKS)


def groups(rows: int, **more: Any) -> list[list[Split]]:
    events = [
        {"id": n, "table": "ab"[n % 2], "part": n // 2 % PARTS, "at": f"2026-01-01T00:00:{n % 60:02}Z"} | more
        for n in range(rows)
    ]
    return [[Split({"events": events[task::TASKS]})] for task in range(TASKS)]


def run(made: Job, given: list[list[Split]]) -> list[Any]:
    """Do as Spark does: every task, then every reduce task with what it was sent."""
    sent = [record for task in range(TASKS) for record in shuffle_tasks(made, given, iter([task]))]
    buckets = range(made.shuffle_partitions)
    found = [reduce_task.run(made, bucket, [record for record in sent if record[0] == bucket]) for bucket in buckets]
    return [msgspec.json.decode(one, type=Receipt | Failure) for bucket in found for one in bucket]


def ids(receipts: list[Receipt]) -> Counter[int]:
    files = [file.file_path for one in receipts for table in one.tables for file in table.files]
    assert len(files) == len(set(files))
    return Counter(row for file in files for row in pq.read_table(file)["id"].to_pylist())


def test_small_parts_of_all_tasks_become_one_file_for_each_partition(tmp_path):
    receipts = run(job(tmp_path), groups(300))
    assert ids(receipts) == Counter(range(300))
    places = [(table.table, str(file.partition)) for one in receipts for table in one.tables for file in table.files]
    assert len(places) == len(set(places)) == 2 * PARTS
    assert sum(one.shuffled_parts for one in receipts) == 2 * PARTS * TASKS
    assert sum(table.rows for one in receipts for table in one.tables) == 300
    assert sum(one.seen.events for one in receipts) == 300
    assert len({frozenset(one.seconds) for one in receipts}) == 1
    [*_, newest] = sorted(time for one in receipts for table in one.tables for time in table.event_times.values())
    assert newest


def test_a_part_that_is_large_enough_is_written_by_its_task(tmp_path):
    receipts = run(job(tmp_path, shuffle_below_bytes=1), groups(60))
    assert ids(receipts) == Counter(range(60))
    assert [one.task for one in receipts] == [0, 1, 2]
    assert sum(one.shuffled_parts for one in receipts) == 0


def test_what_a_task_wrote_for_a_table_that_turns_out_not_to_fit_is_not_shuffled(tmp_path):
    given = groups(60)
    given[1][0].body["events"][0]["new"] = 1
    made = job(tmp_path, evolves=True)
    receipts = run(made, given)
    [misfit] = [one.misfits for one in receipts if one.misfits]
    table = misfit[0].target.table
    mine = [event["id"] for event in given[1][0].body["events"] if f"t.{event['table']}" == table]
    assert ids(receipts) == Counter(set(range(60)) - set(mine))


def test_a_task_that_fails_hands_on_its_error_and_no_rows(tmp_path):
    given = groups(60)
    given[2][0].body["events"] = 7
    receipts = run(job(tmp_path), given)
    [failure] = [one for one in receipts if isinstance(one, Failure)]
    assert "not iterable" in failure.message


@pytest.mark.parametrize(
    ("shuffled_parts", "files", "again"),
    [(800, 100, True), (0, 0, False), (100, 90, False), (4, 2, False), (10, 4, True)],
)
def test_parts_are_shuffled_as_long_as_that_saves_files(tmp_path, shuffled_parts, files, again):
    made = replace(job(tmp_path), shuffle_partitions=0)
    choice = Distribution()
    first = choice.choose(made, 8)
    assert first.shuffle_partitions == 8
    receipts = [
        Receipt([StagedFiles("c", "t", "", [], 0, 0)], task=0, shuffled_parts=shuffled_parts),
        Receipt([StagedFiles("c", "t", "", [data_file("a")] * files, 0, 0)]),
    ]
    choice.learn(first, receipts)
    assert f"{shuffled_parts} small part" in choice.reason
    assert (choice.choose(made, 8).shuffle_partitions > 0) is again
    assert again or choice.reason.startswith("written as they are: of ")
    later = [choice.choose(made, 8).shuffle_partitions for _ in range(20)]
    assert 8 in later
    assert Distribution(always=True).choose(made, 1).shuffle_partitions == 0


def test_where_nothing_could_be_saved_nothing_is_shuffled(tmp_path):
    made = replace(job(tmp_path), shuffle_partitions=0)
    assert Distribution().choose(made, 2).shuffle_partitions == 0
    assert Distribution(always=True).choose(made, 2).shuffle_partitions == 2
    table = replace(made.sinks[0].tables["t.a"], spec_json=PartitionSpec().model_dump_json())
    one = replace(made, sinks=(replace(made.sinks[0], tables={"t.a": table}),))
    choice = Distribution()
    assert choice.choose(one, 8).shuffle_partitions == 0
    assert choice.reason == "written as they are: there is one table, without partitions"


def test_a_sink_may_ask_that_every_task_writes_its_own_files(tmp_path):
    choice = Distribution()
    assert choice.choose(replace(job(tmp_path, shuffle_below_bytes=0), shuffle_partitions=0), 8).shuffle_partitions == 0
    assert choice.reason == "written as they are: distribution is none"
    assert partial(choice.choose, job(tmp_path))(8).shuffle_partitions == 8


def test_changes_of_a_table_that_one_task_does_not_fit_are_not_written_by_any(tmp_path):
    made = job(tmp_path, changes=True, identifier_columns=("id",), evolves=True, event_time=None)
    given = groups(30)
    receipts = run(made, given)
    files = [file.content for receipt in receipts for one in receipt.tables for file in one.files]
    assert files
    assert set(files) == {"DATA"}
    given[1][0].body["events"].append({"id": 1, "table": "a", "part": 0, "new": 1})
    receipts = run(made, given)
    assert [receipt.task for receipt in receipts if receipt.misfits] == [1]
    assert not [one for receipt in receipts for one in receipt.tables if one.files]


def test_splits_in_order_are_cut_into_tasks_of_about_equal_size():
    sizes = [40, 1, 1, 30, 30, 5, 40]
    splits = [Split({"number": number}, size << 20) for number, size in enumerate(sizes)]
    cut = divide(splits, 3, in_order=True)
    assert [[split.body["number"] for split in group] for group in cut] == [[0, 1, 2], [3, 4], [5, 6]]
    assert divide([], 3, in_order=True) == [[]]
