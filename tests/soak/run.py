"""Runs a pipeline for a long time, and checks that nothing grows without bound: `make soak MINUTES=30`.

Events come from a Kafka broker, at a rate that leaves the machine idle for half of the time. They go to a table that
only grows, whose schema evolves, and to a table of changes; both get small commits and are maintained all the time.
Samples of memory, open files, threads, state and metadata are drawn (`soak.svg`), and the last third is compared with
the third before it. At the end all events must be in the tables.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench import plot

from calve.engine import session
from calve.observe.humanize import size
from kit.running import Calve, until
from services.kafka import Kafka
from soak.sample import Sample, sampled

FOLDER = Path(__file__).parents[2] / "build" / "soak"
SAMPLE_SECONDS = 5.0
GIVE_SECONDS = 0.2
WARM_SECONDS = 120.0
"""The JVM compiles, and the first workers start; that is not compared."""
KEYS = 5_000
FIELDS = 30
MOST_GROWTH = 1.2
"""The most that the last third may have of what the third before it had."""
QUICK = {
    "auto_create": True,
    "flush_interval": "500ms",
    "commit_interval": "1s",
    "maintenance": {
        "small_files": 20,
        "quiet_after": "1m",
        "max_snapshots": 60,
        "least_snapshot_age": "30s",
        "share_of_cores": 0.2,
    },
}


@dataclass(frozen=True)
class Allowed:
    """How much a figure may grow beside the share: what comes and goes with a commit or a collection of garbage."""

    name: str
    allowance: float


FIGURES = (
    Allowed("driver_bytes", 32 << 20),
    Allowed("jvm_bytes", 128 << 20),
    Allowed("worker_bytes", 64 << 20),
    Allowed("open_files", 50),
    Allowed("threads", 30),
    Allowed("state_bytes", 1 << 20),
    Allowed("metadata_bytes", 8 << 20),
)


class Feed:
    """Sends numbered events at a rate; every minute one of them has a field that was not there before.

    Attributes:
        sent: How many events were sent.
    """

    def __init__(self, broker: Kafka, rate: float) -> None:
        self.sent = 0
        self._broker, self._rate = broker, rate
        self._ended = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> int:
        """Send no more; return how many were sent."""
        self._ended.set()
        self._thread.join()
        return self.sent

    def _run(self) -> None:
        while not self._ended.wait(GIVE_SECONDS):
            passed = time.monotonic() - self._began
            wanted = int(passed * self._rate)
            fields = min(int(passed / 60), FIELDS)
            events = [self._event(number, fields) for number in range(self.sent, wanted)]
            keys = (str(number % KEYS) for number in range(self.sent, wanted))  # a key's changes are in one partition
            self.sent += self._broker.produce("soak", events, keys=keys)

    def _event(self, number: int, fields: int) -> str:
        event = {"id": number, "key": number % KEYS, "text": f"event {number}", f"field_{number % (fields + 1)}": 1}
        return json.dumps(event | {"op": "delete" if _deletes(number) else "update"})


def _deletes(number: int) -> bool:
    return (number + number // KEYS) % 10 == 9


def main() -> int:
    """Run until the time is over or a signal; return 1 if anything grows without bound, or an event is missing."""
    for wish in (signal.SIGINT, signal.SIGTERM):
        signal.signal(wish, signal.default_int_handler)
    asked = _arguments()
    shutil.rmtree(asked.folder, ignore_errors=True)
    asked.folder.mkdir(parents=True)
    calve = Calve(asked.folder / "calve", "")
    with Kafka(asked.folder / "kafka") as broker:
        broker.create_topic("soak", partitions=2)
        calve.configure(json.dumps(_pipelines(broker)))
        calve.start()
        try:
            feed = Feed(broker, asked.rate)
            samples = list(_samples(calve, asked.minutes * 60))
            sent = feed.end()
            until(lambda: calve.status("all")["events"] >= sent, "all events are written", 300)
            code = calve.stop()
        finally:
            calve.end()
    found = [*_grown(samples), *_missing(calve, sent)]
    if code:
        found.append(f"calve ended with {code}")
    _write(asked, samples, sent, found)
    return 1 if found else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=2_000.0, help="events a second")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    return parser.parse_args()


def _pipelines(broker: Kafka) -> dict[str, object]:
    topic = {"name": "soak", "serde_format": "json"}
    changes = {"table_identifier": "soak.changes", "identifier_columns": ["key"], "operation": "${/op}"}
    changes |= {"include_keys": ["key", "id"], "upsert": True}
    grows = {"table_identifier": "soak.log", "schema_evolution": True}
    sinks = [{"iceberg": grows | QUICK}, {"iceberg": changes | QUICK}]
    source = {"kafka": {"bootstrap_servers": [broker.address], "topics": [topic | {"group_id": "soak"}]}}
    return {"all": {"source": source, "sink": sinks}}


def _samples(calve: Calve, seconds: float) -> Iterator[Sample]:
    began = time.monotonic()
    try:
        while (passed := time.monotonic() - began) < seconds:
            assert calve.process is not None
            assert calve.process.poll() is None, calve.said()[-4000:]
            one = sampled(calve, passed)
            yield one
            if int(passed / SAMPLE_SECONDS) % 12 == 0:
                print(one.shown(), flush=True)
            time.sleep(SAMPLE_SECONDS)
    except KeyboardInterrupt:
        print("ended; what was sampled is checked", flush=True)


def _grown(samples: list[Sample]) -> Iterator[str]:
    samples = [one for one in samples if one.seconds > WARM_SECONDS]
    third = len(samples) // 3
    before, last = samples[third : 2 * third], samples[2 * third :]
    for one in FIGURES if third else ():
        old, new = (statistics.median(getattr(each, one.name) for each in part) for part in (before, last))
        if new > old * MOST_GROWTH + one.allowance:
            yield f"{one.name} grew from {old:,.0f} to {new:,.0f}"


def _missing(calve: Calve, sent: int) -> Iterator[str]:
    ids = calve.rows("soak.log")["id"].to_numpy()
    if len(ids) != sent or len(set(ids.tolist())) != sent:
        yield f"{sent} events were sent, {len(ids)} rows are in the table, {len(set(ids.tolist()))} of them different"
    last = {key: key + (sent - 1 - key) // KEYS * KEYS for key in range(min(KEYS, sent))}
    expected = sorted((key, number) for key, number in last.items() if not _deletes(number))
    engine = session.start("local[2]", {"spark.sql.shuffle.partitions": "2"})
    try:
        found = (
            Calve(calve.folder, "", engine.session).shared_spark().table("lakehouse.soak.changes").select("key", "id")
        )
        rows = sorted((row.key, row.id) for row in found.collect())
    finally:
        session.stop(engine)
    if rows != expected:
        yield f"the table of changes has {len(rows)} rows, which are not the {len(expected)} that the events say"


def _write(asked: argparse.Namespace, samples: list[Sample], sent: int, found: list[str]) -> None:
    memory = {"driver MB": "driver_bytes", "JVM MB": "jvm_bytes", "workers MB": "worker_bytes"}
    rest = {"open files": "open_files", "threads": "threads", "metadata MB": "metadata_bytes"}
    (asked.folder / "soak-memory.svg").write_text(plot.lines("Memory over the minutes", _curves(samples, memory)))
    (asked.folder / "soak-files.svg").write_text(plot.lines("Files over the minutes", _curves(samples, rest)))
    figures = {"minutes": asked.minutes, "rate": asked.rate, "sent": sent, "found": found}
    told = figures | {"samples": [vars(one) for one in samples]}
    (asked.folder / "soak.json").write_text(json.dumps(told, indent=1))
    last = samples[-1]
    print(
        f"{sent:,} events, {last.commits} commits; state {size(last.state_bytes)}, metadata {size(last.metadata_bytes)}"
    )
    print("\n".join(found) or "nothing grows, nothing is missing, nothing is there twice")


def _curves(samples: list[Sample], names: dict[str, str]) -> dict[str, list[tuple[float, float]]]:
    def value(one: Sample, title: str) -> float:
        return getattr(one, names[title]) / (1e6 if title.endswith("MB") else 1)

    return {title: [(one.seconds / 60, value(one, title)) for one in samples] for title in names}


if __name__ == "__main__":
    sys.exit(main())
