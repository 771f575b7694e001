"""NDJSON events into one table: a task without processors, with five cheap ones, with a condition, and with grok.

Events of files are checked before they are converted, unless processors do it; `none, and no check` is a task as from a
source whose events are not.

Run: make bench-processors BENCH=5 (rounds). Runs the executors' path as it is (read, process, convert, write), in one
process, without Spark and without a commit; all take turns. Medians of CPU microseconds an event, and their ratio.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from calve.columns.infer import infer
from calve.dead_letters.rejects import DeadLetterLocation
from calve.event.columns import EVENT, MALFORMED
from calve.expression import compile_format
from calve.pipeline.plugins import PLUGINS
from calve.processors.chain import Chain, Processors, compiled
from calve.record.receipt import Receipt
from calve.route.sink_route import SinkRoute
from calve.settings import parse_text
from calve.sinks.iceberg.job import TableJob
from calve.sources.file.codec import FilePart
from calve.sources.file.reader import FileReader
from calve.sources.file.settings import FileSettings
from calve.sources.source import Split
from calve.table.loaded import Table
from calve.task.job import Job
from calve.task.task import run_task

EVENTS = 300_000
FIVE = [
    {"add_entries": {"entries": [{"key": "env", "value": "prod"}]}},
    {"rename_keys": {"entries": [{"from_key": "host", "to_key": "hostname"}]}},
    {"delete_entries": {"with_keys": ["debug"]}},
    {"lowercase_string": {"with_keys": ["level"]}},
    {"convert_type": {"key": "status", "type": "integer"}},
]
GROK = {"grok": {"match": {"request": ["%{WORD:verb} %{NOTSPACE:path} HTTP/%{NUMBER:version}"]}}}
NESTED = [
    {"rename_keys": {"entries": [{"from_key": "user/country", "to_key": "user/land"}]}},
    {"date": {"match": [{"key": "at", "patterns": ["yyyy-MM-dd'T'HH:mm:ss.SSSX"]}], "destination": "time"}},
]
SQL = {"sql": {"fields": {"seconds": "double"}, "select": "SELECT seconds * 1000 AS millis FROM event"}}
WAYS: dict[str, list[dict[str, Any]]] = {
    "none": [],
    "none, and no check": [],
    "five cheap": FIVE,
    "a condition that is never true": [{"drop_events": {"drop_when": '/level == "TRACE"'}}],
    "grok": [GROK],
    "a nested key, and a date": NESTED,
    "sql": [SQL],
}


class Unchecked(FileReader):
    """Reads files as if no line could be broken."""

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the events without the reasons."""
        for batch in super().read(split):
            yield batch.drop_columns([MALFORMED])


def event(number: int) -> dict[str, Any]:
    """Make one event of ten fields."""
    return {
        "id": number,
        "at": f"2026-01-09T12:{number // 60 % 60:02}:{number % 60:02}.{number % 1000:03}Z",
        "level": ("INFO", "WARN", "ERROR")[number % 3],
        "host": f"web-{number % 50}.example.com",
        "status": str(200 + number % 300),
        "seconds": number % 977 / 100,
        "request": f"GET /items/{number % 5000}?page={number % 9} HTTP/1.1",
        "user": {"id": number % 100_000, "country": "NO"},
        "debug": number % 2 == 0,
        "bytes": number * 7 % 100_003,
    }


def processors(way: str) -> Processors | None:
    """Compile the processors of a way."""
    pipeline = {"source": {"http": {}}, "sink": [{"iceberg": {"table_identifier": "x.y"}}], "processor": WAYS[way]}
    [settings] = parse_text(json.dumps({"bench": pipeline}), PLUGINS).pipelines
    return compiled(settings.processors, ())


def main(rounds: int) -> None:
    """Measure."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "events.ndjson")
        file.write_text("".join(json.dumps(event(number)) + "\n" for number in range(EVENTS)))
        size = file.stat().st_size
        print(f"{EVENTS:,} events of {size / EVENTS:.0f} bytes")
        split = Split(asdict(FilePart(str(file), 0, size, size, 0)))
        figures: dict[str, list[float]] = {way: [] for way in WAYS}
        tables = {way: table(way, folder) for way in WAYS}
        for number in range(rounds):
            for way in [*WAYS][:: -1 if number % 2 else 1]:
                figures[way].append(
                    microseconds(way, tables[way], split, f"{number}-{way.replace(',', '').replace(' ', '-')}")
                )
    medians = {way: statistics.median(found) for way, found in figures.items()}
    for way, median in medians.items():
        print(f"{way:31} {median:5.2f} µs an event   {median / medians['none']:4.2f}x")


def table(way: str, folder: str) -> Table:
    """Return a table with the columns of the processed events."""
    some = pa.table({EVENT: pa.array([json.dumps(event(number)).encode() for number in range(100)], pa.binary())})
    chosen = processors(way)
    rows = Chain(chosen, 0).run(some).rows if chosen else some
    schema = infer(rows).to_schema()
    return Table("x.y", "u", f"{folder}/{way}", schema.model_dump_json(), '{"spec-id":0,"fields":[]}')


def microseconds(way: str, table: Table, split: Split, name: str) -> float:
    """Run one task; return its CPU time per event."""
    reader = (Unchecked if "no check" in way else FileReader)(FileSettings(path=split.body["path"]))
    route = SinkRoute(compile_format(table.identifier))
    letters = DeadLetterLocation(table.location)
    sink = TableJob("iceberg", route, letters, "c", {table.identifier: table}, evolves=True)
    job = Job("bench", name, reader, (sink,), max_open_writers=4, processors=processors(way))
    start = time.process_time()
    receipt = run_task(job, [split], 0)
    used = time.process_time() - start
    assert isinstance(receipt, Receipt), receipt
    assert sum(one.rows for one in receipt.tables) == EVENTS
    print(f"  {name}: {used / EVENTS * 1e6:.2f}", {step: round(each, 2) for step, each in receipt.seconds.items()})
    return used / EVENTS * 1e6


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
