"""The promise itself: whatever is killed, at whatever moment, nothing is lost and nothing is doubled."""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter

import pytest

from kit.running import PATIENCE_SECONDS, Calve, post
from services.process import free_ports

KILLS = int(os.environ.get("CALVE_KILLS", "2"))
TABLES = 5
PAUSE_SECONDS = 0.2
"""Between two requests, and two blocks of 200 events: it is about when a process dies, not about how much it has to do."""
YAML = """
stream:
  source:
    kafka:
      bootstrap_servers: ["{address}"]
      topics: [{{name: {topic}, group_id: crash, serde_format: json}}]
  sink:
    - iceberg:
        table_identifier: "crash.t${{/t}}"
        auto_create: true
        schema_evolution: true
        flush_interval: 200ms
        commit_interval: 400ms
intake:
  source:
    http: {{port: {port}}}
  sink:
    - iceberg:
        table_identifier: crash.intake
        auto_create: true
        flush_interval: 200ms
        commit_interval: 400ms
        maintenance: {{small_files: 5, quiet_after: 1s, share_of_cores: 1, max_snapshots: 12, least_snapshot_age: 0s}}
"""


class Producer(threading.Thread):
    """Sends events to Kafka, some of them bad, until it is told to end."""

    def __init__(self, broker, topic):
        super().__init__(daemon=True)
        self.broker, self.topic, self.ended = broker, topic, threading.Event()
        self.good, self.bad = 0, 0

    def run(self):
        while not self.ended.wait(PAUSE_SECONDS):
            block = []
            for _ in range(200):
                if random.random() < 0.02:
                    block.append(b'{"bad": %d, "t": ' % self.bad)
                    self.bad += 1
                else:
                    more = f', "f{self.good // 5_000}": true'  # a new field now and then
                    block.append(f'{{"id": {self.good}, "t": {self.good % TABLES}{more}}}'.encode())
                    self.good += 1
            self.broker.produce(self.topic, block, partitions=range(4))


class Client(threading.Thread):
    """Sends requests over HTTP and repeats each until it is acknowledged; half of them carry an `Idempotency-Key`."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.ended = port, threading.Event()
        self.sent, self.unanswered = 0, set()

    def run(self):
        while not self.ended.is_set():
            number = self.sent
            events = [{"request": number, "id": number * 20 + i} for i in range(20)]
            key = f"request-{number}" if number % 2 else ""
            while post(self.port, events, key, timeout=5) != 200:
                self.unanswered.add(number)
                time.sleep(0.02)
            self.sent += 1
            self.ended.wait(PAUSE_SECONDS)


@pytest.mark.crash
@pytest.mark.services
@pytest.mark.spark
def test_nothing_is_lost_and_nothing_doubled_when_the_process_group_is_killed_again_and_again(
    kafka_broker, spark, tmp_path
):
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    [port] = free_ports(1)
    kafka_broker.create_topic("crash", partitions=4)
    calve = Calve(tmp_path, YAML.format(address=kafka_broker.address, topic="crash", port=port), spark)
    producer, client = Producer(kafka_broker, "crash"), Client(port)
    producer.start()
    client.start()
    try:
        started = time.monotonic()
        calve.start()
        calve.until(lambda: calve.status("stream").get("tables"), "the first rows are committed")
        seconds = time.monotonic() - started
        calve.kill()
        for _ in range(KILLS - 1):
            calve.start()
            time.sleep(chance.uniform(0.25, 1.0) * seconds)  # start-up takes about half of it: kills fall anywhere
            calve.kill()
        producer.ended.set()
        producer.join()
        calve.start()
        calve.until(lambda: "maintained crash.intake: " in calve.said(), "its files are joined")
        client.ended.set()
        client.join(PATIENCE_SECONDS)
        calve.until(lambda: post(port, [], timeout=2) in (200, 400), "the source listens again")
        assert calve.stop() == 0, calve.said()[-2000:]
        assert calve.once() == 0, calve.said()[-2000:]
    finally:
        client.ended.set()
        producer.ended.set()
        calve.end()
    _check_stream(calve, producer, seed)
    _check_intake(calve, client, seed)


def _check_stream(calve, producer, seed):
    assert producer.good > 0
    found = Counter()
    for number in range(TABLES):
        rows = calve.rows(f"crash.t{number}")
        assert set(rows.column("t").to_pylist()) <= {number}
        found.update(rows.column("id").to_pylist())
    assert found == Counter(range(producer.good)), f"seed {seed}"
    bad = Counter(entry["event"] for entry in calve.dead_letters("stream"))
    assert bad == Counter(f'{{"bad": {number}, "t": ' for number in range(producer.bad)), f"seed {seed}"


def _check_intake(calve, client, seed):
    requests = Counter(calve.rows("crash.intake").column("id").to_pylist())
    assert set(requests) == set(range(client.sent * 20)), f"lost, seed {seed}"
    doubled = {event // 20 for event, times in requests.items() if times > 1}
    assert all(number % 2 == 0 for number in doubled), f"doubled in spite of its key, seed {seed}"
    assert doubled <= client.unanswered, f"doubled after an answer, seed {seed}"
