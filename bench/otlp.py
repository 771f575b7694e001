"""OpenTelemetry's spans → disk by gRPC and by HTTP, and → an Iceberg table: spans a second that are durable.

    make bench-otlp BENCH="--seconds 10 --calls 16 --request 512"

`grpc`, `http`: the source in a process of its own, with no pipeline behind it. `into a table`: `calve run` writes the
spans of gRPC meanwhile; when it has ended, DuckDB compares the rows and the sums of the table with what was answered.
Requests are Protobuf, not compressed, each of another resource; a span has nine attributes and about 400 bytes. CPU
seconds are the server's: those of the load do not count, but it runs on the same cores. Answers are fsynced.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

from bench import lake
from bench.measure import Figures, measured, medians, parser, take_turns
from bench.report import Report
from calve.sources.otlp import source
from calve.sources.otlp.settings import OtlpSourceSettings
from calve.state.local_folder import LocalFolder
from kit.running import Calve
from services.process import free_ports

NAMES = ("grpc", "http", "into a table")
LEAST = 200_000
"""Spans a second that shall be durable."""
BODIES = 8
CHANNELS = 4
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SUMS = "count(*), sum(duration_nano)"
YAML = """
bench:
  source: {{otlp: {{port: {port}, grpc_port: null}}}}
  sink:
    - iceberg: {{table_identifier: bench.spans, auto_create: true, flush_interval: 10s, commit_interval: 10s}}
