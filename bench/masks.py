"""Masks of three columns, and five cheap processors, on the changes of a PostgreSQL table, beside none.

    make bench-masks BENCH=5

Inserts, updates and deletes of nine columns are read from messages as the server sends them, and written by their key.
Runs the executors' path as it is (read, mask, process, convert, write), in one process, without Spark and without a
commit; all take turns. Medians of CPU microseconds a change, and their ratio.
"""

from __future__ import annotations

import json
import random
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from calve.dead_letters.rejects import DeadLetterLocation
from calve.event.columns import OPERATION
from calve.expression import compile_format
from calve.pipeline.masking import masks_of, without_masks
from calve.pipeline.plugins import PLUGINS
from calve.pipeline.row_changes import changed_table
from calve.processors.chain import compiled
from calve.record.receipt import Receipt
from calve.route.sink_route import SinkRoute
from calve.settings import parse_text
from calve.sinks.iceberg.job import TableJob
from calve.sources.database.changes import Changes
from calve.sources.database.stream_position import Transaction
from calve.sources.database.table import Column, DatabaseTable
from calve.sources.postgres.protocol import pgoutput
from calve.sources.postgres.reader import PostgresReader
from calve.sources.postgres.settings import PostgresSettings
from calve.sources.source import Split
from calve.table.loaded import Table
from calve.task.job import Job
from calve.task.task import run_task

CHANGES, ROWS = 300_000, 30_000
KINDS = {
    "id": "long", "email": "string", "card": "string", "born": "date", "salary": "decimal(10, 2)", "name": "string",
    "note": "string", "visits": "int", "changed": "timestamptz",
}  # fmt: skip
COLUMNS = tuple(
    Column(name, number, kind, kind, 25, -1, is_key=number == 1)
    for number, (name, kind) in enumerate(KINDS.items(), start=1)
)
SHOP = DatabaseTable("d", 7, "public", "people", COLUMNS)


def mask(**actions: str) -> dict[str, Any]:
    """Return a mask of some columns."""
    columns = [{"names": [name], "action": action} for name, action in actions.items()]
    return {"mask": {"key": "0123456789abcdef", "columns": columns}}


WAYS: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "a hash, a format, a year": [mask(email="hash", card="format", born="year")],
    "three hashes": [mask(email="hash", card="hash", name="hash")],
    "five cheap": [
        {"add_entries": {"entries": [{"key": "env", "value": "prod"}]}},
        {"rename_keys": {"entries": [{"from_key": "name", "to_key": "full_name"}]}},
        {"delete_entries": {"with_keys": ["note"]}},
        {"lowercase_string": {"with_keys": ["email"]}},
        {"convert_type": {"key": "visits", "type": "long"}},
    ],
}


@dataclass(frozen=True)
class Messages(PostgresReader):
    """Reads messages that are there, instead of those of a log."""

    messages: pa.Array = None

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the changes."""
        for start in range(0, CHANGES, ROWS):
            changes, part = Changes(SHOP), self.messages.slice(start, ROWS)
            changes.add(part, [Transaction(1, start + 1, 0)], np.zeros(len(part), np.int64))
            yield from self._of_changes(changes, Split({"until": 0}))


def messages() -> pa.Array:
    """Make the messages: of four changes two are inserts, one an update, and one a delete."""
    rnd = random.Random(1)

    def row(key: int) -> list[bytes | None]:
        born = f"19{rnd.randrange(60, 99)}-0{rnd.randrange(1, 9)}-1{rnd.randrange(9)}"
        texts = f"user{rnd.randrange(10**9)}@example.com", rnd.randrange(10**15, 10**16), born
        salary, name = f"{rnd.randrange(10**8) / 100:.2f}", f"Person {rnd.randrange(10**6)}"
        changed = f"2026-11-28 01:02:03.{rnd.randrange(10**6):06}+00"
        values = key, *texts, salary, name, "called twice, no answer", rnd.randrange(1000), changed
        return [str(value).encode() for value in values]

    def message(number: int) -> bytes:
        head = struct.pack(">I", SHOP.oid)
        if number % 4 == 3:
            key = str(number - 1).encode()
            return b"D" + head + b"K" + pgoutput.packed([key, *[None] * (len(COLUMNS) - 1)])
        return (b"IIU"[number % 4 : number % 4 + 1]) + head + b"N" + pgoutput.packed(row(number - number % 4 // 2))

    return pa.array([message(number) for number in range(CHANGES)], pa.binary())


def microseconds(way: str, made: pa.Array, folder: str) -> float:
    """Run one task; return its CPU time per change."""
    pipeline = {"source": {"http": {}}, "sink": [{"iceberg": {"table_identifier": "x.y"}}], "processor": WAYS[way]}
    [settings] = parse_text(json.dumps({"bench": pipeline}), PLUGINS).pipelines
    masks, processors = masks_of(settings), compiled(without_masks(settings.processors), ())
    target = changed_table(SHOP.source_table(), masks, processors and processors.effects)
    table = Table("x.people", "u", folder, target.schema_json, '{"spec-id":0,"fields":[]}')
    sink = TableJob(
        "iceberg",
        SinkRoute(compile_format(table.identifier)),
        DeadLetterLocation(table.location),
        "c",
        {table.identifier: table},
        changes=True,
        identifier_columns=("id",),
    )
    source = PostgresSettings(host="h", database="d", username="u", password="p")
    reader = Messages(source, folder, "bench", frozenset((OPERATION,)), made)
    start = time.process_time()
    job = Job("bench", way, reader, (sink,), max_open_writers=4, masks=masks, processors=processors)
    receipt = run_task(job, [Split({})], 0)
    used = time.process_time() - start
    assert isinstance(receipt, Receipt), receipt
    print(f"  {way}: {used / CHANGES * 1e6:.2f}", {step: round(each, 2) for step, each in receipt.seconds.items()})
    return used / CHANGES * 1e6


def main(rounds: int) -> None:
    """Measure."""
    made = messages()
    figures: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for way in [*WAYS][:: -1 if number % 2 else 1]:
                figures[way].append(microseconds(way, made, f"{folder}/{number}-{len(way)}"))
    medians = {way: statistics.median(found) for way, found in figures.items()}
    for way, median in medians.items():
        print(f"{way:26} {median:5.2f} µs a change   {median / medians['none']:4.2f}x")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
