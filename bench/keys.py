"""Commits that find older rows by the key index, in tables of some sizes: the first, which builds it, and later ones.

    make bench-keys BENCH="--rows 2000000 10000000"

A table gets rows in files of 250,000; then commits of `--events` updates of random keys, without a pipeline around
them, so seconds and CPU are those of the commit alone. Memory is what the process (Python's, with the core) needs more
at most than before, by the kernel's count. In the end PyIceberg compares the table with the model.
"""

from __future__ import annotations

import resource
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from pyiceberg.table import StaticTable

from bench.healthy import spark_at
from bench.measure import CPU, Figures, parser, shown
from bench.report import Report
from calve.arrays import RowNumbers
from calve.catalog.catalog import Catalog, embedded
from calve.commit.branch_keys import LOCAL_ROWS, BranchKeys
from calve.commit.fence import append
from calve.commit.index_folder import IndexFolder
from calve.commit.mark import CommitTarget, Mark
from calve.engine.engine import Engine
from calve.observe.log import Log
from calve.record.content_file import ContentFile
from calve.record.target import RowStream
from calve.reduce.key import Key, identified
from calve.state.local_folder import LocalFolder
from calve.table.arrow_schema import arrow_schema
from calve.table.definition import schema_from_columns
from calve.write.writer import Writers

FILE_ROWS = 250_000
COMMITS = 20
NAME = "bench.rows"
_FLAT = ("commit s", "commit CPU s")
STATE = "0123abcd-0000-4000-8000-000000000000"
PROPERTIES = {"format-version": "3", "write.metadata.delete-after-commit.enabled": "true"}
COLUMNS: list[dict[str, Any]] = [
    {"name": "id", "type": "long", "required": True},
    {"name": "n", "type": "long"},
    {"name": "note", "type": "string"},
]


class Indexed:
    """A table with an index of its keys, which are scattered over its files.

    Args:
        engine: Spark.
        folder: Gets the catalog, the table and the index.
        rows: How many rows it begins with.
    """

    def __init__(self, engine: Engine, folder: Path, rows: int) -> None:
        self.catalog, self.folder = Catalog(engine, embedded(folder)), folder
        schema = identified(schema_from_columns(COLUMNS), ["id"])
        self.table = self.catalog.create(NAME, schema.model_dump_json(), (), PROPERTIES)
        self.key, self.batch, self.newest = Key(self.table), 0, np.zeros(rows, np.int32)
        self.keys = BranchKeys(IndexFolder(LocalFolder(folder / "state"), self.table.uuid, "main"), NAME, Log("bench"))
        ids = np.random.default_rng(7).permutation(np.arange(rows, dtype=np.int32))
        for start in range(0, rows, FILE_ROWS):
            self.commit(list(self.files(ids[start : start + FILE_ROWS], deletes=False)))

    def files(self, ids: RowNumbers, deletes: bool = True) -> Iterator[ContentFile]:
        """Write rows, and the deletes of their keys, as tasks do."""
        self.batch += 1
        self.newest[ids] = self.batch
        numbers, notes = pa.array(np.full(len(ids), self.batch)), pa.array([f"note {self.batch}"] * len(ids))
        rows = pa.table([pa.array(ids, pa.int64()), numbers, notes], arrow_schema(self.key.required.schema).names)
        writers = Writers(f"b-{self.batch:08d}", 2)
        writers.write(RowStream(0, ""), self.table, {}, rows.cast(arrow_schema(self.key.required.schema)))
        if deletes:
            keys = pa.table([pa.array(ids, pa.int64())], schema=self.key.arrow_schema)
            writers.write(RowStream(1, ""), self.key.deletes, {}, keys, self.key.ids)
        for written in writers.close().values():
            yield from (msgspec.json.decode(file, type=ContentFile) for file in written.files)

    def commit(self, files: list[ContentFile]) -> Figures:
        """Commit a batch; return what that takes."""
        began, used = time.perf_counter(), CPU.seconds() + time.process_time()
        target = CommitTarget(NAME, write_mode="merge-on-read", keys=self.keys)
        append(self.catalog, target, Mark("bench", STATE, self.batch), {self.batch: files})
        return {"s": time.perf_counter() - began, "CPU s": CPU.seconds() + time.process_time() - used}

    def check(self) -> None:
        """Compare the table with the model.

        Raises:
            SystemExit: A row is missing, or there is an older one.
        """
        metadata = self.catalog.load_java(NAME).operations().current().metadataFileLocation()
        is_there, count = np.zeros(len(self.newest), bool), 0
        for rows in StaticTable.from_metadata(metadata).scan(selected_fields=("id", "n")).to_arrow_batch_reader():
            ids = rows["id"].to_numpy()
            is_there[ids] = rows["n"].to_numpy() == self.newest[ids]
            count += len(ids)
        if not is_there.all() or count != len(self.newest):
            raise SystemExit("wrong output: the table is not the model")


def measure(engine: Engine, folder: Path, rows: int, events: int) -> Figures:
    """Return the figures of one size."""
    indexed = Indexed(engine, folder, rows)
    random, commits = np.random.default_rng(8), []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(COMMITS + 1):
        commits.append(indexed.commit(list(indexed.files(random.choice(rows, events, replace=False)))))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    stats = indexed.keys.stats
    if not stats:
        raise SystemExit(f"no index: below {LOCAL_ROWS:,} rows commits scan the table")
    indexed.check()
    first, later = commits[0], commits[1:]
    return {
        "first commit s": first["s"],
        "first commit CPU s": first["CPU s"],
        "memory MB": memory / 1e3,
        "index MB": stats.size_bytes / 1e6,
        "commit s": statistics.median(one["s"] for one in later),
        "commit CPU s": statistics.median(one["CPU s"] for one in later),
    }


def main() -> None:
    options = parser(__doc__, events=10_000)
    options.add_argument("--rows", type=int, nargs="+", default=[LOCAL_ROWS, 5 * LOCAL_ROWS], help="sizes of tables")
    chosen = options.parse_args()
    report, lines = Report("keys", f"commits of {chosen.events:,} updates"), {}
    for rows in chosen.rows:  # each in a Spark of its own; memory counts what a smaller table did not need
        with tempfile.TemporaryDirectory(prefix="calve-index-") as place, spark_at(Path(place)) as engine:
            lines[f"{rows:,} rows"] = measure(engine, Path(place), rows, chosen.events)
            print(
                rows, ", ".join(f"{shown(value)} {key}" for key, value in lines[f"{rows:,} rows"].items()), flush=True
            )
    used = [line["commit CPU s"] for line in lines.values()]
    report.target("CPU of a commit, largest table to smallest", used[-1] / used[0], most=2)
    curves = {key: [(rows, line[key]) for rows, line in zip(chosen.rows, lines.values(), strict=True)] for key in _FLAT}
    report.lines(lines, curves, "by size")


if __name__ == "__main__":
    main()
