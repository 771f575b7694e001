"""Events of ten fields into one table, with `deduplicate` beside without: all new, a third duplicates, a million known.

Run: make bench-deduplicate BENCH=5 (rounds). Runs the executors' path as it is (read, process, convert, write, and the
file of keys), in one process, without Spark and without a commit; all take turns. Medians of CPU microseconds an event,
and of their ratios to the task without in the same round.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from bench.processors import EVENTS, WAYS, event, processors, table
from calve.dead_letters.rejects import DeadLetterLocation
from calve.expression import compile_format
from calve.processors.key_filter import KEY_BYTES
from calve.record.key_file import KeyFile
from calve.record.receipt import Receipt
from calve.route.sink_route import SinkRoute
from calve.sinks.iceberg.job import TableJob
from calve.sources.file.codec import FilePart
from calve.sources.file.reader import FileReader
from calve.sources.file.settings import FileSettings
from calve.sources.source import Split
from calve.state.local_folder import LocalFolder
from calve.task.job import Job
from calve.task.task import run_task

KNOWN = 1_000_000
NOW = 17_700_000_000
DEDUPLICATE = "deduplicate"
CASES = {
    "none": ("none", 1, 0),
    "all are new": (DEDUPLICATE, 1, 0),
    "all are new, a million known": (DEDUPLICATE, 1, KNOWN),
    "a third are duplicates": (DEDUPLICATE, 1.5, 0),
}
"""Of each case the processors, how many events a key has, and how many keys are remembered."""
WAYS[DEDUPLICATE] = [{"deduplicate": {"keys": ["id"]}}]


def events_file(path: Path, per_key: float) -> Split:
    """Write the events in a random order; return their split."""
    chance = random.Random(1)
    lines = [json.dumps({**event(number), "id": int(number / per_key)}) + "\n" for number in range(EVENTS)]
    chance.shuffle(lines)
    path.write_text("".join(lines))
    size = path.stat().st_size
    return Split(asdict(FilePart(str(path), 0, size, size, 0)))


def known_keys(folder: LocalFolder, count: int) -> tuple[KeyFile, ...]:
    """Write a file with the keys of events that are not read."""
    folder.path.mkdir()
    if not count:
        return ()
    keys = np.sort(np.frombuffer(random.Random(2).randbytes(count * KEY_BYTES), f"S{KEY_BYTES}"))
    folder.put("known", keys.tobytes() + np.full(count, NOW - 1, "<i8").tobytes())
    return (KeyFile("known", count, NOW - 1),)


def microseconds(case: str, split: Split, folder: str) -> float:
    """Run one task; return its CPU time per event."""
    way, per_key, known = CASES[case]
    compiled, target = processors(way), table(way, folder)
    memory = compiled.memory if compiled else None
    if memory:
        seen = LocalFolder(Path(f"{folder}-seen"))
        memory = replace(memory, folder=seen, files=known_keys(seen, known))
    sink = TableJob(
        "iceberg",
        SinkRoute(compile_format(target.identifier)),
        DeadLetterLocation(target.location),
        "c",
        {target.identifier: target},
        evolves=True,
    )
    reader = FileReader(FileSettings(path=split.body["path"]))
    job = Job("bench", case.replace(",", "").replace(" ", "-"), reader, (sink,), 4, time_tenths=NOW)
    start = time.process_time()
    receipt = run_task(replace(job, processors=compiled, memory=memory), [split], 0)
    used = time.process_time() - start
    assert isinstance(receipt, Receipt), receipt
    assert sum(files.rows for files in receipt.tables) == len({int(number / per_key) for number in range(EVENTS)})
    seconds = {step: round(seconds, 2) for step, seconds in receipt.seconds.items()}
    print(f"  {case}: {used / EVENTS * 1e6:.2f}", seconds)
    return used / EVENTS * 1e6


def main(rounds: int) -> None:
    """Measure."""
    figures: dict[str, list[float]] = {case: [] for case in CASES}
    with tempfile.TemporaryDirectory() as folder:
        splits = {per_key: events_file(Path(folder, f"{per_key}.ndjson"), per_key) for _, per_key, _ in CASES.values()}
        for number in range(rounds):
            for case in [*CASES][:: -1 if number % 2 else 1]:
                used = microseconds(case, splits[CASES[case][1]], f"{folder}/{number}-{len(case)}")
                figures[case].append(used)
    for case, each in figures.items():
        ratio = statistics.median(used / none for used, none in zip(each, figures["none"], strict=True))
        print(f"{case:29} {statistics.median(each):5.2f} µs an event   {ratio:4.2f}x")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
