"""Moves the leaders of a topic on three brokers under a live pipeline: `make faults FAULTS="--leaders 6"`.

A producer (acks=all, idempotent) sends numbered events all the time. A move kills (-9) the broker that leads a
partition, waits until another one leads it and all events sent until then are committed, starts the broker again, and
waits until it leads its partitions again. At the end each event must be in the table
once, and nothing may be a dead letter.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from kit.running import Calve, until
from services.kafka_cluster import KafkaCluster

TOPIC, PIPELINE = "moved", "leaders"
PARTITIONS = 3
EVENTS = 50


@dataclass(frozen=True)
class Move:
    """One move of leaders.

    Attributes:
        broker: The broker that was killed.
        partitions: How many partitions it led.
        led_after: Seconds until others led all of them.
        on_after: Seconds from the kill until all events sent until then were committed.
        back_after: Seconds from its start until it led its partitions again, and all events until then were committed.
    """

    broker: int
    partitions: int
    led_after: float
    on_after: float
    back_after: float


class Feed:
    """Sends numbered events several times a second, each acknowledged by all replicas in sync."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.sent = 0
        self._producer = Producer(cluster.client(**{"enable.idempotence": True, "linger.ms": 5}))
        self._failed: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Send no more, and wait until all has arrived."""
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(300) == 0
        assert not self._failed, self._failed

    def _run(self) -> None:
        while not self._ended.wait(0.2):
            for number in range(self.sent, self.sent + EVENTS):
                self._producer.produce(TOPIC, b'{"id": %d}' % number, on_delivery=self._arrived)
            self.sent += EVENTS
            self._producer.poll(0)

    def _arrived(self, error: Any, _: Any) -> None:
        if error:
            self._failed.append(str(error))


def configuration(cluster: KafkaCluster) -> dict[str, Any]:
    """Return the pipeline that reads the topic."""
    source = {
        "bootstrap_servers": cluster.servers,
        "topics": [{"name": TOPIC, "group_id": PIPELINE}],
    }
    sink = {
        "table_identifier": "out.moved",
        "auto_create": True,
        "flush_interval": "200ms",
        "commit_interval": "400ms",
    }
    return {PIPELINE: {"source": {"kafka": source}, "sink": [{"iceberg": sink}]}}


def move(cluster: KafkaCluster, broker: int, committed: Callable[[], int], feed: Feed) -> Move:
    """Kill a broker, start it again, and give it back what it led; return how long each step took."""
    led = [partition for partition, leader in cluster.leaders(TOPIC).items() if leader == broker]
    cluster.nodes[broker].kill()
    killed = time.monotonic()
    until(
        lambda: all(leader not in (-1, broker) for leader in cluster.leaders(TOPIC).values()),
        "others lead",
    )
    led_after = time.monotonic() - killed
    wanted = feed.sent
    until(
        lambda: committed() >= wanted,
        "all events of the time without leaders are committed",
    )
    on_after = time.monotonic() - killed
    cluster.nodes[broker].start()
    started = time.monotonic()
    cluster.wait_for_replicas(TOPIC, PARTITIONS)
    until(
        lambda: sorted(cluster.leaders(TOPIC).values()) == [1, 2, 3],
        "each broker leads a partition again",
    )
    wanted = feed.sent
    until(lambda: committed() >= wanted, "all events until the election are committed")
    return Move(
        broker,
        len(led),
        round(led_after, 1),
        round(on_after, 1),
        round(time.monotonic() - started, 1),
    )


def play(calve: Calve, cluster: KafkaCluster, moves: int) -> tuple[list[Move], Counter[int], int]:
    """Move leaders under a pipeline; return the moves, the ids that the table has, and how many events were sent."""
    cluster.create_topic(TOPIC, PARTITIONS)
    calve.configure(json.dumps(configuration(cluster)))

    def committed() -> int:
        return sum(table["rows"] for table in calve.status(PIPELINE).get("tables", {}).values())

    feed, made = Feed(cluster), list[Move]()
    calve.start()
    try:
        calve.until(committed, "the first rows are committed")
        for number in range(moves):
            broker = cluster.leaders(TOPIC)[number % PARTITIONS]
            made.append(move(cluster, broker, committed, feed))
            print(f"  {made[-1]}", flush=True)
    finally:
        feed.end()
    calve.until(lambda: committed() >= feed.sent, "all events are committed")
    assert calve.stop() == 0
    return made, Counter(calve.rows("out.moved")["id"].to_pylist()), feed.sent


def run(folder: Path, moves: int) -> int:
    """Play on servers of its own; write the report, and return 1 if an event is missing, there twice or rejected."""
    calve = Calve(folder / "calve", "")
    with KafkaCluster(folder / "kafka") as cluster:
        try:
            made, found, sent = play(calve, cluster, moves)
        finally:
            calve.end()
    wanted, letters = Counter(range(sent)), len(calve.dead_letters(PIPELINE))
    lost, doubled = (wanted - found).total(), (found - wanted).total()
    report = {
        "sent": sent,
        "lost": lost,
        "duplicated": doubled,
        "dead_letters": letters,
    }
    (folder / "leaders.json").write_text(json.dumps(report | {"moves": [asdict(one) for one in made]}, indent=1))
    print(f"{moves} moves of leaders, {sent:,} events: {lost} lost, {doubled} duplicated, {letters} dead letters")
    return 1 if lost or doubled or letters else 0
