"""Topics of a pattern are created, grown, deleted and recreated while a pipeline is killed: each record is one row."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections import Counter
from pathlib import Path

import pytest
from pyiceberg.exceptions import NoSuchNamespaceError
from sqlalchemy.exc import OperationalError

from kit.running import Calve
from services.kafka import Kafka

pytestmark = [pytest.mark.crash, pytest.mark.services]

KILLS = int(os.environ.get("CALVE_TOPIC_KILLS", "1"))
TOPICS = int(os.environ.get("CALVE_TOPICS", "4"))
YAML = """
shop:
  source:
    kafka:
      bootstrap_servers: ["{address}"]
      metadata_refresh: 500ms
      on_lost_position: earliest  # a run that was killed cannot know whether a deleted topic was read completely
      topics: [{{pattern: 'crash[.].*', exclude: ['.*[.]private']}}]
  sink:
    - iceberg:
        table_identifier: shop.${{replaceRegex(getMetadata("kafka_topic"), "crash[.](.).*", "\\$1")}}
        auto_create: true
        metadata_columns: {{topic: kafka_topic}}
        flush_interval: 200ms
        commit_interval: 500ms
"""


class Topics:
    """The topics, and what was sent to them."""

    def __init__(self, broker: Kafka) -> None:
        self.broker = broker
        self.sent: Counter[tuple[str, int]] = Counter()
        self._numbers = itertools.count()

    def create(self, names: list[str]) -> None:
        self.broker.create_topics(names)
        producer = self.broker.producer()
        for name in names:
            producer.produce_batch(name, self._values(name, 20))
        self.broker.arrived(producer)

    def send(self, topic: str, partition: int = -1, count: int = 20) -> None:
        self.broker.produce(topic, [row["value"] for row in self._values(topic, count)], [partition])

    def _values(self, topic: str, count: int) -> list[dict[str, bytes]]:
        numbers = list(itertools.islice(self._numbers, count))
        self.sent.update((topic, number) for number in numbers)
        return [{"value": b'{"n":%d}' % number} for number in numbers]


def rows(job: Calve) -> Counter[tuple[str, int]]:
    tables = []
    with contextlib.suppress(NoSuchNamespaceError, OperationalError):  # nothing is written yet
        tables = [job.rows(name) for name in job.tables("shop")]
    return Counter((row["topic"], row["n"]) for table in tables for row in table.to_pylist())


def test_topics_come_grow_and_go_amid_kills_and_each_record_is_one_row(kafka_broker: Kafka, tmp_path: Path) -> None:
    topics, job = Topics(kafka_broker), Calve(tmp_path, YAML.format(address=kafka_broker.address))
    kafka_broker.create_topic("crash.private")
    kafka_broker.produce("crash.private", [b'{"n":-1}'])
    job.start()
    try:
        for kill in range(KILLS):
            names = [f"crash.{'ab'[number % 2]}{kill}-{number}" for number in range(TOPICS)]
            topics.create(names)
            job.until(lambda: rows(job).keys() & topics.sent.keys(), "the first rows")
            kafka_broker.add_partitions(names[0], 3)
            topics.send(names[0], 2)
            job.kill()
            topics.send(names[1])
            job.start()
            job.until(lambda: rows(job) == topics.sent, "every record is one row")
            kafka_broker.delete_topic(names[2])
            kafka_broker.delete_topic(names[3])
            kafka_broker.create_topic(names[3])
            topics.send(names[3], count=3)
            job.kill()
            job.start()
        job.until(lambda: rows(job) >= topics.sent, "every record is a row")
        assert job.stop() == 0, job.said()
        assert rows(job) == topics.sent
        assert list(job.dead_letters("shop")) == []
    finally:
        job.end()
