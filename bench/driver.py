"""The driver alone: what a split, a receipt, a file and a table of a batch cost it, without any task.

    make bench-driver BENCH="--splits 10000 --files 10000 --tables 200"

It plans and divides a batch of many splits, records them, reads the receipts that 100 executors would send, stages the
batch, and commits its files (which nobody wrote: a commit does not read them) to one table, and to many tables.
`docs/scaling.md` says what follows for 100 executors.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from bench.measure import CPU, Figures, medians
from bench.report import Report
from calve import structs
from calve.catalog.catalog import Catalog, embedded
from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.engine.engine import Engine
from calve.ledger.ledger import Ledger
from calve.pipeline.spark_job import divide
from calve.record.content_file import Bounds, ContentFile, Counts
from calve.record.receipt import Failure, ReadCounts, Receipt
from calve.record.staged import StagedBatch
from calve.record.written import StagedFiles
from calve.sources.source import Planned, Split

TASKS = 400
"""100 executors with four cores."""
COLUMNS = 20
COMMITS_AT_ONCE = 8
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": n, "name": f"c{n}", "required": False, "type": "long"} for n in range(1, COLUMNS + 1)],
}
_REPORTS = structs.decoder(Receipt | Failure)  # type: ignore[arg-type]


def main() -> None:
    """Measure each step some times, and report the medians."""
    chosen = _arguments()
    engine = session.start("local[2]", {})
    try:
        with tempfile.TemporaryDirectory(prefix="calve-bench-") as place:
            rounds = [_round(Path(place) / str(number), engine, chosen) for number in range(chosen.rounds)]
    finally:
        session.stop(engine)
    results = {name: [each[name] for each in rounds] for name in rounds[0]}
    Report("driver", "The driver alone").bars(results, "CPU µs each")
    for name, found in medians(results).items():
        print(f"{name}: {found['CPU µs each']:,.0f} µs of CPU each; all took {found['ms']:,.0f} ms")


def _round(folder: Path, engine: Engine, chosen: argparse.Namespace) -> dict[str, Figures]:
    folder.mkdir()
    catalog = Catalog(engine, embedded(folder))
    catalog.prepare()
    ledger = Ledger.open(folder / "state" / "p" / "ledger", "p")
    found: dict[str, Figures] = {}
    planned = Planned(
        [Split({"topic": "t", "partition": n, "from": n, "to": n + 1000}, 200_000 + n) for n in range(chosen.splits)]
    )
    try:
        found["a split: divide over the tasks"] = _timed(chosen.splits, lambda: divide(planned.splits, TASKS))
        found["a split: record the batch"] = _timed(chosen.splits, lambda: ledger.begin(1, planned))
        reports = [msgspec.json.encode(_receipt(folder, task, chosen.files // TASKS)) for task in range(TASKS)]
        receipts: list[Receipt] = []
        found["a receipt: read"] = _timed(TASKS, lambda: receipts.extend(map(_REPORTS.decode, reports)))
        record = StagedBatch.of(1, planned, receipts, time.time(), 1.0)
        found["a file: stage"] = _timed(chosen.files, lambda: ledger.stage(1, record))
    finally:
        ledger.close()
    files = [file for entry in record.tables for file in entry.files]
    catalog.create("db.one", json.dumps(SCHEMA))
    append(catalog, CommitTarget("db.one"), Mark("p", "s", 1), {1: files[:1]})  # compiles
    found["a file: commit"] = _timed(
        len(files), lambda: append(catalog, CommitTarget("db.one"), Mark("p", "s", 2), {2: files})
    )
    for number in range(chosen.tables):
        catalog.create(f"db.t{number}", json.dumps(SCHEMA))

    def commit(number: int) -> None:
        append(catalog, CommitTarget(f"db.t{number}"), Mark("p", "s", 1), {1: files[:1]})

    with ThreadPoolExecutor(COMMITS_AT_ONCE) as pool:
        found["a table: commit"] = _timed(chosen.tables, lambda: list(pool.map(commit, range(chosen.tables))))
    return found


def _timed(count: int, action: Callable[[], object]) -> Figures:
    began, used = time.monotonic(), time.process_time() + CPU.seconds()
    action()
    cpu = time.process_time() + CPU.seconds() - used
    return {"CPU µs each": cpu / count * 1e6, "ms": (time.monotonic() - began) * 1e3}


def _receipt(folder: Path, task: int, files: int) -> Receipt:
    made = [_file(folder, task, number) for number in range(files)]
    written = StagedFiles("", "db.one", "", made, rows=1000 * files, bytes=100_000 * files)
    return Receipt(tables=[written], seen=ReadCounts(events=1000 * files), is_first=True, task=task)


def _file(folder: Path, task: int, number: int) -> ContentFile:
    """A file with statistics of each column, as Calve writes them."""
    keys = list(range(1, COLUMNS + 1))
    counts = Counts(keys, [1000] * COLUMNS)
    bounds = Bounds(keys, ["0100000000000000"] * COLUMNS)
    return ContentFile(
        spec_id=0, content="DATA", file_path=f"{folder}/db/one/data/p-00000001-{task:05}-{number:05}.parquet",
        file_format="PARQUET", partition=[], file_size_in_bytes=100_000, record_count=1000, column_sizes=counts,
        value_counts=counts, null_value_counts=Counts(keys, [0] * COLUMNS), lower_bounds=bounds, upper_bounds=bounds,
    )  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
