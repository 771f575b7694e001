"""OpenTelemetry's SDK to tables through kills: `CALVE_KILLS=20 CALVE_RECORDS=1000000 pytest …` is the long run.

An application for each signal, in a process of its own: spans by gRPC, log records by HTTP with gzip, points by gRPC
with gzip. What the SDK gives up is given to it again, with the same `Idempotency-Key`.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from calve.stop_point import VARIABLE
from kit.running import PATIENCE_SECONDS
from services.process import free_ports
from sources.otlp import numbered

pytestmark = [pytest.mark.crash, pytest.mark.spark]
TESTS = Path(__file__).parents[1]
KILLS = int(os.environ.get("CALVE_KILLS", "1"))
RECORDS = int(os.environ.get("CALVE_RECORDS", "2000"))
COUNTS = {"traces": RECORDS, "logs": RECORDS, "metrics": RECORDS // 10}
PARTS = 4
"""Parts of each signal, for each process."""
ANY_TIME = ""
POINTS = (
    "commit.after-swap:2",  # of three tables
    "log.after-append",
    ANY_TIME,
    "ledger.after-begin",
    "pipeline.after-stage",
    "commit.before-swap:3",
    "log.after-append:9",
    "pipeline.after-acknowledge",
    "ledger.before-committed",
    "commit.after-table",
)
MAPS = {"traces": "span_attributes", "logs": "log_attributes", "metrics": "attributes"}


class Sender(threading.Thread):
    """An application, and what it has printed."""

    def __init__(self, signal: str, port: int, answered: queue.Queue[str]) -> None:
        super().__init__(daemon=True)
        self.signal, self._answered = signal, answered
        count, parts = COUNTS[signal], PARTS * (KILLS + 1)
        command = [sys.executable, "-m", "sources.otlp.sender", signal, str(port), str(count), str(parts)]
        self.process = subprocess.Popen(
            command, cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.times: dict[int, list[int]] = {}
        self.start()

    def allow(self) -> None:
        """Let it send the parts of one process."""
        assert self.process.stdin
        self.process.stdin.write("\n" * PARTS)
        self.process.stdin.flush()

    def close(self) -> None:
        """End it, if it has not ended."""
        self.process.kill()
        self.join(PATIENCE_SECONDS)
        with self.process:
            pass

    def run(self) -> None:
        """Read what it prints."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.times.update({int(number): times for number, times in json.loads(line).items()})
            self._answered.put(self.signal)


def test_what_the_sdk_sends_is_in_the_tables_through_kills(doomed, request) -> None:
    [port] = free_ports(1)
    soon = dict.fromkeys(("flush_interval", "commit_interval"), "1s")
    sink = {"table_identifier": 'otel.${getMetadata("signal")}', "auto_create": True, **soon}
    source = {"otlp": {"port": port, "grpc_port": None}}
    job = doomed(json.dumps({"telemetry": {"source": source, "sink": [{"iceberg": sink}]}}))
    answered: queue.Queue[str] = queue.Queue()
    senders = [Sender(signal, port, answered) for signal in COUNTS]
    for sender in senders:
        request.addfinalizer(sender.close)
    for point in itertools.islice(itertools.cycle(POINTS), KILLS):
        job.start(environment={VARIABLE: point})
        for sender in senders:
            sender.allow()
        if point == ANY_TIME:
            answered.get(timeout=PATIENCE_SECONDS)
            job.kill()
        job.has_died_at(point)
        while not answered.empty():
            answered.get()
    job.start()
    for sender in senders:
        sender.allow()
    for sender in senders:
        assert sender.process.wait(PATIENCE_SECONDS * 12) == 0, job.said()[-3000:]
        sender.join(PATIENCE_SECONDS)
    assert job.stop() == 0, job.said()[-3000:]
    for sender in senders:
        check(job.catalog().load_table(f"otel.{sender.signal}"), sender)


def check(table: Any, sender: Sender) -> None:
    """Compare each column of each row with what the application gave its SDK."""
    seen = bytearray(COUNTS[sender.signal])
    for batch in table.scan().to_arrow_batch_reader():
        for row in batch.to_pylist(maps_as_pydicts="strict"):
            number = int(row[MAPS[sender.signal]]["n"])
            assert row == numbered.row(sender.signal, number, sender.times)
            seen[number] += 1
    assert (seen.count(1), len(seen)) == (COUNTS[sender.signal],) * 2, sender.signal
