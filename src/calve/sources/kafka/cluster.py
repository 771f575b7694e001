"""Queries of the driver to the brokers: partitions, and their first and last offsets."""

from __future__ import annotations

import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from calve.errors import SourceError
from calve.sources.kafka.client import GONE, Trouble, translate
from calve.sources.kafka.settings import KafkaSettings, TopicSettings

__all__ = ["Cluster", "OffsetRange", "Topic"]

ANSWER_SECONDS = 5.0
BROKERS_SECONDS = 2.0
MISSING_SECONDS = 3.0
"""How long a topic must be missing: a broker that just started may not know it yet."""


@dataclass(frozen=True)
class OffsetRange:
    """The offsets of a partition: the oldest one, and the one after the last readable one."""

    low: int
    high: int


@dataclass(frozen=True)
class Topic:
    """The current topic; `id` changes when it is deleted and recreated (empty if the broker is too old)."""

    id: str
    partitions: dict[int, OffsetRange]


class Cluster:
    """Queries the brokers of one source; every call ends within some seconds."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._trouble = Trouble(settings.client())
        self._topics = {topic.name: topic for topic in settings.topics}
        try:
            self._admin = AdminClient(self._trouble.client)
        except KafkaException as error:
            text = f"Kafka's client refuses its settings: {error.args[0].str()}"
            raise SourceError(text, step="read", target=settings.servers, hint="See `client_properties`") from error

    def look(self) -> dict[str, Topic]:
        """Return the existing topics of the settings.

        Raises:
            SourceUnavailableError: The brokers do not answer.
        """
        described = self._describe_patiently()
        topics: dict[str, Topic] = {}
        for name, description in described.items():
            partitions = [TopicPartition(name, partition.id) for partition in description.partitions]
            topics[name] = Topic(_id(description), self._offset_ranges(self._topics[name], partitions))
        return topics

    def at(self, topics: dict[str, Topic], timestamp_ms: int) -> dict[str, dict[int, int]]:
        """Return for each partition the offset of the first record at or after a time; without one that of its end.

        Raises:
            SourceUnavailableError: The brokers do not answer.
        """
        offsets: dict[str, dict[int, int]] = {}
        for name, topic in topics.items():
            partitions = [TopicPartition(name, number) for number in topic.partitions]
            asked = self._offsets(partitions, OffsetSpec.for_timestamp(timestamp_ms), IsolationLevel.READ_UNCOMMITTED)
            answers = self._answers(asked, f"offsets of topic {name}")
            ends = {number: held.high for number, held in topic.partitions.items()}
            offsets[name] = {
                partition.partition: answers[partition].offset
                if answers[partition].offset >= 0
                else ends[partition.partition]
                for partition in partitions
            }
        return offsets

    def _describe_patiently(self) -> dict[str, Any]:
        deadline = time.monotonic() + MISSING_SECONDS
        while True:
            descriptions = self._describe()
            if len(descriptions) == len(self._topics) or time.monotonic() > deadline:
                return descriptions
            time.sleep(0.2)

    def _describe(self) -> dict[str, Any]:
        asked = self._admin.describe_topics(TopicCollection(list(self._topics)), request_timeout=ANSWER_SECONDS)
        descriptions: dict[str, Any] = {}
        for name, future in asked.items():
            try:
                descriptions[name] = future.result(ANSWER_SECONDS + 1)
            except (KafkaException, TimeoutError) as error:
                if _code(error) != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._failed(error, f"topic {name}") from error
        return descriptions

    def _offset_ranges(self, topic: TopicSettings, partitions: list[TopicPartition]) -> dict[int, OffsetRange]:
        committed = topic.isolation_level == "read_committed"
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = [self._offsets(partitions, spec, level) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())]
        what = f"offsets of topic {topic.name}"
        low, high = (self._answers(answers, what) for answers in asked)
        held = {
            partition.partition: OffsetRange(low[partition].offset, high[partition].offset) for partition in partitions
        }
        if any(min(ends.low, ends.high) < 0 for ends in held.values()):
            raise self._failed(None, what)  # what librdkafka answers, without an error, when a connection breaks
        return held

    def _offsets(self, partitions: list[TopicPartition], spec: OffsetSpec, level: IsolationLevel) -> dict[Any, Any]:
        request = dict.fromkeys(partitions, spec)
        asked: dict[Any, Any] = self._admin.list_offsets(request, isolation_level=level, request_timeout=ANSWER_SECONDS)
        return asked

    def _answers(self, asked: dict[Any, Future[Any]], what: str) -> dict[Any, Any]:
        try:
            return {key: future.result(ANSWER_SECONDS + 1) for key, future in asked.items()}
        except (KafkaException, TimeoutError) as error:
            raise self._failed(error, what) from error

    def _failed(self, error: Exception | None, what: str) -> SourceError:
        """Return Calve's error; only `_describe_patiently`, which asks again, may find that a topic does not exist."""
        self._find_brokers()
        self._admin.poll(0)  # delivers the client's errors
        if isinstance(error, KafkaException) and _code(error) not in GONE:
            return translate(error, what, self._trouble)
        return self._trouble.unavailable(what)

    def _find_brokers(self) -> None:
        """Ask any broker which brokers there are.

        librdkafka sends these queries to the controller that it knows, and would ask a dead one for five minutes
        (`topic.metadata.refresh.interval.ms`). The list of all topics creates none, unlike a query for one.
        """
        with suppress(KafkaException):
            self._admin.list_topics(timeout=BROKERS_SECONDS)


def _code(error: Exception) -> int | None:
    cause = error.args[0] if error.args else None
    return cause.code() if isinstance(cause, KafkaError) else None


def _id(description: Any) -> str:
    uuid = description.topic_id
    has_id = uuid is not None and (uuid.get_most_significant_bits() or uuid.get_least_significant_bits())
    return str(uuid) if has_id else ""
