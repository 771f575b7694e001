"""Kafka → Iceberg: Calve against Spark's own `from_json`, the same events, the same broker, in one run.

    python bench/kafka.py [--events 6000000] [--runs 3] [--tables 1]

Each run reads the whole topic into a fresh lakehouse; the two take turns, and medians are compared. CPU seconds are
the busy time of the machine (broker included), so run it on one that does nothing else. Spark reads the topic by
Structured Streaming, `availableNow`; no complete stock set of its jars exists for 4.1.4, so the nearest are taken.
"""

from __future__ import annotations

import argparse
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

from running import Calve
from services.kafka import STEADY, Kafka

TICKS = os.sysconf("SC_CLK_TCK")
TOPIC = "events"
YAML = """
bench:
  source:
    kafka:
      bootstrap_servers: ["{address}"]
      topics: [{{name: events, serde_format: json}}]
  sink:
    - iceberg:
        table_identifier: "{table}"
        auto_create: true
        schema_evolution: true
        commit_interval: 10s
        max_batch_bytes: {batch}
"""


def events(count: int, tables: int) -> Iterator[bytes]:
    """Give events of about 220 bytes, ten fields; the text is made from a pool, so that making them is quick."""
    chance = random.Random(7)
    kinds = ("page_view", "click", "purchase", "login")
    pool = [
        (
            chance.randrange(10**9),
            chance.choice(kinds),
            f"2026-03-{chance.randrange(10, 29)}T{chance.randrange(10, 24)}:{chance.randrange(10, 60)}:00.000Z",
            round(chance.uniform(0, 1000), 2),
            chance.choice(("DE", "FR", "US", "JP")),
            f"/shop/category/{chance.randrange(10**5)}/item",
            f"{chance.getrandbits(64):016x}",
        )
        for _ in range(4096)
    ]
    for number in range(count):
        user, kind, at, amount, country, page, session = pool[number * 31 % 4096]
        yield (
            f'{{"id":{number},"tenant":"t{number % tables}","user_id":{user},"kind":"{kind}","at":"{at}",'
            f'"amount":{amount},"country":"{country}","ok":true,"page":"{page}","session":"{session}",'
            f'"n":{number % 977}}}'
        ).encode()


def busy_seconds() -> float:
    """Give the CPU seconds that the machine has worked since it started."""
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:8])
    return (user + nice + system + irq + softirq) / TICKS


def calve_run(broker: Kafka, folder: Path, tables: int, batch: str) -> dict[str, Any]:
    """Read the topic with Calve, in a process of its own; give seconds and CPU, start-up included."""
    table = "bench.events" if tables == 1 else "bench.${/tenant}"
    calve = Calve(folder, YAML.format(address=broker.address, table=table, batch=batch))
    busy, started = busy_seconds(), time.monotonic()
    calve.start("--once", "--json", "--debug")
    code = calve.process.wait(1800)
    seconds, cpu = time.monotonic() - started, busy_seconds() - busy
    if code:
        raise SystemExit(calve.said()[-3000:])
    names = calve.tables("bench")
    rows = sum(int(calve.catalog().load_table(name).current_snapshot().summary["total-records"]) for name in names)
    return {"seconds": seconds, "cpu": cpu, "rows": rows, "steps": shares(calve.said())}


def shares(log: str) -> dict[str, float]:
    """Give the share of the tasks' time that each step took, from the log."""
    said = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    total: dict[str, float] = {}
    for one in said:
        for step, seconds in one.get("steps", {}).items():
            total[step] = total.get(step, 0.0) + seconds
    return {step: round(seconds / sum(total.values()), 3) for step, seconds in total.items()}


def spark_run(broker: Kafka, folder: Path, tables: int, batch: str) -> dict[str, Any]:
    """Read the topic with Spark's `from_json`, in a process of its own."""
    busy, started = busy_seconds(), time.monotonic()
    script = Path(__file__).with_name("spark_from_json.py")
    done = subprocess.run(
        [sys.executable, str(script), broker.address, TOPIC, str(folder)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    found = json.loads(done.stdout.splitlines()[-1])
    return {"seconds": time.monotonic() - started, "cpu": busy_seconds() - busy, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=6_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tables", type=int, default=1)
    parser.add_argument("--batch", default="256mb", help="max_batch_bytes of Calve")
    parser.add_argument("--only", choices=("calve", "spark"))
    chosen = parser.parse_args()
    contenders = {"calve": calve_run, "spark": spark_run}
    if chosen.only or chosen.tables > 1:
        contenders = {chosen.only or "calve": contenders[chosen.only or "calve"]}
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    with (
        tempfile.TemporaryDirectory(prefix="calve-bench-") as place,
        Kafka(Path(place) / "kafka", options=STEADY) as broker,
    ):
        broker.create_topic(TOPIC, partitions=4)
        broker.produce(TOPIC, events(chosen.events, chosen.tables), partitions=range(4))
        for number in range(chosen.runs):
            for name, run in contenders.items():
                found = run(broker, Path(place) / f"{name}-{number}", chosen.tables, chosen.batch)
                if found["rows"] != chosen.events:
                    raise SystemExit(f"{name} has {found['rows']} rows instead of {chosen.events}")
                results[name].append(found)
                print(f"{name:6} run {number + 1}: {_shown(found, chosen.events)}", flush=True)
    medians = {name: statistics.median(one["seconds"] for one in found) for name, found in results.items()}
    for name, seconds in medians.items():
        print(f"{name:6} median: {chosen.events / seconds:,.0f} events/s end to end, start-up included")
    if len(medians) == 2:
        print(f"Calve is {medians['spark'] / medians['calve']:.2f} times as fast as Spark from_json")


def _shown(found: dict[str, Any], count: int) -> str:
    seconds, cpu = found["seconds"], found["cpu"]
    steps = ", ".join(f"{step} {share:.0%}" for step, share in found.get("steps", {}).items())
    rate = f"{seconds:6.2f} s, {count / seconds:9,.0f} events/s, {cpu / count * 1e6:5.2f} CPU s per million events"
    return f"{rate}; of the tasks' time: {steps}" if steps else rate


if __name__ == "__main__":
    main()
