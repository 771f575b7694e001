"""How many events a second does the http source accept durably? A load generator, and the source in another process.

- `python bench/http_source.py` serves, sends with 16 connections 100 events of about 220 bytes each time, and reads
  the log back.
- `python bench/http_source.py --url HOST:PORT` only sends, e.g. to a pipeline that runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from calve.sources.http import source
from calve.sources.http.settings import HttpSettings

Figures = dict[str, float]


def request(events: int, path: str) -> bytes:
    """Build a request with an array of events of about 220 bytes."""
    rows = [
        {
            "event_id": random.getrandbits(48),
            "user": f"user-{random.randrange(10_000)}",
            "ts": "2026-01-01T12:34:56.789Z",
            "action": random.choice(["view", "click", "buy", "leave"]),
            "amount": random.randrange(100_000) / 100,
            "tags": ["a", "b"],
            "page": "/products/" + "x" * random.randrange(60, 90),
        }
        for _ in range(events)
    ]
    body = json.dumps(rows).encode()
    return b"POST %s HTTP/1.1\r\nHost: bench\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body)) + body


async def client(host: str, port: int, message: bytes, until: float, waits: list[float]) -> None:
    """Send one request after the other on one connection."""
    reader, writer = await asyncio.open_connection(host, port)
    while (begun := time.perf_counter()) < until:
        writer.write(message)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(head.decode())
        waits.append(time.perf_counter() - begun)
    writer.close()


async def load(host: str, port: int, options: argparse.Namespace) -> Figures:
    """Send with all connections and give events a second and the time of an answer."""
    waits: list[float] = []
    message = request(options.events, options.path)
    begun, cpu = time.perf_counter(), time.process_time()
    until = begun + options.seconds
    await asyncio.gather(*(client(host, port, message, until, waits) for _ in range(options.connections)))
    wall = time.perf_counter() - begun
    events = len(waits) * options.events
    waits.sort()
    return {
        "events": events,
        "events_per_second": events / wall,
        "bytes_per_event": len(message) / options.events,
        "answer_p50_ms": waits[len(waits) // 2] * 1e3,
        "answer_p99_ms": waits[len(waits) * 99 // 100] * 1e3,
        "client_cpu_seconds_per_million": (time.process_time() - cpu) / events * 1e6,
    }


def serve(folder: Path, pipe: Connection) -> None:
    """Run the source, then read its log; the child process."""
    http = source.open(HttpSettings(port=0), folder, "bench")
    http.start(None, once=False)
    pipe.send(http.address)
    cpu = time.process_time()
    pipe.recv()
    cpu = time.process_time() - cpu
    planned = http.plan(None, 1 << 40)
    splits = planned.splits if planned else []
    begun = time.process_time()
    rows = sum(batch.num_rows for split in splits for batch in http.reader.read(split))
    pipe.send({"server_cpu": cpu, "rows": rows, "read_cpu": time.process_time() - begun})
    http.stop()


def bench(options: argparse.Namespace) -> Figures:
    """Serve in a process of its own, send, and compare what was answered with what the log holds."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(target=serve, args=(Path(folder), theirs))
        process.start()
        try:
            figures = asyncio.run(load(*ours.recv(), options))
            ours.send("done")
            log = ours.recv()
        finally:
            process.join()
    if log["rows"] != figures["events"]:
        raise SystemExit(f"{figures['events']} events were acknowledged, the log holds {log['rows']}")
    return {
        **figures,
        "server_cpu_seconds_per_million": log["server_cpu"] / log["rows"] * 1e6,
        "read_rows_per_cpu_second": log["rows"] / log["read_cpu"],
    }


def main() -> None:
    """Print the figures as one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="HOST:PORT of a source that runs; nothing is served then")
    parser.add_argument("--path", default="/log/ingest")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--events", type=int, default=100, help="events in a request")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--folder", default=Path.cwd(), help="where the log is put, for its disk")
    options = parser.parse_args()
    if options.url:
        host, _, port = options.url.rpartition(":")
        figures = asyncio.run(load(host, int(port), options))
    else:
        figures = bench(options)
    print(json.dumps({name: round(value, 2) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
