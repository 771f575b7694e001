"""Accepted → readable: the age of events when they can be read, Calve from HTTP and Kafka, and the Kafka Connect sink.

    make bench-freshness BENCH="--rate 20000 --seconds 50 --flush 100ms"

Both commit every 500 ms. Blocks of events are sent at their times, 100 a second; a block is accepted when its answer
is there (HTTP: it is fsynced; Kafka: the broker has it), and readable when the catalog's current snapshot has so many
rows: sent one after the other, into one partition, the events keep their order. The first block waits until the system
has started, and the first ten seconds, in which the JVM warms up, do not count. DuckDB compares the sums of the table
with what was accepted. CPU seconds include those of the broker.
"""

from __future__ import annotations

import http.client
import itertools
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench import lake, peers
from bench.growth import metadata
from bench.made_events import SUMS, Events
from bench.measure import Figures, measured, medians, parser, take_turns
from bench.report import Report
from kit.running import Calve, until
from services.kafka import STEADY, Kafka
from services.process import free_ports

BLOCKS_A_SECOND = 100
WARM_SECONDS = 10
TOPIC = "events"
YAML = """
bench:
  source:
    {source}
  sink:
    - iceberg:
        table_identifier: bench.events
        auto_create: true
        flush_interval: {flush}
        commit_interval: 500ms
"""
Send = Callable[[list[bytes]], None]
"""Sends a block of events and returns when they are accepted."""


@dataclass
class Watch:
    """Looks all the time at a table's current metadata file and keeps when it had how many rows, or which snapshot."""

    current: Callable[[], Path | None]
    look: Callable[[Path], int] = lake.rows_of
    seen: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def rows(self) -> int:
        """Return the rows that were last seen."""
        return self.seen[-1][1] if self.seen else 0

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        before = None
        while not self._ended.wait(0.005):
            file = self.current()
            if file and file != before:
                self.seen.append((time.monotonic(), self.look(file)))
                before = file


def to_http(port: int) -> Send:
    """Return what sends to an http source over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def send(block: list[bytes]) -> None:
        connection.request("POST", "/log/ingest", b"[%s]" % b",".join(block))
        answer = connection.getresponse()
        if answer.status != 200:
            raise SystemExit(f"{answer.status}: {answer.read()!r}")
        answer.read()

    return send


def to_kafka(broker: Kafka) -> Send:
    """Return what sends to a new topic of one partition."""
    broker.create_topic(TOPIC)
    producer = broker.producer(**{"linger.ms": 0})

    def send(block: list[bytes]) -> None:
        producer.produce_batch(TOPIC, [{"value": one} for one in block], partition=0)
        broker.arrived(producer)

    return send


@contextmanager
def calve(folder: Path, source: str, flush: str) -> Iterator[Callable[[], Path | None]]:
    """Run a pipeline; yield what returns the table's current metadata file."""
    running = Calve(folder, YAML.format(source=source, flush=flush))
    running.start()
    try:
        running.until(lambda: running.status("bench").get("state") in ("waiting", "running"), "it has started")
        yield lambda: metadata(folder)
        running.stop()
    finally:
        running.end()


@contextmanager
def from_http(place: Path, flush: str) -> Iterator[tuple[Send, Callable[[], Path | None]]]:
    """Run Calve with an http source."""
    [port] = free_ports(1)
    with calve(place / "run", f"http: {{port: {port}}}", flush) as current:
        yield to_http(port), current


@contextmanager
def from_kafka(place: Path, flush: str) -> Iterator[tuple[Send, Callable[[], Path | None]]]:
    """Run Calve with a kafka source."""
    with Kafka(place / "kafka", options=STEADY) as broker:
        send = to_kafka(broker)
        source = f'kafka: {{bootstrap_servers: ["{broker.address}"], topics: [{{name: {TOPIC}}}]}}'
        with calve(place / "run", source, flush) as current:
            yield send, current


@contextmanager
def from_connect(place: Path, flush: str) -> Iterator[tuple[Send, Callable[[], Path | None]]]:
    """Run the Kafka Connect sink."""
    folder = place / "run"
    with Kafka(place / "kafka", options=STEADY) as broker:
        send = to_kafka(broker)
        with peers.started(peers.connect_command(broker, TOPIC, folder, interval_ms=500), folder / "connect.log"):
            yield send, lambda: lake.newest(folder / "lakehouse" / "bench" / "events")


SYSTEMS = {"http": from_http, "kafka": from_kafka, "connect": from_connect}


def drive(send: Send, made: Events, seconds: float, watch: Watch) -> list[float]:
    """Send blocks at their times, once the first of them is readable; return when each was accepted."""
    events, accepted = iter(made), []
    number = int(seconds * BLOCKS_A_SECOND)
    blocks = [list(itertools.islice(events, made.count // number)) for _ in range(number)]
    begun = time.monotonic()
    for number, block in enumerate(blocks):
        time.sleep(max(0.0, begun + number / BLOCKS_A_SECOND - time.monotonic()))
        send(block)
        accepted.append(time.monotonic())
        if number == 0:
            until(lambda: watch.rows() > 0, "the first events are readable")
            begun = time.monotonic()
    return accepted


def ages(accepted: list[float], size: int, seen: list[tuple[float, int]]) -> list[float]:
    """Return the seconds from accepted to readable of each block."""
    found, at = [], 0
    for number, moment in enumerate(accepted, 1):
        while seen[at][1] < number * size:
            at += 1
        found.append(seen[at][0] - moment)
    return found


def run(system: str, flush: str, rate: int, seconds: float, place: Path) -> Figures:
    """Run a system and send to it; return its figures."""
    size = rate // BLOCKS_A_SECOND
    made = Events(size * int(seconds * BLOCKS_A_SECOND))
    with SYSTEMS[system](place, flush) as (send, current):
        watch = Watch(current)
        with measured(made.count) as found:
            accepted = drive(send, made, seconds, watch)
            until(lambda: watch.rows() >= made.count, "all is readable")
        watch.end()
    lake.check([place / "run" / "lakehouse" / "bench" / "events"], SUMS, made.sums())
    counted = sorted(ages(accepted, size, watch.seen)[WARM_SECONDS * BLOCKS_A_SECOND :])
    p50, p99 = (counted[len(counted) * share // 100] for share in (50, 99))
    sent = made.count / (accepted[-1] - accepted[1])
    return {"p50 s": p50, "p99 s": p99, "longest s": counted[-1], "events/s": sent, "CPU s/M": found["CPU s/M"]}


def main() -> None:
    options = parser(__doc__, rounds=1)
    options.add_argument("--only", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    options.add_argument("--rate", type=int, default=20_000, help="events a second")
    options.add_argument("--seconds", type=int, default=50, help="how long is sent, with the ten that do not count")
    options.add_argument("--flush", default="100ms", help="flush_interval of Calve")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="calve-bench-") as place:

        def turn(system: str, number: int) -> Figures:
            folder = Path(place) / f"{system}-{number}"
            folder.mkdir()
            return run(system, chosen.flush, chosen.rate, chosen.seconds, folder)

        results = take_turns({system: partial(turn, system) for system in chosen.only}, chosen.rounds)
    report = Report("freshness", f"Accepted to readable, {chosen.rate:,} events/s")
    for system, found in medians(results).items():
        if system != "connect":
            report.target(f"{system}, p50 s", found["p50 s"], most=0.5)
            report.target(f"{system}, p99 s", found["p99 s"], most=1.0)
    report.bars(results, "p99 s")


if __name__ == "__main__":
    main()
