"""Parquet rows of ten mixed columns into a table of their types: with columns that stay typed, and by their text.

Rows are appended, or written by their key (`upsert`).

Run: python bench/typed_rows.py [rounds]. Runs the executors' path as it is (read, convert, write), in one process,
without Spark and without a commit; all take turns. Medians of CPU microseconds a row, and their ratio.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from calve.columns.infer import infer
from calve.dead_letters.rejects import DeadLetterLocation
from calve.event.typed import with_text
from calve.expression import compile_format
from calve.record.receipt import Receipt
from calve.route.sink_route import SinkRoute
from calve.sinks.iceberg.job import TableJob
from calve.sources.file.codec import FilePart
from calve.sources.file.reader import FileReader
from calve.sources.file.settings import FileSettings
from calve.sources.source import Reader, Split
from calve.table.loaded import Table
from calve.task.job import Job
from calve.task.task import run_task

ROWS = 500_000
WAYS: dict[str, dict[str, Any]] = {
    "appended": {},
    "by key": {"changes": True, "identifier_columns": ("id",), "upsert": True},
}


@dataclass(frozen=True)
class ByText:
    """Gives each row of another reader as its text."""

    reader: Reader

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield what the other reader yields."""
        for batch in self.reader.read(split):
            yield from with_text(pa.Table.from_batches([batch])).to_batches()


def rows() -> pa.Table:
    """Make the rows."""
    rnd = np.random.default_rng(1)
    cents = rnd.integers(0, 10**9, ROWS).tolist()
    micros = pa.array(rnd.integers(1_700_000_000_000_000, 1_800_000_000_000_000, ROWS))
    return pa.table(
        {
            "id": np.arange(ROWS),
            "user_id": rnd.integers(0, 10**9, ROWS, dtype=np.int32),
            "kind": pa.array(["click", "view", "buy", None]).take(pa.array(rnd.integers(0, 4, ROWS))),
            "at": micros.cast(pa.timestamp("us", "UTC")),
            "amount": rnd.random(ROWS) * 1000,
            "price": pa.array([Decimal(cent).scaleb(-2) for cent in cents], pa.decimal128(12, 2)),
            "ok": rnd.random(ROWS) < 0.5,
            "url": [f"/a/b/{number}" for number in rnd.integers(0, 10**6, ROWS)],
            "day": pa.array(rnd.integers(18_000, 20_000, ROWS, dtype=np.int32)).cast(pa.date32()),
            "tags": pa.array([[f"t{number % 7}"] * (number % 3) for number in range(ROWS)], pa.list_(pa.string())),
        }
    )


def main(rounds: int) -> None:
    """Measure."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "rows.parquet")
        parquet.write_table(rows(), file)
        size = file.stat().st_size
        split = Split(asdict(FilePart(str(file), 0, size, size, 0)))
        typed = FileReader(FileSettings(path=[str(file)]))
        schema = infer(pa.Table.from_batches([next(typed.read(split))])).to_schema()
        table = Table("x.typed", "u", folder, schema.model_dump_json(), '{"spec-id":0,"fields":[]}')
        readers: dict[str, Reader] = {"typed": typed, "text": ByText(typed)}
        figures: dict[tuple[str, str], list[float]] = {(how, name): [] for how in WAYS for name in readers}
        for number in range(rounds):
            for how, name in figures:
                found = microseconds(readers[name], table, split, f"{how}-{name}{number}", WAYS[how])
                figures[how, name].append(found)
    medians = {name: statistics.median(found) for name, found in figures.items()}
    for (how, name), median in medians.items():
        print(f"{how:8} {name:6} {median:5.2f} µs a row   {median / medians[how, 'text']:4.2f}x")


def microseconds(reader: Reader, table: Table, split: Split, name: str, options: dict[str, Any]) -> float:
    """Run one task; return its CPU time per row."""
    route = SinkRoute(compile_format(table.identifier))
    tables, letters = {table.identifier: table}, DeadLetterLocation(table.location)
    sink = TableJob("iceberg", route, letters, "c", tables, evolves=True, **options)
    start = time.process_time()
    receipt = run_task(Job("bench", name, reader, (sink,), max_open_writers=4), [split], 0)
    used = time.process_time() - start
    assert isinstance(receipt, Receipt), receipt
    assert sum(one.rows for one in receipt.tables) == ROWS
    print(f"  {name}: {used / ROWS * 1e6:.2f}", {step: round(each, 2) for step, each in receipt.seconds.items()})
    return used / ROWS * 1e6


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
