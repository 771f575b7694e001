"""The process that plays rounds, and prints a report of each as a line of JSON: `python -m fuzz.work PLAN`."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from calve.engine import session
from fuzz.generate import KINDS, Maker
from fuzz.play import Batches, Played, Stage, load, marker_of, play
from fuzz.setups import Setup, random_setup
from fuzz.tables import Readers
from services.kafka import Kafka

SOURCES = ("ndjson", "ndjson", "ndjson", "ndjson.gz", "json", "http", "http", "csv", "parquet")
SHRINK_SECONDS = 30.0


def make(seed: str, number: int, kafka: bool) -> tuple[Setup, Batches]:
    """Return a round of a seed: always the same one."""
    rnd = random.Random(f"{seed}-{number}")
    setup = random_setup(rnd, KINDS, ("kafka",) if kafka else SOURCES)
    maker = Maker(rnd, setup.recipe)
    batches: Batches = []
    for batch, size in enumerate(setup.sizes):
        events = [maker.event(batch) for _ in range(size)]
        events.insert(rnd.randint(0, len(events)) if batch else 0, marker_of(setup, batch))
        batches.append(events)
    return setup, batches


@contextlib.contextmanager
def stage() -> Iterator[Stage]:
    """Start what rounds are played on."""
    engine = session.start("local[2]", {"spark.sql.shuffle.partitions": "2", "spark.sql.caseSensitive": "true"})
    found = Stage(engine.session, Readers())
    try:
        yield found
    finally:
        if found.kafka:
            found.kafka.stop()
        found.readers.close()
        session.stop(engine)


def work(plan: dict[str, Any], found: Stage) -> Iterator[dict[str, Any]]:
    """Play the rounds of a plan; yield the report of each."""
    seen: set[tuple[str, str]] = set()
    for number in range(plan["first"], plan["first"] + plan["rounds"]):
        folder = Path(plan["folder"]) / f"{plan['seed']}-{number}"
        uses_kafka = bool(plan["kafka"]) and number % plan["kafka"] == plan["kafka"] - 1
        setup, batches = load(Path(plan["case"])) if plan["case"] else make(plan["seed"], number, uses_kafka)
        if setup.source == "kafka" and not found.kafka:
            found.kafka = Kafka(Path(tempfile.mkdtemp(prefix="calve-fuzz-"))).start()
        folder = folder.with_name("again") if plan["case"] else folder
        began = time.monotonic()
        played = play(found, folder, setup, batches)
        new = {(finding.kind, finding.what) for finding in played.verdict.findings} - seen
        seen |= new
        if new and not plan["case"]:
            shrink(found, folder, setup, batches, new)
        elif not played.verdict.findings and not plan["case"]:
            shutil.rmtree(folder)
        yield report(number, played, folder) | {"seconds": time.monotonic() - began}


def report(number: int, played: Played, folder: Path) -> dict[str, Any]:
    """Return what is told of a round."""
    verdict = played.verdict
    told = {"round": number, "batches": played.batches, "events": played.events, "rows": verdict.rows}
    told |= {"codes": dict(verdict.codes)}
    return told | {"refused": played.refused, "findings": verdict.findings, "kept": str(folder)}


def shrink(found: Stage, folder: Path, setup: Setup, batches: Batches, wanted: set[tuple[str, str]]) -> None:
    """Leave out sinks and events as long as one of these findings stays; the last such round is kept beside `folder`."""
    smaller, tried = folder.with_name(f"{folder.name}-small"), folder.with_name(f"{folder.name}-tried")
    end = time.monotonic() + SHRINK_SECONDS

    def fails(setup: Setup, batches: Batches) -> bool:
        if time.monotonic() > end:
            return False
        findings = play(found, tried, setup, batches).verdict.findings
        if not wanted & {(finding.kind, finding.what) for finding in findings}:
            return False
        shutil.rmtree(smaller, ignore_errors=True)
        tried.rename(smaller)
        return True

    if fails(from_file := replace(setup, source="ndjson"), batches):
        setup = from_file
    for sink in setup.sinks if len(setup.sinks) > 1 else ():
        if fails(alone := replace(setup, sinks=[sink]), batches):
            setup = alone
            break
    for number in range(len(batches)):
        size = len(batches[number]) // 2
        while size and time.monotonic() < end:
            for start in range(0, len(batches[number]), size):
                less = [[*each] for each in batches]
                del less[number][start : start + size]
                if fails(setup, less):
                    batches = less
                    break
            else:
                size //= 2
    shutil.rmtree(tried, ignore_errors=True)


def main() -> None:
    """Play the rounds of the plan that is given."""
    out, sys.stdout = sys.stdout, sys.stderr
    with stage() as found:
        for told in work(json.loads(sys.argv[1]), found):
            print(json.dumps(told), file=out, flush=True)


if __name__ == "__main__":
    main()