"""


@dataclass
class Load:
    """Requests with spans, sent on some connections; each waits for its answer.

    Attributes:
        waits: How long each answer took, in seconds.
        nanoseconds: The sum of the durations of the spans that were answered.
    """

    calls: int
    request: int
    seconds: float
    waits: list[float] = field(default_factory=list)
    nanoseconds: int = 0

    def __post_init__(self) -> None:
        chance = random.Random(7)
        self._requests = [_request(chance, self.request) for _ in range(BODIES)]

    @property
    def events(self) -> int:
        """The number of spans that were answered."""
        return len(self.waits) * self.request

    async def by_grpc(self, host: str, port: int) -> None:
        """Send with the client of C++, on some channels."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        channels = [grpc.aio.insecure_channel(f"{host}:{port}", options) for _ in range(CHANNELS)]
        await self._all([channel.unary_unary(EXPORT) for channel in channels] * (self.calls // CHANNELS))
        for channel in channels:
            await channel.close()

    async def by_http(self, host: str, port: int) -> None:
        """Send on connections of their own."""
        streams = [await asyncio.open_connection(host, port) for _ in range(self.calls)]
        await self._all([partial(_post, *pair) for pair in streams])
        for _, writer in streams:
            writer.close()

    async def _all(self, ways: list[Callable[[bytes], Awaitable[object]]]) -> None:
        until = time.perf_counter() + self.seconds
        await asyncio.gather(*(self._client(number, way, until) for number, way in enumerate(ways)))

    async def _client(self, number: int, way: Callable[[bytes], Awaitable[object]], until: float) -> None:
        while (begun := time.perf_counter()) < until:
            body, nanoseconds = self._requests[number % BODIES]
            await way(body)
            self.waits.append(time.perf_counter() - begun)
            self.nanoseconds += nanoseconds
            number += 1

    def figures(self, seconds: float) -> Figures:
        """Return the rate, and how long answers took."""
        p50, p99 = (sorted(self.waits)[len(self.waits) * share // 100] * 1e3 for share in (50, 99))
        return {"spans/s": self.events / seconds, "answer p50 ms": p50, "answer p99 ms": p99}


async def _post(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> None:
    head = b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
    writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    if not answer.startswith(b"HTTP/1.1 200"):
        raise SystemExit(answer.decode())


def _request(chance: random.Random, spans: int) -> tuple[bytes, int]:
    request, nanoseconds = ExportTraceServiceRequest(), 0
    resource = request.resource_spans.add()
    for key in ("service.name", "host.name", "k8s.pod.name"):
        resource.resource.attributes.add(key=key).value.string_value = f"{key}-{chance.randrange(20)}"
    scope = resource.scope_spans.add()
    scope.scope.name = "opentelemetry.instrumentation.wsgi"
    for _ in range(spans):
        nanoseconds += _add_span(chance, scope)
    return request.SerializeToString(), nanoseconds


def _add_span(chance: random.Random, scope: ScopeSpans) -> int:
    """Add a span; return its duration."""
    start, duration = 1_780_000_000_000_000_000 + chance.randrange(10**9), chance.randrange(10**8)
    span = scope.spans.add(
        trace_id=chance.randbytes(16), span_id=chance.randbytes(8), parent_span_id=chance.randbytes(8)
    )
    span.name, span.kind = f"GET /products/{chance.randrange(50)}", 2
    span.start_time_unix_nano, span.end_time_unix_nano = start, start + duration
    texts = {
        "http.request.method": "GET", "http.route": "/products/{id}", "url.path": "/p/" + "x" * chance.randrange(50),
        "client.address": "192.0.2.7", "network.protocol.version": "1.1", "user_agent.original": "Mozilla/5.0 (X11)",
    }  # fmt: skip
    for key, text in texts.items():
        span.attributes.add(key=key).value.string_value = text
    span.attributes.add(key="http.response.status_code").value.int_value = chance.choice((200, 404))
    span.attributes.add(key="cached").value.bool_value = chance.random() < 0.5
    span.attributes.add(key="load").value.double_value = chance.random()
    return duration


def serve(folder: Path, pipe: Connection) -> None:
    """Run the source, then read its log and count; the child process."""
    otlp = source.open(OtlpSourceSettings(port=0, grpc_port=None), LocalFolder(folder), "bench")
    otlp.start(None, once=False)
    pipe.send(otlp.address)
    pipe.recv()
    planned = otlp.plan(None, 1 << 40)
    splits = planned.splits if planned else []
    pipe.send(sum(batch.num_rows for split in splits for batch in otlp.reader.read(split)))
    otlp.stop()


def alone(load: Load, place: Path, name: str) -> Figures:
    """Send to the source alone, and compare what was answered with what its log holds."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(place, theirs), daemon=True)
    process.start()
    address = ours.recv()
    with measured(1) as found:
        asyncio.run((load.by_grpc if name == "grpc" else load.by_http)(*address))
    ours.send("done")
    rows = ours.recv()
    process.join()
    if rows != load.events:
        raise SystemExit(f"{load.events} spans were answered, the log holds {rows}")
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
            asyncio.run(load.by_grpc("127.0.0.1", port))
            seconds = time.perf_counter() - begun
            calve.stop()
    finally:
        calve.end()
    lake.check([place / "lakehouse" / "bench" / "spans"], SUMS, [load.events, load.nanoseconds])
    readable = {"readable spans/s": load.events / found["seconds"]}
    return load.figures(seconds) | {"CPU s/M": found["CPU s/M"] / load.events} | readable


def main() -> None:
    options = parser(__doc__, rounds=3)
    options.add_argument("--seconds", type=float, default=10, help="how long is sent")
    options.add_argument("--calls", type=int, default=16, help="requests at a time")
    options.add_argument("--request", type=int, default=512, help="spans in a request")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="calve-bench-") as place:

        def run(name: str, number: int) -> Figures:
            folder = Path(place) / f"{name}-{number}"
            folder.mkdir()
            load = Load(chosen.calls, chosen.request, chosen.seconds)
            return into_a_table(load, folder) if name == "into a table" else alone(load, folder, name)

        results = take_turns({name: partial(run, name) for name in NAMES}, chosen.rounds)
    report = Report("otlp", "OpenTelemetry")
    for name, rounds in medians(results).items():
        report.target(f"durable spans/s, {name}", rounds["spans/s"], least=LEAST)
    report.bars(results, "spans/s")


if __name__ == "__main__":
    main()
