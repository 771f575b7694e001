"""A day of commits every 5 s, with maintenance and without: files, metadata, commit, planning and read time.

    make bench-healthy                               # a tenth of the day: 1,728 commits
    make bench-healthy BENCH="--commits 17280 --only on"
    make bench-healthy BENCH="--beside --batches 400"  # what ingestion loses, in pairs of runs
    make bench-healthy BENCH="--rewrites 4"            # what a round costs

The commits are Calve's own, one data file each, as fast as they go; the clock of the maintenance sees 5 s for each.
Its ages (`quiet`, `least_age`) are scaled by `--commit-seconds`, because Iceberg's snapshots have the real time. A
round runs between two commits, so its own time is not in theirs; `--beside` measures what it costs a running pipeline.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from bench.healthy_beside import beside
from bench.healthy_rewrite import rewrites
from bench.measure import CPU, Figures, parser, shown
from bench.report import Report
from calve.catalog.catalog import Catalog, embedded
from calve.commit.fence import append
from calve.commit.mark import CommitTarget, Mark
from calve.engine import session
from calve.engine.engine import Engine
from calve.maintenance.by_need import BOUNDS_METADATA, Rounds
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.trigger import Trigger
from calve.record.content_file import ContentFile
from calve.table.limits import DEFAULTS, MaintenanceLimits
from calve.write.writer import Writers

EVERY_SECONDS = 5.0
REWRITTEN_ROWS = 20_000
"""Of a file with `--rewrites`, as in `--beside`."""
POINTS = 12
BEGIN_MICROSECONDS = 1_795_392_000_000_000
STATE = "0123abcd-0000-4000-8000-000000000000"
FIELDS = {"id": "long", "at": "timestamptz", "country": "string", "amount": "double", "note": "string"}


class Day:
    """A table that gets a commit every 5 s of its own clock.

    Args:
        engine: Spark.
        folder: Gets the catalog and the table.
        limits: When it is maintained; None: never.
        rows: The rows of a commit.
    """

    def __init__(self, engine: Engine, folder: Path, limits: MaintenanceLimits | None, rows: int) -> None:
        fields = [
            {"id": number, "name": name, "required": False, "type": kind}
            for number, (name, kind) in enumerate(FIELDS.items(), 1)
        ]
        schema = {"type": "struct", "schema-id": 0, "fields": fields}
        self.catalog = Catalog(engine, embedded(folder))
        # Without maintenance the files of the metadata would fill the disk; their size is measured all the same.
        self.catalog.create("bench.t", json.dumps(schema), [("at", "hour")], {BOUNDS_METADATA: "true"})
        self.spark, self.rows, self.batch = engine.session, rows, 0
        self.bench = MaintenanceContext(engine, self.catalog, CommitTarget("bench.t"), gentle=True)
        self._trigger = Trigger(DEFAULTS) if limits else None
        self._rounds = Rounds(self.bench, limits) if limits else None
        self.worked, self.rounds = 0.0, 0

    def commit(self) -> float:
        """Write a file and commit it; return the seconds of the commit alone."""
        self.batch += 1
        files = self._write()
        began = time.perf_counter()
        mark = Mark("p", STATE, self.batch)
        outcome = append(self.catalog, CommitTarget("bench.t"), mark, {self.batch: files}, {"calve.offsets": OFFSETS})
        seconds = time.perf_counter() - began
        if self._trigger and self._rounds and outcome.held:
            now = self.batch * EVERY_SECONDS
            self._trigger.committed(outcome.files, outcome.held.data_files, now)
            if self._trigger.is_due(now):
                round = self._rounds.run()
                self._trigger.ran(round, 2, now)
                self.worked, self.rounds = self.worked + round.seconds, self.rounds + bool(round.done)
        return seconds

    def _write(self) -> list[ContentFile]:
        table = self.catalog.load("bench.t") if self.batch == 1 else self._table
        assert table
        self._table = table
        first, at = self.batch * self.rows, BEGIN_MICROSECONDS + int(self.batch * EVERY_SECONDS * 1e6)
        numbers = range(first, first + self.rows)
        columns = {
            "id": pa.array(numbers, pa.int64()),
            "at": pa.array([at] * self.rows, pa.timestamp("us", "UTC")),
            "country": pa.array([("DE", "FR", "US")[one % 3] for one in numbers], pa.large_string()),
            "amount": pa.array([one * 7919 % 100_000 / 100 for one in numbers], pa.float64()),
            "note": pa.array([f"{one * 2654435761 % (1 << 64):016x}" for one in numbers], pa.large_string()),
        }
        writers = Writers(f"p-{STATE[:8]}-{self.batch:08d}-abcdef-0-00000-0", 10)
        writers.write("rows", table, {}, pa.table(columns))
        return [
            msgspec.json.decode(file, type=ContentFile)
            for written in writers.close().values()
            for file in written.files
        ]

    def look(self, commits: list[float]) -> Figures:
        """Return what the table is now; `commits`: the seconds of the last ones."""
        java = self.catalog.load_java("bench.t")
        snapshot = java.currentSnapshot()
        found = self.bench.count()
        metadata = Path(java.operations().current().metadataFileLocation().removeprefix("file:"))
        plan = min(self._plan(java) for _ in range(3))
        read = min(self._read() for _ in range(2))
        return {
            "commits": float(self.batch),
            "data files": float(found.data_files),
            "manifests": float(len(list(snapshot.dataManifests(java.io())))),
            "snapshots": float(found.snapshots),
            "metadata kB": metadata.stat().st_size / 1e3,
            "commit ms": statistics.median(commits) * 1e3,
            "plan ms": plan * 1e3,
            "read ms/M rows": read * 1e9 / (self.batch * self.rows),
            "maintenance s": self.worked,
        }

    def _plan(self, java: Any) -> float:
        began = time.perf_counter()
        tasks = java.newScan().planFiles()
        count = self.bench.jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables.size(tasks)
        tasks.close()
        assert count
        return time.perf_counter() - began

    def _read(self) -> float:
        began = time.perf_counter()
        total = self.spark.sql("select count(*), sum(id) from lakehouse.bench.t where amount >= 0").collect()[0]
        first, last = self.rows, (self.batch + 1) * self.rows
        assert tuple(total) == (last - first, (first + last - 1) * (last - first) // 2), total
        return time.perf_counter() - began


OFFSETS = json.dumps({"topic": {str(partition): 10_000_000 + partition for partition in range(8)}})


@contextmanager
def spark_at(folder: Path) -> Iterator[Engine]:
    """Start Spark as a pipeline does, with the embedded catalog of a folder for SQL."""
    prefix = "spark.sql.catalog.lakehouse"
    conf = {f"{prefix}.{key}": value for key, value in embedded(folder).items() if key != "name"}
    conf |= {prefix: "org.apache.iceberg.spark.SparkCatalog", f"{prefix}.cache-enabled": "false"}
    engine = session.start("local[2]", conf)
    try:
        yield engine
    finally:
        session.stop(engine)


@contextmanager
def opened(folder: Path) -> Iterator[Day]:
    """Open an empty table that nobody maintains, in a Spark of its own."""
    with spark_at(folder) as engine:
        yield Day(engine, folder, None, REWRITTEN_ROWS)


def simulate(limits: MaintenanceLimits | None, chosen: argparse.Namespace) -> list[Figures]:
    """Make the commits; return the figures along the way."""
    points = []
    temporary = tempfile.TemporaryDirectory(prefix="calve-healthy-", dir=chosen.folder)
    with temporary as place, spark_at(Path(place)) as engine:
        day = Day(engine, Path(place), limits, chosen.rows)
        seconds: list[float] = []
        used = _cpu()
        for number in range(1, chosen.commits + 1):
            seconds.append(day.commit())
            if number % max(chosen.commits // POINTS, 1) == 0:
                cpu = {"CPU ms per commit, with rounds": (_cpu() - used) * 1e3 / len(seconds)}
                points.append(day.look(seconds) | cpu)
                print(", ".join(f"{shown(value)} {key}" for key, value in points[-1].items()), flush=True)
                seconds, used = [], _cpu()
    return points


def _cpu() -> float:
    """Return the CPU seconds of this process and of its descendants, so far."""
    return CPU.seconds() + time.process_time()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--commits", type=int, default=1_728, help="how many; a day has 17,280 (default 1,728)")
    options.add_argument("--rows", type=int, default=1_000, help="of a commit (default 1,000)")
    options.add_argument("--only", choices=("on", "off"), help="with maintenance, or without")
    options.add_argument("--commit-seconds", type=float, default=0.06, help="real time of 5 s of the day")
    options.add_argument("--folder", help="where the tables are made")
    options.add_argument("--beside", action="store_true", help="measure running pipelines instead")
    options.add_argument("--batches", type=int, default=400, help="of each run with --beside (default 400)")
    options.add_argument("--rounds", type=int, default=2, help="pairs of runs with --beside")
    options.add_argument("--rewrites", type=int, default=0, metavar="ROUNDS", help="measure rounds of rewrites instead")
    chosen = options.parse_args()
    if chosen.rewrites:
        rewrites(opened, chosen.rewrites, chosen.folder)
        return
    if chosen.beside:
        beside(chosen.rounds, chosen.batches)
        return
    scale = chosen.commit_seconds / EVERY_SECONDS
    limits = replace(DEFAULTS, quiet=DEFAULTS.quiet * scale, least_age=DEFAULTS.least_age * scale, orphans=False)
    sides = {"on": limits, "off": None}
    report = Report("healthy", f"{chosen.commits} commits, maintenance on and off")
    rows: dict[str, Figures] = {}
    curves: dict[str, list[tuple[float, float]]] = {}
    for side in [chosen.only] if chosen.only else sides:
        found = simulate(sides[side], chosen)
        rows |= {f"{side}, at {int(one['commits']):,}": one for one in found[:: max(len(found) // 6, 1)] + found[-1:]}
        for key in ("data files", "metadata kB", "commit ms", "read ms/M rows"):
            curves[f"{side}: {key}"] = [(one["commits"], one[key]) for one in found]
    report.lines(rows, curves, "by number of commits")


if __name__ == "__main__":
    main()
