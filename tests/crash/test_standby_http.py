"""With `durable: replicated` a standby takes over the accepted events of a driver that was killed, paused or cut off.

A client sends numbered events, and each again until it is answered 200. In the end each number is in the table once.
"""

from __future__ import annotations

import http.client
import itertools
import json
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crash.test_standby import KILLS
from kit.running import until
from matrix.takeovers import STRIKES, Driver, Drivers
from services.objects import ObjectStore
from services.process import free_ports

pytestmark = [pytest.mark.spark, pytest.mark.services, pytest.mark.crash]

YAML = """
orders:
  source:
    http: {{port: {port}, durable: replicated}}
  sink:
    - iceberg:
        table_identifier: shop.orders
        auto_create: true
        schema: {{columns: [{{name: id, type: long}}]}}
        flush_interval: 100ms
        commit_interval: 300ms
"""
CLIENTS = 4


class Receivers(Drivers):
    """Drivers that listen, each on a port of its own."""

    def __init__(self, folder: Path, state: str, environment: dict[str, str]) -> None:
        super().__init__(folder, state, environment)
        self.ports: list[int] = []

    def start(self) -> Driver:
        self.ports = [*free_ports(1), *self.ports]
        self.yaml = YAML.format(port=self.ports[0])
        return super().start()


class Client(threading.Thread):
    """Sends events one after the other, each with its key, to whoever answers 200."""

    def __init__(self, receivers: Receivers, numbers: Iterator[int]) -> None:
        super().__init__()
        self._receivers = receivers
        self._numbers = numbers
        self.ended = threading.Event()
        self.answered = 0
        self.refused: list[int] = []

    def run(self) -> None:
        while not self.ended.is_set():
            number = next(self._numbers)
            while not any(self._send(port, number) for port in self._receivers.ports):
                time.sleep(0.05)
            self.answered += 1

    def _send(self, port: int, number: int) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3)
        try:
            connection.request("POST", "/log/ingest", json.dumps([{"id": number}]), {"Idempotency-Key": f"n{number}"})
            status = connection.getresponse().status
            self.refused += [status] if status != 200 else []
            return status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@pytest.fixture
def receivers(tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receivers]:
    for name, value in object_store.environment().items():
        monkeypatch.setenv(name, value)
    made = Receivers(tmp_path / "calve", object_store.place("standby-http"), object_store.environment())
    yield made
    for one in made.all:
        one.end()
        one.relay.close()


def test_each_event_that_was_answered_200_is_there_once_when_receivers_are_killed_paused_and_cut_off(
    receivers: Receivers,
) -> None:
    numbers = itertools.count()
    clients = [Client(receivers, numbers) for _ in range(CLIENTS)]
    leader = receivers.start()
    for client in clients:
        client.start()
    try:
        receivers.leads(leader)
        for strike in itertools.islice(itertools.cycle(STRIKES.values()), KILLS):
            standby = receivers.start()
            receivers.waits(standby)
            time.sleep(random.random() * 0.5)  # anywhere in a group, and in a batch
            strike(leader)
            receivers.leads(standby)
            leader.wake()
            leader = standby
    finally:
        for client in clients:
            client.ended.set()
        for client in clients:
            client.join()
    answered = sum(client.answered for client in clients)
    until(lambda: len(leader.rows("shop.orders")) >= answered, "all events are in the table")
    assert leader.stop() == 0
    assert sorted(leader.rows("shop.orders")["id"].to_pylist()) == list(range(answered))
