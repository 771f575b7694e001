"""Three real Kafka brokers (KRaft, each also a controller) whose leaders a test moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka.admin import NewTopic

from services import process
from services.kafka import ANSWER_SECONDS, QUICK, Kafka

BROKERS = 3
PROPERTIES = """
node.id={node}
controller.quorum.voters={voters}
offsets.topic.replication.factor={brokers}
transaction.state.log.replication.factor={brokers}
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor={brokers}
share.coordinator.state.topic.min.isr=2
min.insync.replicas=2
leader.imbalance.check.interval.seconds=1
leader.imbalance.per.broker.percentage=0
"""
"""Of one broker, behind those of a broker alone: the last value of a key counts.

A replica that comes first for a partition leads it again, a second or two after it is in sync.
"""


class _Node(Kafka):
    """One broker of a cluster."""

    def __init__(self, folder: Path, number: int) -> None:
        super().__init__(folder, options=QUICK)
        self.number = number
        self.voters = ""

    def settings(self) -> str:
        """Return the broker's settings."""
        return super().settings() + PROPERTIES.format(node=self.number, voters=self.voters, brokers=BROKERS)


class KafkaCluster:
    """Brokers in a folder, numbered from 1; a topic has a replica on each of them."""

    def __init__(self, folder: Path) -> None:
        self.nodes = {number: _Node(folder / f"broker-{number}", number) for number in range(1, BROKERS + 1)}
        voters = ",".join(f"{number}@127.0.0.1:{node.controller_port}" for number, node in self.nodes.items())
        for node in self.nodes.values():
            node.voters = voters

    def start(self) -> KafkaCluster:
        """Start all brokers, and wait until they answer."""
        for node in self.nodes.values():
            node.launch()
        for node in self.nodes.values():
            node.wait()
        return self

    def stop(self) -> None:
        """Stop all brokers; may be called twice."""
        for node in self.nodes.values():
            node.kill()

    def __enter__(self) -> KafkaCluster:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def servers(self) -> list[str]:
        """What `bootstrap_servers` takes."""
        return [node.address for node in self.nodes.values()]

    @property
    def any(self) -> Kafka:
        """A broker that runs, for its client of topics; it knows all others."""
        return next(node for node in self.nodes.values() if node.pid)

    def client(self, **more: Any) -> dict[str, Any]:
        """Settings of a client that knows all brokers."""
        return self.any.client(**{"bootstrap.servers": ",".join(self.servers)}) | more

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic and wait until each partition has a leader and all replicas."""
        topic = NewTopic(name, num_partitions=partitions, replication_factor=BROKERS)
        self.any.admin.create_topics([topic])[name].result(ANSWER_SECONDS)
        self.wait_for_replicas(name, partitions)

    def leaders(self, topic: str) -> dict[int, int]:
        """Return the broker that leads each partition; -1: none does."""
        return {number: found.leader for number, found in self._partitions(topic).items()}

    def wait_for_replicas(self, topic: str, partitions: int) -> None:
        """Wait until all replicas of a topic are in sync."""

        def are_in_sync() -> bool:
            found = self._partitions(topic)
            return len(found) == partitions and all(len(each.isrs) == BROKERS for each in found.values())

        process.wait_until(are_in_sync, f"all replicas of {topic} are in sync")

    def _partitions(self, topic: str) -> dict[int, Any]:
        found = self.any.admin.list_topics(timeout=ANSWER_SECONDS).topics.get(topic)
        return dict(found.partitions) if found and found.error is None else {}
