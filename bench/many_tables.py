"""One task that writes into many tables: CPU seconds against one table, events/s, the most memory that it ever held.

Runs the executors' path as it is (read, route, convert, write), without Spark and without commits; each case is a
process of its own, because the high-water mark of memory never falls. With `--commits` it measures the commits alone:
the driver's path from staged files to snapshots, with its eight threads, in the embedded catalog.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyiceberg.types as iceberg
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyspark import SparkContext

from calve.catalog.catalog import Catalog, embedded
from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.dead_letters.rejects import DeadLetterLocation
from calve.engine import session
from calve.expression import compile_format
from calve.record.content_file import Bounds, ContentFile, Counts
from calve.record.receipt import Failure
from calve.route.sink_route import SinkRoute
from calve.sinks.iceberg.job import TableJob
from calve.sources.source import READ_ROWS, Split
from calve.table.loaded import Table
from calve.task.job import Job
from calve.task.task import run_task

CASES = [(1, 1), (50, 1), (200, 1), (2000, 1), (2000, 100)]
"""Tables, and partitions of each."""
COMMITTERS = 8
ROUNDS = 3
"""Of commits; in the first one the JVM still loads its classes."""
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
    sink = TableJob(
        label="bench",
        catalog="bench",
        route=SinkRoute(compile_format("bench.t${/table}" if case.tables > 1 else "bench.t0", frozenset())),
        tables={name: Table(name, name, str(folder / name), schema, partitions) for name in names},
        dead_letters=DeadLetterLocation(str(folder / "dlq")),
        evolves=True,
    )
    return Job("bench", "run", Made(str(folder / "events")), (sink,), max_open_writers=256)


def measure(case: Case) -> dict[str, float]:
    """Run one case here; give its seconds, its files, and the most memory before and after in MB."""
    with tempfile.TemporaryDirectory(prefix="many-tables-") as folder:
        make(case, f"{folder}/events")
        for number in range(case.tables):  # a table that exists has its folder
            Path(folder, f"bench.t{number}", "data").mkdir(parents=True)
        made = job(case, Path(folder))  # the driver makes it, once
        before, start, cpu = _peak(), time.perf_counter(), time.process_time()
        receipt = run_task(made, [Split({})], 0)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    if isinstance(receipt, Failure) or sum(table.rows for table in receipt.tables) != case.events:
        raise SystemExit(f"not all events were written: {str(receipt)[:2000]}")
    files = sum(len(table.files) for table in receipt.tables)
    return {"seconds": seconds, "cpu": cpu, "files": files, "before": before, "peak": _peak(), **receipt.seconds}


def commits(tables: int) -> None:
    """Commit two files to each of so many tables, round after round; print milliseconds of CPU of each."""
    engine = session.start("local[2]", preload=())
    try:
        with tempfile.TemporaryDirectory(prefix="many-tables-") as folder, ThreadPoolExecutor(COMMITTERS) as pool:
            catalog = Catalog(engine, embedded(Path(folder)))
            catalog.prepare()
            schema = SCHEMA.model_dump_json()
            with _measured("creating", tables):
                made = list(pool.map(lambda number: catalog.create(f"bench.t{number}", schema), range(tables)))
            for batch in range(1, ROUNDS + 1):
                with _measured("a commit to", tables):
                    list(pool.map(lambda table, batch=batch: commit(catalog, table, batch), made))
    finally:
        session.stop(engine)


@contextlib.contextmanager
def _measured(what: str, tables: int) -> Iterator[None]:
    """Print what each of so many tables took in the block."""
    start, cpu, jvm = time.perf_counter(), time.process_time(), _jvm_seconds()
    yield
    seconds, each = time.perf_counter() - start, 1000 / tables
    cpu, jvm = (time.process_time() - cpu) * each, (_jvm_seconds() - jvm) * each
    print(f"{what} {tables} tables: {seconds:.1f} s; of each Python {cpu:.1f} ms, JVM {jvm:.1f} ms", flush=True)


def commit(catalog: Catalog, table: Table, batch: int) -> None:
    """Commit files that nobody wrote: their statistics are all that a commit looks at."""
    columns = [1, 2, 4, 5, 6, 7, 8]
    counts = Counts(columns, [500] * len(columns))
    files = [
        ContentFile(
            spec_id=0,
            content="DATA",
            file_path=f"{table.location}/data/{batch}-{number}.parquet",
            file_format="PARQUET",
            partition=[],
            file_size_in_bytes=40_000,
            record_count=500,
            column_sizes=counts,
            value_counts=counts,
            null_value_counts=counts,
            lower_bounds=Bounds([1, 2], ["00" * 8] * 2),
            upper_bounds=Bounds([1, 2], ["FF" * 8] * 2),
        )
        for number in range(2)
    ]
    mark = Mark("bench", "state", batch)
    if not append(catalog, CommitTarget(table.identifier, table.uuid), mark, {batch: files}).batches:
        raise SystemExit(f"nothing was committed to {table.identifier}")


def _jvm_seconds() -> float:
    """Return the CPU seconds of Spark's JVM so far."""
    values = Path(f"/proc/{SparkContext._gateway.proc.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Run every case and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000, help="of each case (a tenth where there are partitions)")
    parser.add_argument("--case", help="tables,partitions: this case alone, in this process; prints JSON")
    parser.add_argument("--commits", type=int, metavar="TABLES", help="measure commits of so many tables instead")
    given = parser.parse_args()
    if given.commits:
        commits(given.commits)
        return
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
        command = [
            sys.executable,
            "-m",
            "bench.many_tables",
            "--events",
            str(events),
            "--case",
            f"{tables},{partitions}",
        ]
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
