"""The offsets of a consumer group: committed for tools that show lag, read only to rebuild a lost state (driver).

A consumer that is not a member of the group does it. The admin client's request would end the whole process, by an
assertion of librdkafka (its issue 4605), if the connection to the group's coordinator breaks at the wrong time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from calve.errors import SettingsError
from calve.sources.kafka.client import Trouble, translate

__all__ = ["Group"]

ANSWER_SECONDS = 5.0
POLL_SECONDS = 0.1
SETTINGS: dict[str, Any] = {
    "enable.auto.commit": False,
    "session.timeout.ms": 6000,  # bounds how long a commit waits for a coordinator, and how long closing takes
}


class Group:
    """A consumer group and its connection, which the first commit opens.

    Args:
        client: librdkafka's properties of any client of these brokers.
        name: The group.
        topic: The topic whose offsets are committed.
    """

    def __init__(self, client: dict[str, Any], name: str, topic: str) -> None:
        self._trouble = Trouble(SETTINGS | client | {"group.id": name})
        self._name = name
        self._topic = topic
        self._consumer: Consumer | None = None
        self._answers: dict[frozenset[tuple[int, int]], KafkaError | None] = {}

    def commit(self, offsets: dict[int, int]) -> None:
        """Commit the next offset of each partition; ends within some seconds, whatever the brokers do.

        Raises:
            SourceError: The brokers do not answer or refuse it, e.g. because the group has live members.
        """
        what = f"offsets of the group {self._name}"
        self._answers.clear()
        try:
            consumer = self._opened()
            behind = [TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]
            consumer.commit(offsets=behind, asynchronous=True)
            error = self._answer(consumer, frozenset(offsets.items()), what)
        except KafkaException as failed:
            raise translate(failed, what, self._trouble) from failed
        if error is not None:
            raise translate(error, what, self._trouble)

    def committed(self, partitions: Iterable[int]) -> dict[int, int]:
        """Return the next offset of each partition that the group has committed.

        Raises:
            SettingsError: It has committed none of a partition.
            SourceError: The brokers do not answer or refuse it.
        """
        what = f"offsets of the group {self._name}"
        asked = [TopicPartition(self._topic, partition) for partition in partitions]
        try:
            offsets = {answer.partition: answer.offset for answer in self._opened().committed(asked, ANSWER_SECONDS)}
        except KafkaException as failed:
            raise translate(failed, what, self._trouble) from failed
        if missing := [str(partition) for partition, offset in offsets.items() if offset < 0]:
            raise SettingsError(
                f"The group {self._name} has no offset of topic {self._topic}, partition {', '.join(missing)}",
                step="rebuild",
                target="--from group",
                hint="Correct `group_id`, or choose with --start-offsets or --start-timestamp",
            )
        return offsets

    def _opened(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(self._trouble.client | {"on_commit": self._note})
        return self._consumer

    def _answer(self, consumer: Consumer, asked: frozenset[tuple[int, int]], what: str) -> KafkaError | None:
        deadline = time.monotonic() + ANSWER_SECONDS
        while asked not in self._answers:
            if time.monotonic() > deadline:
                raise self._trouble.unavailable(what)  # librdkafka may still succeed; the next commit shows it
            consumer.poll(POLL_SECONDS)
        return self._answers[asked]

    def _note(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        errors = [error, *(partition.error for partition in partitions)]
        answered = frozenset((partition.partition, partition.offset) for partition in partitions)
        self._answers[answered] = next((cause for cause in errors if cause is not None), None)
