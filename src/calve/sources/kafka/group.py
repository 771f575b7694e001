"""The offsets of a consumer group: committed for tools that show lag, read only to rebuild a lost state (driver).

A consumer that is not a member of the group does it. The admin client's request would end the whole process, by an
assertion of librdkafka (its issue 4605), if the connection to the group's coordinator breaks at the wrong time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from calve.errors import SettingsError
from calve.sources.kafka.client import ClientTrouble, translate
from calve.sources.kafka.cluster import Topic
from calve.sources.kafka.settings import KafkaSettings
from calve.sources.kafka.topics import ChosenTopics

__all__ = ["ConsumerGroup", "Groups"]

ANSWER_SECONDS = 5.0
POLL_SECONDS = 0.1
SETTINGS: dict[str, Any] = {
    "enable.auto.commit": False,
    "session.timeout.ms": 6000,  # bounds how long a commit waits for a coordinator, and how long closing takes
}

_Offset = tuple[str, int, int]
"""A topic, a partition and the next offset."""


class ConsumerGroup:
    """A consumer group and its connection, which the first commit opens.

    Args:
        client: librdkafka's properties of any client of these brokers.
        name: The group.
    """

    def __init__(self, client: dict[str, Any], name: str) -> None:
        self._trouble = ClientTrouble(SETTINGS | client | {"group.id": name})
        self._name = name
        self._consumer: Consumer | None = None
        self._answers: dict[frozenset[_Offset], KafkaError | None] = {}

    def commit(self, offsets: Iterable[_Offset]) -> None:
        """Commit offsets, each with its topic and partition; ends within some seconds, whatever the brokers do.

        Raises:
            SourceError: The brokers do not answer or refuse it, e.g. because the group has live members.
        """
        what = f"offsets of the group {self._name}"
        self._answers.clear()
        try:
            consumer = self._opened()
            asked = frozenset(offsets)
            consumer.commit(offsets=[TopicPartition(*offset) for offset in asked], asynchronous=True)
            error = self._answer(consumer, asked, what)
        except KafkaException as failed:
            raise translate(failed, what, self._trouble) from failed
        if error is not None:
            raise translate(error, what, self._trouble)

    def committed(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Return the next offset of each partition of a topic that the group has committed.

        Raises:
            SettingsError: It has committed none of a partition.
            SourceError: The brokers do not answer or refuse it.
        """
        what = f"offsets of the group {self._name}"
        asked = [TopicPartition(topic, partition) for partition in partitions]
        try:
            offsets = {answer.partition: answer.offset for answer in self._opened().committed(asked, ANSWER_SECONDS)}
        except KafkaException as failed:
            raise translate(failed, what, self._trouble) from failed
        if missing := [str(partition) for partition, offset in offsets.items() if offset < 0]:
            raise SettingsError(
                f"The group {self._name} has no offset of topic {topic}, partition {', '.join(missing)}",
                step="rebuild",
                target="--from group",
                hint="Correct `group_id`, or choose with --start-offsets or --start-timestamp",
            )
        return offsets

    def _opened(self) -> Consumer:
        if self._consumer is None:
            self._consumer = Consumer(self._trouble.client | {"on_commit": self._note})
        return self._consumer

    def _answer(self, consumer: Consumer, asked: frozenset[_Offset], what: str) -> KafkaError | None:
        deadline = time.monotonic() + ANSWER_SECONDS
        while asked not in self._answers:
            if time.monotonic() > deadline:
                raise self._trouble.unavailable(what)  # librdkafka may still succeed; the next commit shows it
            consumer.poll(POLL_SECONDS)
        return self._answers[asked]

    def _note(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        errors = [error, *(partition.error for partition in partitions)]
        answered = frozenset((given.topic, given.partition, given.offset) for given in partitions)
        self._answers[answered] = next((cause for cause in errors if cause is not None), None)


class Groups:
    """The consumer groups of a source.

    Args:
        settings: The source's settings.
        topics: The entries of its `topics`.
    """

    def __init__(self, settings: KafkaSettings, topics: ChosenTopics) -> None:
        self._topics = topics
        names = {entry.group_id for entry in settings.topics if entry.group_id}
        self._groups = {name: ConsumerGroup(settings.client(), name) for name in names}

    def commit(self, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Commit offsets, by topic and partition.

        Raises:
            SourceError: The brokers do not answer or refuse it.
        """
        by_group: dict[str, set[_Offset]] = {}
        for topic, given in offsets.items():
            if (entry := self._topics.of(topic)) and entry.group_id:
                by_group.setdefault(entry.group_id, set()).update((topic, *offset) for offset in given.items())
        for name, asked in by_group.items():
            self._groups[name].commit(asked)

    def committed(self, topics: Mapping[str, Topic]) -> dict[str, dict[int, int]]:
        """Return the next offsets that the groups of topics have committed.

        Raises:
            SettingsError: A topic has no group, or its group has no offset of a partition.
            SourceError: The brokers do not answer or refuse it.
        """
        entries = {name: self._topics.of(name) for name in topics}
        if lacking := [name for name, entry in entries.items() if entry is None or not entry.group_id]:
            text = f"No consumer group is configured for topic {lacking[0]}"
            raise SettingsError(text, step="rebuild", target="--from group", hint="Set its `group_id`")
        return {
            name: self._groups[entry.group_id].committed(name, topics[name].partitions)
            for name, entry in entries.items()
            if entry and entry.group_id
        }
