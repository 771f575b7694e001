"""One task that writes into many tables: CPU seconds against one table, events/s, the most memory that it ever held.

Runs the executors' path as it is (read, route, convert, write), without Spark and without commits; each case is a
process of its own, because the high-water mark of memory never falls.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyiceberg.types as iceberg
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform

from calve.convert.table import Table
from calve.expression import compile_format
from calve.pipeline.job import Job, SinkJob
from calve.pipeline.task import run_task
from calve.route.route import SinkRoute
from calve.sources.source import READ_ROWS, Split
from calve.write.dead_letters import DeadLetterPlace

CASES = [(1, 1), (50, 1), (200, 1), (2000, 1), (2000, 100)]
"""Tables, and partitions of each."""
SCHEMA = Schema(
    iceberg.NestedField(1, "id", iceberg.LongType()),
    iceberg.NestedField(2, "table", iceberg.LongType()),
    iceberg.NestedField(3, "part", iceberg.LongType()),
    iceberg.NestedField(4, "at", iceberg.TimestamptzType()),
    iceberg.NestedField(5, "amount", iceberg.DoubleType()),
    iceberg.NestedField(6, "country", iceberg.StringType()),
    iceberg.NestedField(7, "session", iceberg.StringType()),
    iceberg.NestedField(8, "note", iceberg.StringType()),
)


@dataclass(frozen=True)
class Case:
    """How many events, into how many tables, of how many partitions each."""

    events: int
    tables: int
    partitions: int


@dataclass(frozen=True)
class Made:
    """A reader of events that lie in a file, so that neither making nor keeping them is measured."""

    path: str

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the events, in batches as a source gives them."""
        with pa.OSFile(self.path) as file, pa.ipc.open_file(file) as batches:
            for number in range(batches.num_record_batches):
                yield batches.get_batch(number)


def make(case: Case, path: str) -> None:
    """Write the events of a case."""
    rnd = random.Random(1)
    schema = pa.schema({"event": pa.binary()})
    rows = min(READ_ROWS, case.events)
    with pa.ipc.new_file(path, schema) as file:
        for start in range(0, case.events, rows):
            texts = [event(case, rnd, number) for number in range(start, min(start + rows, case.events))]
            file.write_batch(pa.record_batch({"event": pa.array(texts, pa.binary())}))


def event(case: Case, rnd: random.Random, number: int) -> bytes:
    """Give an event of about 220 bytes."""
    return (
        f'{{"id":{number},"table":{rnd.randrange(case.tables)},"part":{rnd.randrange(case.partitions)},'
        f'"at":"2026-03-{1 + number % 28:02d}T12:00:00.{number % 1000:03d}Z","amount":{rnd.random() * 1000:.2f},'
        f'"country":"{rnd.choice(("DE", "FR", "US"))}","session":"{rnd.getrandbits(64):016x}",'
        f'"note":"{rnd.getrandbits(240):060x}"}}'
    ).encode()


def job(case: Case, folder: Path) -> Job:
    """Make the job of a pipeline whose `table_identifier` is dynamic."""
    spec = (
        PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "part")) if case.partitions > 1 else PartitionSpec()
    )
    names = [f"bench.t{number}" for number in range(case.tables)]
    schema, partitions = SCHEMA.model_dump_json(), spec.model_dump_json()
    sink = SinkJob(
        label="bench",
        catalog="bench",
        route=SinkRoute(compile_format("bench.t${/table}" if case.tables > 1 else "bench.t0", frozenset())),
        tables={name: Table(name, name, str(folder / name), schema, partitions) for name in names},
        dead_letters=DeadLetterPlace(str(folder / "dlq")),
        evolves=True,
    )
    return Job("bench", "run", Made(str(folder / "events")), (sink,), max_open_writers=256)


def measure(case: Case) -> dict[str, float]:
    """Run one case here; give its seconds, its files, and the most memory before and after in MB."""
    with tempfile.TemporaryDirectory(prefix="many-tables-") as folder:
        make(case, f"{folder}/events")
        for number in range(case.tables):  # a table that exists has its folder
            Path(folder, f"bench.t{number}", "data").mkdir(parents=True)
        before, start, cpu = _peak(), time.perf_counter(), time.process_time()
        receipt = run_task(job(case, Path(folder)), [Split({})], 0)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    if "error" in receipt or sum(table["rows"] for table in receipt["tables"]) != case.events:
        raise SystemExit(f"not all events were written: {receipt.get('error')} {receipt.get('traceback')}")
    files = sum(len(table["files"]) for table in receipt["tables"])
    return {"seconds": seconds, "cpu": cpu, "files": files, "before": before, "peak": _peak(), **receipt["seconds"]}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Run every case and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000, help="of each case (a tenth where there are partitions)")
    parser.add_argument("--case", help="tables,partitions: this case alone, in this process; prints JSON")
    given = parser.parse_args()
    if given.case:
        tables, partitions = map(int, given.case.split(","))
        print(json.dumps(measure(Case(given.events, tables, partitions))))
        return
    one = 0.0
    print(
        f"{'tables':>6} {'partitions':>10} {'files':>7} {'events/s':>9} {'CPU':>6} {'of one':>6} "
        f"{'peak MB':>8} {'grew':>6}"
    )
    for tables, partitions in CASES:
        events = given.events if partitions == 1 else given.events // 10
        command = [sys.executable, __file__, "--events", str(events), "--case", f"{tables},{partitions}"]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        each = found["cpu"] / events
        one = one or each
        print(
            f"{tables:6} {partitions:10} {found['files']:7.0f} {events / found['seconds']:9.0f} {found['cpu']:6.2f} "
            f"{each / one:6.1f} {found['peak']:8.0f} {found['peak'] - found['before']:6.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
