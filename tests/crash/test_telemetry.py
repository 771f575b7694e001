"""Telemetry by gRPC into a pipeline that is killed: `CALVE_KILLS=20 CALVE_RECORDS=1000000 pytest …` is the long run."""

from __future__ import annotations

import itertools
import json
import os
import queue
import threading
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue

from calve.stop_point import VARIABLE
from kit.running import PATIENCE_SECONDS
from services.process import free_ports
from sources.otlp.calls import EXPORT
from sources.otlp.requests import REQUESTS

pytestmark = [pytest.mark.crash, pytest.mark.spark]
KILLS = int(os.environ.get("CALVE_KILLS", "1"))
RECORDS = int(os.environ.get("CALVE_RECORDS", "2000"))
COUNTS = {"traces": RECORDS, "logs": RECORDS, "metrics": RECORDS // 10}
PARTS = 4
"""Requests of each signal, for each process."""
POINTS = ("commit.after-swap", "ledger.after-begin", "pipeline.after-stage", "commit.before-swap", "commit.after-table")
MAPS = {"traces": "span_attributes", "logs": "log_attributes", "metrics": "attributes"}


def request_of(signal: str, numbers: range) -> bytes:
    request = REQUESTS[signal]()
    resource = getattr(
        request, {"logs": "resource_logs", "traces": "resource_spans", "metrics": "resource_metrics"}[signal]
    ).add()
    resource.resource.attributes.add(key="service.name").value.string_value = "shop"
    scope = getattr(resource, {"logs": "scope_logs", "traces": "scope_spans", "metrics": "scope_metrics"}[signal]).add()
    for number in numbers:
        at = 1_780_000_000_000_000_000 + number
        if signal == "traces":
            scope.spans.add(
                name="s", start_time_unix_nano=at, end_time_unix_nano=at + number, attributes=attributes(number)
            )
        elif signal == "logs":
            scope.log_records.add(time_unix_nano=at, attributes=attributes(number))
        else:
            points = scope.metrics.add(name="m").gauge.data_points
            points.add(time_unix_nano=at, as_int=number, attributes=attributes(number))
    return request.SerializeToString()


def attributes(number: int) -> list[KeyValue]:
    values = {
        "n": AnyValue(int_value=number), "text": AnyValue(string_value=f"t{number}"), "flag": AnyValue(bool_value=number % 2 == 0),
        "double": AnyValue(double_value=number + 0.5), "bytes": AnyValue(bytes_value=number.to_bytes(4)),
        "list": AnyValue(array_value=ArrayValue(values=[AnyValue(string_value="a"), AnyValue(int_value=number)])),
    }  # fmt: skip
    return [KeyValue(key=key, value=value) for key, value in values.items()]


def texts(number: int) -> dict[str, str]:
    return {
        "n": str(number), "text": f"t{number}", "flag": "false" if number % 2 else "true", "double": f"{number}.5",
        "bytes": b64encode(number.to_bytes(4)).decode(), "list": f'["a",{number}]',
    }  # fmt: skip


class Sender(threading.Thread):
    """Sends the records of a signal, each request again until it is answered."""

    def __init__(self, signal: str, port: int) -> None:
        super().__init__(daemon=True)
        self._signal = signal
        options = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200)]
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}", options)
        self.allowed: queue.Queue[None] = queue.Queue()
        self.start()

    def run(self) -> None:
        export = self._channel.unary_unary(EXPORT[self._signal])
        for part, numbers in enumerate(self._parts()):
            self.allowed.get()
            for start in range(numbers.start, numbers.stop, 1000):
                body = request_of(self._signal, range(start, min(start + 1000, numbers.stop)))
                metadata = [("idempotency-key", f"{self._signal}-{part}-{start}")]
                while not self._is_sent(export, body, metadata):
                    pass
        self._channel.close()

    def _parts(self) -> Iterator[range]:
        count, parts = COUNTS[self._signal], PARTS * (KILLS + 1)
        for part in range(parts):
            yield range(count * part // parts, count * (part + 1) // parts)

    @staticmethod
    def _is_sent(export: Any, body: bytes, metadata: list[tuple[str, str]]) -> bool:
        try:
            export(body, timeout=10, metadata=metadata, wait_for_ready=True)
        except grpc.RpcError as error:
            return error.code() not in (
                grpc.StatusCode.UNAVAILABLE,
                grpc.StatusCode.DEADLINE_EXCEEDED,
            )  # a refused one is missed below
        return True


def test_telemetry_by_grpc_is_exact_through_kills(doomed) -> None:
    [port] = free_ports(1)
    sink = {"table_identifier": 'otel.${getMetadata("signal")}', "auto_create": True, "commit_interval": "1s"}
    source = {"otlp": {"port": port, "grpc_port": None}}
    job = doomed(json.dumps({"telemetry": {"source": source, "sink": [{"iceberg": sink}]}}))
    senders = [Sender(signal, port) for signal in COUNTS]
    for point in itertools.islice(itertools.cycle(POINTS), KILLS):
        process = job.start(environment={VARIABLE: point})
        allow(senders)
        assert process.wait(PATIENCE_SECONDS) != 0, job.said()
    job.start()
    allow(senders)
    for sender in senders:
        sender.join(PATIENCE_SECONDS * 4)
        assert not sender.is_alive(), job.said()[-3000:]
    assert job.stop() == 0, job.said()[-3000:]
    for signal, count in COUNTS.items():
        rows = job.catalog().load_table(f"otel.{signal}").scan().to_arrow()
        columns = {key: looked_up(rows[MAPS[signal]], key) for key in texts(0)}
        found = pa.table(columns).append_column("number", columns["n"].cast(pa.int64())).sort_by("number")
        assert found["number"].to_pylist() == [*range(count)], signal
        for key in columns:
            assert found[key].to_pylist() == [texts(number)[key] for number in range(count)], (signal, key)


def allow(senders: list[Sender]) -> None:
    for sender in senders:
        for _ in range(PARTS):
            sender.allowed.put(None)


def looked_up(maps: pa.ChunkedArray, key: str) -> pa.ChunkedArray:
    return pa.chunked_array(
        [pc.map_lookup(chunk, pa.scalar(key, chunk.type.key_type), "last") for chunk in maps.chunks]
    )
