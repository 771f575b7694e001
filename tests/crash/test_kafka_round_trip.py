"""Kafka → Iceberg → Kafka: wherever the process dies, who reads committed records gets each change once, in order."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from crash.conftest import Doomed
from services.kafka import Kafka

KILLS = int(os.environ.get("CALVE_KAFKA_KILLS", "2"))
POINTS = (
    "task.after-send",
    "letters.after-send",
    "task.before-send",
    "ledger.before-stage",
    "commit.after-swap",
    "ledger.after-begin",
    "pipeline.after-stage",
    "ledger.before-begin",
    "pipeline.after-acknowledge",
    "commit.before-swap",
    "ledger.before-committed",
)
"""The process is killed at these points in turn."""
IN = """
in:
  source:
    kafka:
      bootstrap_servers: {address}
      topics: [{{name: {name}-in}}]
  sink:
    - iceberg:
        table_identifier: {name}.state
        auto_create: true
        operation: "${{/op}}"
        identifier_columns: [id]
        exclude_keys: [op]
        dlq: &dead {{kafka: {{topic: {name}-dead, bootstrap_servers: {address}, create_topic: true}}}}
    - iceberg:
        table_identifier: {name}.log
        auto_create: true
        table_properties: {{format-version: "3"}}
        dlq: *dead
"""
OUT = """
out:
  source:
    iceberg:
      tables: [{{table_name: {name}.state}}, {{table_name: {name}.log}}]
      polling_interval: 100ms
  sink:
    - kafka:
        bootstrap_servers: {address}
        topic: {{name: '${{getMetadata("iceberg_table_name")}}', create_topic: true, number_of_partitions: 2}}
        headers: {{snapshot: '${{getMetadata("iceberg_snapshot_id")}}'}}
"""


@pytest.mark.crash
@pytest.mark.spark
@pytest.mark.services("kafka")
def test_wherever_the_process_dies_each_change_is_there_once_and_in_order(
    kafka_broker: Kafka, doomed: Callable[[str], Doomed]
) -> None:
    name = f"trip{KILLS}"
    kafka_broker.create_topic(f"{name}-in", 2)
    calve = doomed(IN.format(name=name, address=kafka_broker.address))
    events = Events(kafka_broker, f"{name}-in")
    events.send()
    assert calve.once() == 0, calve.said()[-1500:]
    calve.configure((IN + OUT).format(name=name, address=kafka_broker.address))
    for kill in range(KILLS):
        point = POINTS[kill % len(POINTS)]
        events.send(bad=3 * point.startswith("letters."))
        calve.dies_at(point)
    for _ in range(2):  # the second run reads what the first one has written to the tables
        assert calve.once() == 0, calve.said()[-1500:]
    log = [json.loads(record.value()) for record in kafka_broker.committed(f"{name}.log")]
    assert Counter(event["n"] for event in log) == Counter(range(events.count))
    assert sorted(log, key=lambda event: event["n"]) == events.all
    state: dict[bytes, dict[str, Any]] = {}
    for record in kafka_broker.committed(f"{name}.state"):
        before = state.pop(record.key(), {"n": -1})
        if record.value() is not None:
            state[record.key()] = json.loads(record.value())
            assert state[record.key()]["n"] > before["n"], "a change came again, or after a newer one"
    assert {int(key): row for key, row in state.items()} == events.state
    assert calve.dead_letters("out") == []
    dead = kafka_broker.committed(f"{name}-dead")
    assert sorted((record.key(), record.value()) for record in dead) == sorted(events.bad)
    assert {dict(record.headers())["calve.code"] for record in dead} == {b"MALFORMED"}


class Events:
    """Changes of rows by id, and what they add up to."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self.kafka, self.topic, self.random = kafka, topic, random.Random(5)
        self.all: list[dict[str, Any]] = []
        self.state: dict[int, dict[str, Any]] = {}
        self.bad: list[tuple[bytes, bytes]] = []

    @property
    def count(self) -> int:
        return len(self.all)

    def send(self, bad: int = 0) -> None:
        """Send 200 changes, and so many records that are no events."""
        broken = [(f"k{number}\xff".encode("latin-1"), b"\xffno event") for number in range(bad)]
        self.kafka.produce(self.topic, [value for _, value in broken], keys=[key for key, _ in broken])
        self.bad += broken
        new = [self._event(number) for number in range(self.count, self.count + 200)]
        for parity in (0, 1):
            values = [json.dumps(event) for event in new if event["id"] % 2 == parity]
            self.kafka.produce(self.topic, values, partitions=(parity,))
        self.all += new

    def _event(self, number: int) -> dict[str, Any]:
        id_ = self.random.randrange(50)
        op = self.random.choice(("update", "update", "delete")) if id_ in self.state else "insert"
        event = {"id": id_, "n": number, "text": f"é{number}", "op": op}
        if op == "delete":
            self.state.pop(id_)
        else:
            self.state[id_] = {name: value for name, value in event.items() if name != "op"}
        return event
