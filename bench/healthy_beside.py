"""What a busy pipeline loses to the maintenance of its table: pairs of runs, with and without.

A pipeline works off a backlog as fast as it can, in small batches that are each committed: many small files, and no
idle core for maintenance. Runs are whole `calve run --once`, in turns.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
from pathlib import Path

from bench.calve_run import calve_run
from bench.measure import Figures, ratio, take_turns
from bench.report import Report

EVENTS = 20_000
YAML = """
bench:
  source: {{file: {{path: "*.ndjson"}}}}
  sink:
    - iceberg:
        table_identifier: bench.t
        auto_create: true
        commit_interval: 10ms
        max_batch_bytes: {size}b
        maintenance: {maintenance}
"""


def beside(rounds: int, batches: int) -> None:
    """Run the pairs, and report the ratios.

    Args:
        rounds: How many pairs.
        batches: How many batches of 20,000 events each run has.
    """
    with tempfile.TemporaryDirectory(prefix="calve-healthy-") as place:
        events = Path(place, "events")
        events.write_text("".join(map(_event, range(EVENTS))))

        def contender(maintenance: str) -> Figures:
            return _run(Path(place, maintenance), events, batches, maintenance)

        results = take_turns({"on": lambda _: contender("true"), "off": lambda _: contender("false")}, rounds)
    report = Report("healthy-beside", f"A busy pipeline with maintenance and without, {batches} batches")
    report.target("rate with maintenance, relative to without", ratio(results, "events/s", "on", "off"), least=0.95)
    report.target("CPU with maintenance, relative to without", ratio(results, "CPU s/M", "on", "off"), most=1.05)
    report.bars(results, "events/s")


def _run(folder: Path, events: Path, batches: int, maintenance: str) -> Figures:
    """Run one pipeline in a new folder; all its files have the same content."""
    with tempfile.TemporaryDirectory(dir=events.parent, prefix=folder.name) as place:
        for number in range(batches):
            os.link(events, Path(place, f"{number:05d}.ndjson"))
        yaml = YAML.format(size=events.stat().st_size, maintenance=maintenance)
        found = calve_run(Path(place), yaml, EVENTS * batches)
        status = json.loads(Path(place, "calve-state/bench/status.json").read_text())
        table = status["tables"]["bench.t"]
        assert table["rows"] == EVENTS * batches, table
        keys = {"maintenance_rounds": "rounds", "maintenance_seconds": "maintenance s"}
        return found | {name: table[key] for key, name in keys.items()} | {"data files": _files(Path(place))}


def _files(folder: Path) -> float:
    return float(len(list(folder.glob("lakehouse/bench/t/data/**/*.parquet"))))


def _event(number: int) -> str:
    chance = random.Random(number)
    text = {"id": number, "country": chance.choice(("DE", "FR", "US")), "amount": round(chance.random() * 1000, 2)}
    more = {"at": f"2026-11-23T{number % 24:02d}:00:00Z", "note": f"{chance.getrandbits(240):060x}"}
    return json.dumps(text | more) + "\n"
