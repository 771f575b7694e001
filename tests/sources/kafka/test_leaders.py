"""The queries of the driver to three brokers, one of which is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from calve.errors import SourceUnavailableError
from calve.sources.kafka.cluster import Cluster
from calve.sources.kafka.settings import KafkaSettings, TopicSettings
from kit.running import until
from services.kafka_cluster import KafkaCluster

pytestmark = pytest.mark.services

REFRESH_SECONDS = 300
"""librdkafka's own: so long it asks a dead controller."""


def test_a_dead_controller_does_not_keep_the_driver_from_the_other_brokers(tmp_path: Path) -> None:
    with KafkaCluster(tmp_path) as brokers:
        brokers.create_topic("events", partitions=1)
        cluster = Cluster(KafkaSettings(bootstrap_servers=brokers.servers, topics=[TopicSettings(name="events")]))

        def answers() -> bool:
            try:
                return cluster.topics()["events"].partitions[0].high == 0
            except SourceUnavailableError:
                return False

        until(answers, "the new topic has a leader")
        controller = cluster._admin.list_topics(timeout=60).controller_id
        brokers.nodes[controller].kill()
        until(answers, "the other brokers answer", seconds=REFRESH_SECONDS * 0.7)
