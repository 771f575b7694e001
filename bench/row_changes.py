"""Kafka → Iceberg with updates and deletes: every write mode, what the table costs to read then, and Flink's upsert.

    python bench/row_changes.py [--changes 1000000] [--keys 500000] [--runs 3] [--flink FOLDER]
    python bench/row_changes.py --growth [--rows 10000000] [--batches 100]

Each run reads the whole topic (4 partitions, a key always in the same one) into a fresh lakehouse, in a process of its
own; the contenders take turns, and medians are compared. The table is compared with what the changes leave, and its
full read is timed in a plain Spark. CPU seconds are those of the run and the broker. `--flink` names a
Flink home, a folder with `lib/`: a distribution of 2.1, or `pyflink` of the PyPI package `apache-flink==2.1.3`.

`--growth` gives equal batches of changes to a table that is large already, and compares the first ones with the last.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from calve.engine import jars
from debezium_events import lives
from flink_upsert import flink_run
from own_cpu import OwnCpu
from running import Calve, until
from services.kafka import STEADY, Kafka

TOPIC = "changes"
PARTITIONS = 4
MODES = ("equality-delete", "merge-on-read", "copy-on-write")
YAML = """
bench:
  source:
    kafka:
      bootstrap_servers: ["{address}"]
      topics: [{{name: changes, serde_format: debezium}}]
  sink:
    - iceberg:
        table_identifier: bench.rows
        auto_create: true
        identifier_columns: [id]
        write_mode: {mode}
        commit_interval: 10s
        max_batch_bytes: {batch}
"""

GROWTH = """
bench:
  source: {{file: {{path: "*.ndjson"}}}}
  sink:
    - iceberg:
        table_identifier: bench.rows
        auto_create: true
        operation: ${{/op}}
        identifier_columns: [id]
        write_mode: {mode}
        exclude_keys: [op]
        flush_interval: 100ms
        commit_interval: 100ms
"""


class Changes:
    """Debezium envelopes of changes of few keys, and what they leave.

    Attributes:
        rows: By key, its row as JSON.
    """

    def __init__(self, count: int, keys: int) -> None:
        self.count = count
        self.rows: dict[int, str] = {}
        self._keys = keys

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Yield a key and its change."""
        for number, key, before, after in lives(self.count, self._keys, random.Random(7), row):
            word = "d" if after is None else "u" if before else "c"
            if after is None:
                del self.rows[key]
            else:
                self.rows[key] = after
            ends = f'"before":{before or "null"},"after":{after or "null"}'
            yield key, f'{{{ends},"op":"{word}","ts_ms":{1767225600000 + number}}}'.encode()

    def left(self) -> tuple[int, int]:
        """Give the number of rows that the changes leave, and the sum of their `n`."""
        return len(self.rows), sum(json.loads(text)["n"] for text in self.rows.values())


def row(key: int, number: int) -> str:
    """Give a row as JSON, about 150 bytes."""
    at = f"2026-03-{number % 18 + 10}T{number % 14 + 10}:00:00Z"
    return (
        f'{{"id":{key},"n":{number},"name":"customer {key % 1000}","amount":{number % 9973}.25,'
        f'"at":"{at}","note":"{"x" * (number % 40 + 20)}"}}'
    )


def produce(broker: Kafka, changes: Changes) -> None:
    """Fill the topic: a partition for each remainder of the key."""
    parts: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for key, value in changes:
        parts[key % PARTITIONS].append(value)
    for number, part in enumerate(parts):
        broker.produce(TOPIC, part, partitions=[number])


def calve_run(broker: Kafka, folder: Path, mode: str, batch: str, cpu: OwnCpu) -> dict[str, Any]:
    """Apply the topic with Calve; give seconds and CPU, start-up included."""
    calve = Calve(folder, YAML.format(address=broker.address, mode=mode, batch=batch))
    used, started = cpu.seconds(), time.monotonic()
    calve.start("--once", "--json", "--debug")
    code = calve.process.wait(3600) if calve.process else 1
    found = {"seconds": time.monotonic() - started, "cpu": cpu.seconds() - used}
    if code:
        raise SystemExit(calve.said()[-3000:])
    return found


