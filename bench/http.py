"""HTTP → disk, and HTTP → an Iceberg table: events a second that are answered when they are safe.

    make bench-http BENCH="--seconds 10 --connections 16 --request 100"

`alone`: the source in a process of its own, with no pipeline behind it. `replicated`: the same, with its log on an
object store of this machine; the CPU seconds are also those of the store. `into a table`: `calve run` writes the events
meanwhile, with `commit_interval: 10s`; when it has ended, DuckDB compares the rows and sums of the table with what was
answered. CPU seconds are the server's: those of the load, about 240 bytes an event, do not count. Answers are fsynced.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from bench import lake
from bench.measure import Figures, measured, medians, parser, take_turns
from bench.report import Report
from calve.sources.http import source
from calve.sources.http.settings import HttpSettings
from calve.state.folder import StateFolder
from calve.state.local_folder import LocalFolder
from calve.state.store_folder import StoreFolder
from kit.running import Calve
from services.objects import ObjectStore
from services.process import free_ports

NAMES = ("alone", "replicated", "into a table")
LEAST = 300_000
"""Events a second that shall be accepted."""
SUMS = "count(*), sum(event_id)"
YAML = """
bench:
  source: {{http: {{port: {port}}}}}
  sink:
    - iceberg: {{table_identifier: bench.events, auto_create: true, flush_interval: 10s, commit_interval: 10s}}
"""


@dataclass
class Load:
    """Requests of equal arrays of events on some connections, one after the other on each.

    Attributes:
        waits: How long each answer took, in seconds.
    """

    connections: int
    request: int
    seconds: float
    waits: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = random.Random(7)
        self.ids = [chance.getrandbits(40) for _ in range(self.request)]
        body = json.dumps([_event(chance, one) for one in self.ids]).encode()
        self.message = b"POST /log/ingest HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    @property
    def events(self) -> int:
        """The number of events that were answered."""
        return len(self.waits) * self.request

    async def send(self, host: str, port: int) -> None:
        """Send on all connections until the time is over."""
        until = time.perf_counter() + self.seconds
        await asyncio.gather(*(self._client(host, port, until) for _ in range(self.connections)))

    async def _client(self, host: str, port: int, until: float) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        while (begun := time.perf_counter()) < until:
            writer.write(self.message)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise SystemExit(head.decode())
            self.waits.append(time.perf_counter() - begun)
        writer.close()

    def figures(self, seconds: float) -> Figures:
        """Return the rate, and how long answers took."""
        p50, p99 = (sorted(self.waits)[len(self.waits) * share // 100] * 1e3 for share in (50, 99))
        return {"events/s": self.events / seconds, "answer p50 ms": p50, "answer p99 ms": p99}


def _event(chance: random.Random, number: int) -> dict[str, object]:
    return {
        "event_id": number,
        "user": f"user-{chance.randrange(10_000)}",
        "ts": "2026-01-01T12:34:56.789Z",
        "action": chance.choice(["view", "click", "buy", "leave"]),
        "amount": chance.randrange(100_000) / 100,
        "tags": ["a", "b"],
        "page": "/products/" + "x" * chance.randrange(60, 90),
    }


def serve(folder: StateFolder, pipe: Connection) -> None:
    """Run the source, then read its log and count; the child process."""
    http = source.open(HttpSettings(port=0), LocalFolder(folder), "bench")
    http.start(None, once=False)
    pipe.send(http.address)
    pipe.recv()
    planned = http.plan(None, 1 << 40)
    splits = planned.splits if planned else []
    pipe.send(sum(batch.num_rows for split in splits for batch in http.reader.read(split)))
    http.stop()


def alone(load: Load, place: StateFolder) -> Figures:
    """Send to the source alone, and compare what was answered with what its log holds."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(place, theirs), daemon=True)
    process.start()
    address = ours.recv()
    with measured(1) as found:
        asyncio.run(load.send(*address))
    ours.send("done")
    rows = ours.recv()
    process.join()
    if rows != load.events:
        raise SystemExit(f"{load.events} events were answered, the log holds {rows}")
    return load.figures(found["seconds"]) | {"CPU s/M": found["CPU s/M"] / load.events}


def into_a_table(load: Load, place: Path) -> Figures:
    """Send to a pipeline, and compare what was answered with the table."""
    [port] = free_ports(1)
    calve = Calve(place, YAML.format(port=port))
    calve.start()
    try:
        calve.until(lambda: f":{port}" in calve.said(), "it listens")
        with measured(1) as found:
            begun = time.perf_counter()
            asyncio.run(load.send("127.0.0.1", port))
            seconds = time.perf_counter() - begun
            calve.stop()
    finally:
        calve.end()
    expected = [load.events, len(load.waits) * sum(load.ids)]
    lake.check([place / "lakehouse" / "bench" / "events"], SUMS, expected)
    readable = {"readable events/s": load.events / found["seconds"]}
    return load.figures(seconds) | {"CPU s/M": found["CPU s/M"] / load.events} | readable


def main() -> None:
    options = parser(__doc__, rounds=3)
    options.add_argument("--seconds", type=float, default=10, help="how long is sent")
    options.add_argument("--connections", type=int, default=16)
    options.add_argument("--request", type=int, default=100, help="events in a request")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="calve-bench-") as place:

        def run(name: str, number: int) -> Figures:
            folder = Path(place) / f"{name}-{number}"
            folder.mkdir()
            load = Load(chosen.connections, chosen.request, chosen.seconds)
            if name == "replicated":
                return alone(load, StoreFolder.at(store.place(folder.name)))
            return (alone if name == "alone" else into_a_table)(load, folder)

        with ObjectStore(Path(place) / "store") as store:
            os.environ.update(store.environment())
            results = take_turns({name: partial(run, name) for name in NAMES}, chosen.rounds)
    report = Report("http", "HTTP")
    for name, rounds in medians(results).items():
        if name != "replicated":  # the store is on the same cores
            report.target(f"accepted events/s, {name}", rounds["events/s"], least=LEAST)
    report.bars(results, "events/s")


if __name__ == "__main__":
    main()
