"""What quiet tables cost: a pipeline that knows very many tables, and one that knows only the busy ones."""

from __future__ import annotations

import contextlib
import json
import time
from functools import partial
from pathlib import Path

from bench import lake
from bench.calve_run import WAIT_SECONDS
from bench.kafka import YAML
from bench.made_events import SUMS, Events
from bench.measure import Figures, Results, measured, medians, take_turns
from bench.report import Report
from kit.running import Calve
from services import process
from services.kafka import Kafka

MOST_CPU, MOST_MB = 1.5, 1_000
"""How many times the CPU seconds of the busy tables alone, and how much memory of the driver's Python, all may take."""
MORE = "max_batch_bytes: 16mb\n        flush_interval: 1s"
_PARTITIONS = 4


def run(broker: Kafka, folder: Path, topic: str, tables: int, events: Events) -> Figures:
    """Make all tables in a running pipeline, then write into some of them; return the figures of the latter."""
    seed = Events(tables, tables, "bench.t")
    broker.create_topic(topic, partitions=_PARTITIONS)
    broker.produce(topic, seed, partitions=range(_PARTITIONS))
    yaml = YAML.format(address=broker.address, topic=topic, table="${/tenant}", more=MORE)
    calve = Calve(folder, yaml)
    calve.start()
    try:
        _wait(folder, topic, tables, "every table has its row")
        with measured(events.count) as found:
            broker.produce(topic, events, partitions=range(_PARTITIONS))
            _wait(folder, topic, tables + events.count, "all events are rows")
        assert calve.process
        found["driver MB"] = _peak_mb(calve.process.pid)
        found["status kB"] = (folder / "calve-state" / topic / "status.json").stat().st_size / 1000
        if calve.stop():
            raise SystemExit(calve.said()[-3000:])
    finally:
        calve.end()
    expected = [sum(sums) for sums in zip(seed.sums(), events.sums(), strict=True)]
    lake.check(lake.folders(folder / "lakehouse" / "bench"), SUMS, expected)
    return found


def compare(results: Results, tables: int, hot: int) -> Report:
    """Compare with the targets."""
    report = Report("tables-hot", f"{hot} busy tables of {tables:,}")
    middle = medians(results)
    many, few = middle[f"{tables} tables"], middle[f"{hot} tables"]
    report.target(f"CPU of {tables:,} tables to that of {hot}", many["CPU s/M"] / few["CPU s/M"], most=MOST_CPU)
    report.target("MB of the driver's Python", many["driver MB"], most=MOST_MB)
    return report


def main(broker: Kafka, place: Path, tables: int, hot: int, count: int, rounds: int) -> None:
    """Run both in turns, and compare them."""
    events = Events(count, hot, "bench.t")
    runs = {
        f"{many} tables": lambda number, many=many: run(
            broker, place / f"{many}-{number}", f"tables{many}-{number}", many, events
        )
        for many in (hot, tables)
    }
    results = take_turns(runs, rounds)
    compare(results, tables, hot).bars(results, "CPU s/M")


def _wait(folder: Path, pipeline: str, rows: int, what: str) -> None:
    process.wait_until(partial(_has, folder / "calve-state" / pipeline / "status.json", rows), what, WAIT_SECONDS)


def _has(status: Path, rows: int) -> bool:
    with contextlib.suppress(OSError, ValueError):
        report = json.loads(status.read_text())
        return sum(table["rows"] for table in report["tables"].values()) >= rows and not report["staged_batches"]
    time.sleep(1)
    return False


def _peak_mb(driver: int) -> float:
    """Return the most memory that a process ever had."""
    lines = Path(f"/proc/{driver}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
