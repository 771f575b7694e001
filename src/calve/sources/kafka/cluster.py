"""Queries of the driver to the brokers: topics, partitions, and their first and last offsets.

Few topics that are named are described at every look. Of patterns, or many topics, the brokers' list is asked for
every `metadata_refresh`; between, only the ends of partitions are, and a batch's own topics are described again before
it is planned, so that one that was recreated is noticed.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
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
from confluent_kafka.admin import AclOperation, AdminClient, OffsetSpec

from calve.errors import SourceError
from calve.sources.kafka.client import GONE, REFUSED, ClientTrouble, translate
from calve.sources.kafka.deleted import topic_id
from calve.sources.kafka.settings import KafkaSettings
from calve.sources.kafka.topics import ChosenTopics

__all__ = ["Cluster", "OffsetRange", "Topic"]

ANSWER_SECONDS = 5.0
MANY_SECONDS = 30.0
"""The time limit of an answer about many topics."""
BROKERS_SECONDS = 2.0
MISSING_SECONDS = 3.0
"""How long a topic must be missing: a broker that just started may not know it yet."""
FEW = 10
"""So many topics are described at every look."""


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


@dataclass(frozen=True)
class _Described:
    """A topic as it was described last: its id, and the oldest offset of each partition."""

    id: str
    lows: Mapping[int, int]


class Cluster:
    """Queries the brokers of one source; every call ends within some seconds.

    Args:
        settings: The source's settings.

    Attributes:
        refused: Topics of patterns that Calve's user may not read, and why.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._trouble = ClientTrouble(settings.client())
        self._topics = ChosenTopics(settings.topics)
        self._refresh_seconds = settings.metadata_refresh.total_seconds()
        self._described: dict[str, _Described] = {}
        self._described_at = -math.inf
        self.refused: dict[str, str] = {}
        try:
            self._admin = AdminClient(self._trouble.client)
        except KafkaException as error:
            text = f"Kafka's client refuses its settings: {error.args[0].str()}"
            raise SourceError(text, step="read", target=settings.servers, hint="See `client_properties`") from error

    @property
    def is_always_fresh(self) -> bool:
        """Whether `topics` describes all topics."""
        return not self._topics.has_patterns and len(self._topics.names) <= FEW

    def topics(self) -> dict[str, Topic]:
        """Return the existing topics of the settings that can be read.

        Raises:
            SourceUnavailableError: The brokers do not answer.
        """
        is_stale = time.monotonic() - self._described_at >= self._refresh_seconds
        if self.is_always_fresh or is_stale:
            self.refused = {}
            described = self._describe_patiently({*self._topics.names, *self._matching()})
            self._described, self._described_at = self._with_lows(described), time.monotonic()
        return self._with_highs(self._described)

    def refreshed_topics(self, names: Collection[str]) -> dict[str, Topic]:
        """Return all topics like `topics`; those with these names are described again.

        Raises:
            SourceUnavailableError: The brokers do not answer.
        """
        anew = self._with_lows(self._describe(names))
        self._described = {name: topic for name, topic in self._described.items() if name not in names} | anew
        return self._with_highs(self._described)

    def at(self, topics: Mapping[str, Topic], timestamp_ms: int) -> dict[str, dict[int, int]]:
        """Return for each partition the offset of the first record at or after a time; without one that of its end.

        Raises:
            SourceUnavailableError: The brokers do not answer.
        """
        partitions = [TopicPartition(name, number) for name, topic in topics.items() for number in topic.partitions]
        spec = OffsetSpec.for_timestamp(timestamp_ms)
        asked = self._ask(partitions, spec, IsolationLevel.READ_UNCOMMITTED)
        offsets: dict[str, dict[int, int]] = {name: {} for name in topics}
        for partition, answer in asked.items():
            offset = self._answer(answer, f"offsets of topic {partition.topic}")
            end = topics[partition.topic].partitions[partition.partition].high
            offsets[partition.topic][partition.partition] = offset if offset >= 0 else end
        return offsets

    def _matching(self) -> set[str]:
        """Return the topics that match a pattern."""
        if not self._topics.has_patterns:
            return set()
        try:
            listed = self._admin.list_topics(timeout=ANSWER_SECONDS).topics
        except KafkaException as error:
            raise self._failed(error, "the list of topics") from error
        return {name for name in listed if self._topics.of(name)}

    def _describe_patiently(self, names: Collection[str]) -> dict[str, Any]:
        deadline = time.monotonic() + MISSING_SECONDS
        while True:
            descriptions = self._describe(names)
            if descriptions.keys() >= {*self._topics.names} or time.monotonic() > deadline:
                return descriptions
            time.sleep(0.2)

    def _describe(self, names: Collection[str]) -> dict[str, Any]:
        if not names:
            return {}
        asked = self._admin.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=_seconds(names)
        )
        descriptions: dict[str, Any] = {}
        for name, future in asked.items():
            try:
                descriptions[name] = future.result(_seconds(names) + 1)
            except (KafkaException, TimeoutError) as error:
                if _code(error) != KafkaError.UNKNOWN_TOPIC_OR_PART and not self._refuses(error, name):
                    raise self._failed(error, f"topic {name}") from error
        return {name: described for name, described in descriptions.items() if not self._is_unreadable(name, described)}

    def _is_unreadable(self, name: str, description: Any) -> bool:
        """Return whether the user may see a topic of a pattern, but not read it (KIP-430)."""
        allowed = description.authorized_operations
        if not allowed or {AclOperation.READ, AclOperation.ALL} & {*allowed} or self._topics.is_named(name):
            return False
        self.refused[name] = "Calve's user may not read it"
        return True

    def _refuses(self, error: Exception, name: str) -> bool:
        """Return whether the brokers refuse a topic of a pattern; one that is named ends the source."""
        if _code(error) not in REFUSED or self._topics.is_named(name):
            return False
        self.refused[name] = "Calve's user may not describe it"
        return True

    def _with_lows(self, descriptions: Mapping[str, Any]) -> dict[str, _Described]:
        numbers = {name: [part.id for part in description.partitions] for name, description in descriptions.items()}
        lows = self._offsets(numbers, OffsetSpec.earliest())
        return {name: _Described(topic_id(descriptions[name]), given) for name, given in lows.items()}

    def _with_highs(self, described: Mapping[str, _Described]) -> dict[str, Topic]:
        highs = self._offsets({name: topic.lows for name, topic in described.items()}, OffsetSpec.latest())
        return {
            name: Topic(
                described[name].id,
                {number: OffsetRange(low, highs[name][number]) for number, low in described[name].lows.items()},
            )
            for name in highs
        }

    def _offsets(self, partitions: Mapping[str, Iterable[int]], spec: OffsetSpec) -> dict[str, dict[int, int]]:
        """Return an offset of each partition, without topics of patterns that are gone or refused.

        Raises:
            SourceUnavailableError: The brokers do not answer.
        """
        by_level: dict[str, list[TopicPartition]] = defaultdict(list)
        for name, numbers in partitions.items():
            entry = self._topics.of(name)
            level_name = entry.isolation_level if entry else "read_committed"
            by_level[level_name] += [TopicPartition(name, number) for number in numbers]
        offsets: dict[str, dict[int, int]] = {name: {} for name in partitions}
        for level, asked in by_level.items():
            committed = level == "read_committed"
            isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
            for partition, answer in self._ask(asked, spec, isolation).items():
                if partition.topic in offsets and not self._is_gone(answer, partition.topic):
                    what = f"offsets of topic {partition.topic}"
                    offsets[partition.topic][partition.partition] = self._known_answer(answer, what)
                else:
                    offsets.pop(partition.topic, None)
        return offsets

    def _ask(self, partitions: list[TopicPartition], spec: OffsetSpec, level: IsolationLevel) -> dict[Any, Future[Any]]:
        if not partitions:
            return {}
        request = dict.fromkeys(partitions, spec)
        seconds = _seconds(partitions)
        asked: dict[Any, Any] = self._admin.list_offsets(request, isolation_level=level, request_timeout=seconds)
        return asked

    def _is_gone(self, answer: Future[Any], name: str) -> bool:
        """Return whether a topic of a pattern is gone or refused."""
        if self._topics.is_named(name):
            return False
        with suppress(TimeoutError):
            error = answer.exception(MANY_SECONDS + 1)
            if error is not None and _code(error) in GONE:  # described again at the next look
                self._described_at = -math.inf
                return True
            return isinstance(error, Exception) and self._refuses(error, name)
        return False

    def _known_answer(self, answer: Future[Any], what: str) -> int:
        offset = self._answer(answer, what)
        if offset < 0:
            raise self._failed(None, what)  # what librdkafka answers, without an error, when a connection breaks
        return offset

    def _answer(self, answer: Future[Any], what: str) -> int:
        try:
            offset: int = answer.result(MANY_SECONDS + 1).offset
        except (KafkaException, TimeoutError) as error:
            raise self._failed(error, what) from error
        return offset

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


def _seconds(asked: Collection[object]) -> float:
    return ANSWER_SECONDS if len(asked) <= FEW else MANY_SECONDS


def _code(error: BaseException) -> int | None:
    cause = error.args[0] if error.args else None
    return cause.code() if isinstance(cause, KafkaError) else None