def check(table: Path, changes: Changes) -> float:
    """Compare a table, by its folder, with what the changes leave; give the seconds of a full read, warm."""
    newest = max(table.glob("metadata/*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
    files = os.pathsep.join(map(str, jars.resolve(jars.needed())))
    script = Path(__file__).with_name("full_read.py")
    done = subprocess.run(
        [sys.executable, str(script), files, str(newest)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    found = json.loads(done.stdout.splitlines()[-1])
    if (found["rows"], found["total"]) != changes.left():
        raise SystemExit(f"{table}: {found['rows']} rows with {found['total']}, not {changes.left()}")
    return float(found["seconds"])


def maintained(folder: Path, *options: str) -> float:
    """Run `calve maintain` on the table of a run; give its seconds."""
    started = time.monotonic()
    command = [sys.executable, "-m", "calve", "maintain", "bench.rows", *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return time.monotonic() - started


def compare(chosen: argparse.Namespace) -> None:
    """Run every contender over the same topic."""
    changes = Changes(chosen.changes, chosen.keys)
    results: dict[str, list[dict[str, Any]]] = {}
    cpu = OwnCpu()
    with (
        tempfile.TemporaryDirectory(prefix="calve-bench-") as place,
        Kafka(Path(place) / "kafka", options=STEADY) as broker,
    ):
        broker.create_topic(TOPIC, partitions=PARTITIONS)
        produce(broker, changes)
        for number in range(chosen.runs):
            for mode in [mode for mode in MODES if chosen.only in (None, mode)]:
                folder = Path(place) / f"{mode}-{number}"
                found = calve_run(broker, folder, mode, chosen.batch, cpu)
                table = folder / "lakehouse" / "bench" / "rows"
                found["read"] = check(table, changes)
                if mode == MODES[0]:
                    maintained(folder, "--only", "convert")
                    found["converted"] = check(table, changes)
                    maintained(folder, "--only", "compact")
                    found["compacted"] = check(table, changes)
                told(results, mode, found, chosen.changes)
            if chosen.flink:
                folder = Path(place) / f"flink-{number}"
                found = flink_run(broker.address, TOPIC, chosen.flink, folder, cpu)
                found["read"] = check(folder / "lakehouse" / "bench" / "rows", changes)
                told(results, "flink", found, chosen.changes)
    for name, found in results.items():
        seconds = statistics.median(one["seconds"] for one in found)
        print(f"{name:16} median: {chosen.changes / seconds:,.0f} changes/s end to end, start-up included")


def told(results: dict[str, list[dict[str, Any]]], name: str, found: dict[str, Any], count: int) -> None:
    """Keep a result and print it."""
    results.setdefault(name, []).append(found)
    rate = f"{found['seconds']:6.2f} s, {count / found['seconds']:9,.0f} changes/s"
    reads = ", ".join(f"{what} {found[what]:.2f} s" for what in ("read", "converted", "compacted") if what in found)
    print(f"{name:16} {rate}, {found['cpu'] / count * 1e6:5.2f} CPU s per million changes; {reads}", flush=True)


def grow(chosen: argparse.Namespace) -> None:
    """Give equal batches of changes to a large table, one after another; compare the first ones with the last."""
    for mode in [mode for mode in MODES if chosen.only in (None, mode)]:
        chance = random.Random(7)
        with tempfile.TemporaryDirectory(prefix="calve-bench-") as place:
            calve = Calve(Path(place) / mode, GROWTH.format(mode=mode))
            with (calve.folder / "000000.ndjson").open("w") as file:
                file.writelines(row(key, key) + "\n" for key in range(chosen.rows))
            cpu = OwnCpu()
            calve.start()
            committed(calve, 0)
            seconds, used = [], [cpu.seconds()]
            for number in range(1, chosen.batches + 1):
                keys = chance.sample(range(chosen.rows + number * 1000), 10_000)
                part = calve.folder / f"{number:06d}.part"
                part.write_text("".join(f'{{"op":"u",{row(key, number)[1:]}\n' for key in keys))
                before = commits(calve)
                part.rename(part.with_suffix(".ndjson"))
                seconds.append(committed(calve, before))
                used.append(cpu.seconds())
            calve.stop()
        each = [end - start for start, end in itertools.pairwise(used)]
        for name, taken in (("s", seconds), ("CPU s", each)):
            first, last = statistics.median(taken[:10]), statistics.median(taken[-10:])
            print(
                f"{mode:16} first ten batches {first:.2f} {name}, last ten {last:.2f}: {last / first:.2f} times",
                flush=True,
            )


def commits(calve: Calve) -> int:
    """Count the versions of the table."""
    return len(list((calve.folder / "lakehouse" / "bench" / "rows" / "metadata").glob("*.metadata.json")))


def committed(calve: Calve, before: int) -> float:
    """Wait for a commit; give the seconds that it took."""
    started = time.monotonic()
    until(lambda: commits(calve) > max(before, 1), "the batch is committed", 1800)  # the first version has no rows
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--batch", default="256mb", help="max_batch_bytes of Calve")
    parser.add_argument("--only", choices=MODES)
    parser.add_argument("--flink", type=Path, help="a Flink home, a folder with lib/")
    parser.add_argument("--growth", action="store_true")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the table that batches are given to")
    parser.add_argument("--batches", type=int, default=100)
    chosen = parser.parse_args()
    (grow if chosen.growth else compare)(chosen)


if __name__ == "__main__":
    main()
