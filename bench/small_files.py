"""Are small parts of partitions worth handing on to one writer? Files, seconds and CPU seconds of one batch, both ways.

Runs Spark jobs as a pipeline does, without commits: as many tasks as cores that Spark is told of, each of which meets
every partition. Both ways take turns; medians are shown.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.many_tables import Case, job, make
from bench.measure import CPU
from calve.engine import session
from calve.pipeline.spark_job import run_job
from calve.sources.source import Split

CASES = [(2, 20, 32), (2, 100, 32), (4, 4, 64), (4, 100, 64), (8, 20, 128), (8, 100, 128)]
"""Tasks, partitions, and megabytes of the batch."""
EVENT_BYTES = 220


@dataclass(frozen=True)
class Shares:
    """A reader whose splits are shares of a file of events that was made before."""

    path: str

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield a share of the events."""
        with pa.OSFile(self.path) as file, pa.ipc.open_file(file) as batches:
            events = batches.read_all()
        rows = len(events) // split.body["of"]
        yield from events.slice(split.body["share"] * rows, rows).to_batches()


def measure(case: tuple[int, int, int], limits: list[int], rounds: int) -> None:
    """Run one case with every limit and print a line for each."""
    tasks, partitions, megabytes = case
    engine = session.start(f"local[{tasks}]")
    try:
        with tempfile.TemporaryDirectory(prefix="gather-") as folder:
            events = megabytes * 1_000_000 // EVENT_BYTES // tasks
            shape = Case(events * tasks, 1, partitions)
            make(shape, f"{folder}/events")
            groups = [[Split({"share": number, "of": tasks})] for number in range(tasks)]
            found: dict[int, list[tuple[float, float, int, int]]] = {}
            for number in range(rounds + 1):
                for limit in limits:
                    start, cpu = time.perf_counter(), CPU.seconds()
                    receipts = run_job(engine, _job(shape, Path(folder), f"{number}-{limit}", tasks, limit), groups)
                    seconds, cpu = time.perf_counter() - start, CPU.seconds() - cpu
                    written = [table for receipt in receipts for table in receipt.tables]
                    assert sum(table.rows for table in written) == events * tasks
                    files = sum(len(table.files) for table in written)
                    if number:  # the first one warms up
                        size = sum(table.bytes for table in written)
                        found.setdefault(limit, []).append((seconds, cpu, files, size // files))
            for limit, runs in found.items():
                seconds, cpu, files, size = (statistics.median(run[i] for run in runs) for i in range(4))
                name = f"< {limit >> 10} kB" if limit else "none"
                given = f"{tasks:5} {partitions:10} {megabytes:5} {name:>10}"
                print(f"{given} {files:6.0f} {size / 1000:8.0f} {seconds:8.2f} {cpu:8.2f}", flush=True)
    finally:
        session.stop(engine)


def _job(shape: Case, folder: Path, run: str, tasks: int, limit: int) -> Any:
    made = job(shape, folder)
    sinks = tuple(dataclasses.replace(sink, shuffle_below_bytes=limit) for sink in made.sinks)
    return dataclasses.replace(
        made, run=run, reader=Shares(f"{folder}/events"), sinks=sinks, shuffle_partitions=tasks if limit else 0
    )


def main() -> None:
    """Run every case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--case", help="tasks,partitions,megabytes: this one alone")
    parser.add_argument("--limits", default="0,512,4096", help="kilobytes below which a part is shuffled")
    given = parser.parse_args()
    limits = [int(limit) << 10 for limit in given.limits.split(",")]
    print("tasks partitions    MB  shuffled   files  kB each  seconds      CPU")
    for case in [tuple(map(int, given.case.split(",")))] if given.case else CASES:
        measure(case, limits, given.rounds)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
