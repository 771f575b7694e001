"""Masks of three columns, and five cheap processors, on changes of a table, beside none: PostgreSQL's and Debezium's.

    make bench-masks BENCH=5

Inserts, updates and deletes of nine columns are read from messages as the server sends them, or from Debezium's JSON,
and written by their key. Runs the executors' path as it is (read, mask, process, convert, write), in one process,
without Spark and without a commit; all take turns. Medians of CPU microseconds a change, and of their ratios to the
task without in the same round.
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
from calve.event.columns import EVENT, OPERATION
from calve.event.envelope.decoder import Envelopes as DebeziumEnvelopes
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
from calve.sources.source import Reader, Split
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


@dataclass(frozen=True)
class Envelopes:
    """Reads envelopes that are there, instead of those of a topic."""

    envelopes: pa.Array

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the envelopes."""
        for start in range(0, CHANGES, ROWS):
            yield pa.record_batch({EVENT: self.envelopes.slice(start, ROWS)})


def rows() -> Iterator[tuple[int, list[str] | None]]:
    """Yield the key of each change, and its row: of four changes two are inserts, one an update, and one a delete."""
    rnd = random.Random(1)
    for number in range(CHANGES):
        if number % 4 == 3:
            yield number - 1, None
            continue
        born = f"19{rnd.randrange(60, 99)}-0{rnd.randrange(1, 9)}-1{rnd.randrange(9)}"
        texts = f"user{rnd.randrange(10**9)}@example.com", rnd.randrange(10**15, 10**16), born
        salary, name = f"{rnd.randrange(10**8) / 100:.2f}", f"Person {rnd.randrange(10**6)}"
        changed = f"2026-11-28 01:02:03.{rnd.randrange(10**6):06}+00"
        key = number - number % 4 // 2
        values = key, *texts, salary, name, "called twice, no answer", rnd.randrange(1000), changed
        yield key, [str(value) for value in values]


def message(number: int, key: int, row: list[str] | None) -> bytes:
    """Return a change as PostgreSQL sends it."""
    head = struct.pack(">I", SHOP.oid)
    if row is None:
        return b"D" + head + b"K" + pgoutput.packed([str(key).encode(), *[None] * (len(COLUMNS) - 1)])
    return b"IIU"[number % 4 : number % 4 + 1] + head + b"N" + pgoutput.packed([text.encode() for text in row])


def envelope(number: int, key: int, row: list[str] | None) -> bytes:
    """Return a change as Debezium tells it."""
    fields = {"id": str(key)} if row is None else dict(zip(KINDS, row, strict=True))
    body = {name: int(text) if KINDS[name] in ("long", "int") else text for name, text in fields.items()}
    source = {
        "version": "3.0.0.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": 1767225600000,
        "lsn": number,
    }
    images = {"before": body if row is None else None, "after": None if row is None else body}
    about = {**source, "lsn": number, "db": "d", "schema": "public", "table": "people"}
    return json.dumps(
        {**images, "source": about, "op": "ccud"[number % 4], "ts_ms": 1767225600123}, separators=(",", ":")
    ).encode()


def readers(folder: str) -> dict[str, Reader]:
    """Make the changes; return who reads them, by stream."""
    changes = [(number, *change) for number, change in enumerate(rows())]
    source = PostgresSettings(host="h", database="d", username="u", password="p")
    messages = pa.array([message(*change) for change in changes], pa.binary())
    return {
        "postgres": Messages(source, folder, "bench", frozenset((OPERATION,)), messages),
        "debezium": Envelopes(pa.array([envelope(*change) for change in changes], pa.binary())),
    }


def microseconds(stream: str, way: str, reader: Reader, folder: str) -> float:
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
    envelopes = None if stream == "postgres" else DebeziumEnvelopes(stream)
    start = time.process_time()
    steps = {"envelopes": envelopes, "masks": masks, "processors": processors}
    receipt = run_task(Job("bench", f"{stream}-{way}", reader, (sink,), max_open_writers=4, **steps), [Split({})], 0)
    used = time.process_time() - start
    assert isinstance(receipt, Receipt), receipt
    assert receipt.seen.events == CHANGES
    assert not receipt.rejects, receipt.rejects
    seconds = {step: round(seconds, 2) for step, seconds in receipt.seconds.items()}
    print(f"  {stream}, {way}: {used / CHANGES * 1e6:.2f}", seconds)
    return used / CHANGES * 1e6


def main(rounds: int) -> None:
    """Measure."""
    with tempfile.TemporaryDirectory() as folder:
        by_stream = readers(folder)
        figures: dict[tuple[str, str], list[float]] = {(stream, way): [] for stream in by_stream for way in WAYS}
        for number in range(rounds):
            for stream, way in [*figures][:: -1 if number % 2 else 1]:
                used = microseconds(stream, way, by_stream[stream], f"{folder}/{number}-{stream}-{len(way)}")
                figures[stream, way].append(used)
    for (stream, way), each in figures.items():
        ratio = statistics.median(used / none for used, none in zip(each, figures[stream, "none"], strict=True))
        print(f"{stream:8} {way:26} {statistics.median(each):5.2f} µs a change   {ratio:4.2f}x")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
