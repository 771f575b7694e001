"""A real Kafka broker (KRaft, one node) on free ports of loopback, with what tests do to it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path
from subprocess import run
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from calve.engine.jvm import jdk
from services import jars, process

VERSION = "4.3.1"
COORDINATES = (f"org.apache.kafka:kafka_2.13:{VERSION}", "org.slf4j:slf4j-simple:1.7.36")
JAVA_OPTIONS = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)
QUICK = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
STEADY = ("-Xms256m", "-Xmx512m", "-XX:+UseG1GC")
ANSWER_SECONDS = 120
PRODUCE_ROWS = 10_000
PRODUCE_QUEUE = 500_000

PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},BEHIND://127.0.0.1:{inner_port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},BEHIND://127.0.0.1:{proxy_port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,BEHIND:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
controlled.shutdown.enable=false
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
file.delete.delay.ms=100
log.retention.hours=-1
"""


def fetch() -> Path:
    """Download the broker's jars, once; give their folder."""
    return jars.resolve(f"kafka-{VERSION}", *COORDINATES)


class Kafka(process.Server):
    """One broker in a folder; killed and started again it keeps its ports and its data.

    Args:
        folder: Where data, settings and output go.
        port: The broker's port; 0 chooses a free one.
        options: More for the JVM; by default what makes it start soon, and `STEADY` for what is measured.

    Attributes:
        inner_port: For a proxy, which clients reach instead of the broker.
        proxy_port: The port of that proxy, set before the start; the broker names it to who comes through it.
    """

    def __init__(self, folder: Path, port: int = 0, options: Sequence[str] = QUICK) -> None:
        self.folder = folder
        self._options = options
        free = process.free_ports(3)
        self.port = port or free[0]
        self.controller_port, self.inner_port = free[1:]
        self.proxy_port = self.inner_port
        self._admin: AdminClient | None = None

    @property
    def address(self) -> str:
        """What `bootstrap_servers` takes."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start the broker and wait until it answers."""
        self.launch()
        return self.wait()

    def launch(self) -> None:
        """Start the broker; formats the folder the first time."""
        if not (self.folder / "data" / "meta.properties").exists():
            self._format()
        self._process = process.start(self._java("kafka.Kafka", str(self._properties)), self._log)

    def wait(self) -> Self:
        """Wait until the broker answers."""
        assert self._process
        process.wait_for_port(self._process, self.port, self._log)
        process.wait_until(self._answers, "the broker answers")
        return self

    @property
    def admin(self) -> AdminClient:
        """Kafka's own client for topics, groups and records."""
        if self._admin is None:
            self._admin = AdminClient(self.client())
        return self._admin

    def client(self, **more: Any) -> dict[str, Any]:
        """Settings of a client of this broker; it keeps quiet while the broker is down."""
        return {"bootstrap.servers": self.address, "log_level": 0, "reconnect.backoff.max.ms": 500} | more

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Create a topic and wait until the broker serves it; config with `_` for `.`."""
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dotted)
        self.admin.create_topics([topic])[name].result(ANSWER_SECONDS)
        process.wait_until(lambda: self._partitions(name) == partitions, f"topic {name} is there")

    def create_topics(self, names: Sequence[str]) -> None:
        """Create topics with one partition each, side by side, and wait until the broker serves them."""
        topics = [NewTopic(name, num_partitions=1, replication_factor=1) for name in names]
        for created in self.admin.create_topics(topics, operation_timeout=ANSWER_SECONDS).values():
            created.result(ANSWER_SECONDS)
        process.wait_until(lambda: self.admin.list_topics().topics.keys() >= {*names}, "the topics are there")

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        self.admin.delete_topics([name])[name].result(ANSWER_SECONDS)
        process.wait_until(lambda: self._partitions(name) == 0, f"topic {name} is gone")

    def add_partitions(self, name: str, total: int) -> None:
        """Give a topic more partitions."""
        self.admin.create_partitions([NewPartitions(name, total)])[name].result(ANSWER_SECONDS)
        process.wait_until(lambda: self._partitions(name) == total, f"topic {name} has {total} partitions")

    def delete_records(self, name: str, partition: int, before: int) -> None:
        """Drop the records of a partition before an offset, as retention would."""
        where = TopicPartition(name, partition, before)
        for future in self.admin.delete_records([where]).values():
            future.result(ANSWER_SECONDS)

    def produce(
        self,
        topic: str,
        values: Iterable[bytes | str | None],
        partitions: Sequence[int] = (-1,),
        keys: Iterable[bytes | str | None] | None = None,
    ) -> int:
        """Send values and wait until the broker has them; gives their number. A million take some seconds.

        Args:
            topic: An existing topic.
            values: None sends a tombstone.
            partitions: They get the values in turn; -1 leaves the choice to Kafka.
            keys: One per value.
        """
        producer = self.producer()
        sent = 0
        rows = (
            {"value": value, "key": key} for value, key in zip(values, keys or itertools.repeat(None), strict=False)
        )
        while block := list(itertools.islice(rows, PRODUCE_ROWS * len(partitions))):
            while len(producer) > PRODUCE_QUEUE - len(block):
                producer.poll(0.05)
            for turn, partition in enumerate(partitions):
                sent += producer.produce_batch(topic, block[turn :: len(partitions)], partition=partition)
        self.arrived(producer)
        return sent

    def producer(self, **more: Any) -> Producer:
        """Give a quick producer, e.g. for headers or transactions (`transactional.id`)."""
        quick = {
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": PRODUCE_QUEUE,
        }
        return Producer(self.client(**{**quick, "queue.buffering.max.kbytes": 256 << 10, **more}))

    def arrived(self, producer: Producer) -> None:
        """Wait until the broker has all that a producer was given.

        Raises:
            TimeoutError: Some did not arrive.
        """
        left = producer.flush(ANSWER_SECONDS)
        if left:
            raise TimeoutError(f"{left} messages did not arrive")

    def committed(self, topic: str) -> list[Message]:
        """Return the records of a topic that a reader of committed ones sees, partition by partition."""
        quiet = {"group.id": "kafka-test", "isolation.level": "read_committed", "enable.partition.eof": True}
        consumer = Consumer(self.client(**quiet, **{"enable.auto.commit": False}))
        records: list[Message] = []
        try:
            for partition in range(self._partitions(topic)):
                consumer.assign([TopicPartition(topic, partition, 0)])
                while (record := consumer.poll(ANSWER_SECONDS)) is not None and record.error() is None:
                    records.append(record)
                if record is None or record.error().code() != KafkaError._PARTITION_EOF:
                    raise TimeoutError(f"{topic} cannot be read: {record and record.error()}")
        finally:
            consumer.close()
        return records

    def settings(self) -> str:
        """Return the broker's settings."""
        ports = {"port": self.port, "controller_port": self.controller_port}
        behind = {"inner_port": self.inner_port, "proxy_port": self.proxy_port}
        return PROPERTIES.format(data=(self.folder / "data").absolute(), **ports, **behind)

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    @property
    def _log(self) -> Path:
        return self.folder / "kafka.log"

    def _format(self) -> None:
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        self._properties.write_text(self.settings())
        command = self._java("kafka.tools.StorageTool", "format", "-t", "calveTestCluster00000A")
        done = run([*command, "-c", str(self._properties)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"cannot format the broker's folder: {done.stdout[-2000:]}{done.stderr[-2000:]}")

    def _java(self, main: str, *arguments: str) -> list[str]:
        return [str(jdk.find().executable), *JAVA_OPTIONS, *self._options, "-cp", f"{fetch()}/*", main, *arguments]

    def _answers(self) -> bool:
        try:
            return bool(AdminClient(self.client()).list_topics(timeout=5).brokers)
        except Exception:  # not yet; `wait_until` has the bound
            return False

    def _partitions(self, name: str) -> int:
        found = self.admin.list_topics(timeout=ANSWER_SECONDS).topics.get(name)
        return len(found.partitions) if found and found.error is None else 0
