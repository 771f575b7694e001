from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from calve.state.folder import StateFolder
from calve.state.store_folder import StoreFolder
from services.objects import ObjectStore
from sources.http import pipeline
from sources.http.serving import until

KILLS = int(os.environ.get("CALVE_KILLS", "4"))
CLIENTS = 4


class Process:
    """The pipeline's process, killed and started again on the same folder, or with its log on an object store."""

    def __init__(self, folder: Path, log: StateFolder | None = None, environment: dict[str, str] | None = None) -> None:
        self._arguments = [str(folder), *([str(log)] if log else [])]
        self._environment = {**os.environ, **(environment or {})}
        self.start()

    def start(self) -> None:
        command = [sys.executable, pipeline.__file__, *self._arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self._environment)
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the process did not come up again"
        self.port = int(line)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()


class Client(threading.Thread):
    """Sends numbered requests and sends each one again until it is answered 200."""

    def __init__(self, name: str, process: Process, keys: bool) -> None:
        super().__init__()
        self.client = name
        self.keys = keys
        self.enough = threading.Event()
        self.acknowledged: list[int] = []
        self.unanswered: Counter[int] = Counter()
        self._process = process

    def run(self) -> None:
        number = 0
        while not self.enough.is_set():
            if self._send(number):
                self.acknowledged.append(number)
                number += 1
            else:
                self.unanswered[number] += 1

    def _send(self, number: int) -> bool:
        body = json.dumps([{"client": self.client, "request": number, "i": i} for i in range(3)])
        headers = {"Idempotency-Key": f"{self.client}-{number}"} if self.keys else {}
        connection = http.client.HTTPConnection("127.0.0.1", self._process.port, timeout=10)
        try:
            connection.request("POST", "/log/ingest", body, headers)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@pytest.mark.crash
def test_kill_9_at_any_moment_loses_nothing_and_doubles_only_what_was_not_answered(tmp_path: Path) -> None:
    kill_and_compare(Process(tmp_path), tmp_path)
    assert len(list((tmp_path / "http").glob("*.log"))) <= 2


@pytest.mark.crash
@pytest.mark.services
def test_kill_9_at_any_moment_loses_nothing_of_a_replicated_log_though_nothing_is_on_the_disk(
    tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in object_store.environment().items():
        monkeypatch.setenv(name, value)
    log = StoreFolder.at(object_store.place("killed/http"))
    kill_and_compare(Process(tmp_path, log), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["batches"]
    assert len((log / "log").names()) <= KILLS + 100, "released events stay on the store"


def kill_and_compare(process: Process, folder: Path) -> None:
    """Kill a process again and again under load, and compare what it committed with what it answered."""
    clients = [Client(str(number), process, keys=number % 2 == 0) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    seed = random.randrange(1 << 30)
    moments = random.Random(seed)
    for _ in range(KILLS):
        target = sum(len(client.acknowledged) for client in clients) + moments.randrange(1, 60)
        until(lambda target=target: sum(len(client.acknowledged) for client in clients) >= target)
        process.kill()
        process.start()
    for client in clients:
        client.enough.set()
        client.join()
    wanted = {(c.client, number, i) for c in clients for number in c.acknowledged for i in range(3)}
    until(lambda: wanted <= set(committed(folder)))
    process.kill()

    found = committed(folder)
    for client in clients:
        for number in client.acknowledged:
            counts = {found[client.client, number, i] for i in range(3)}
            most = 1 if client.keys else 1 + client.unanswered[number]
            assert len(counts) == 1, f"a request was torn (seed {seed})"
            assert 1 <= counts.pop() <= most, f"client {client.client} request {number} (seed {seed})"


def committed(folder: Path) -> Counter[tuple[str, int, int]]:
    """Count the events of all batches."""
    return Counter(
        (event["client"], event["request"], event["i"])
        for path in pipeline.committed(folder)
        for event in json.loads(path.read_text())["events"]
    )
