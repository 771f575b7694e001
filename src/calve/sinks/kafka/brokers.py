"""The brokers of a sink: their topics, the last transaction of a sink, and their failures as Calve's errors."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic

from calve.errors import CalveError, SinkRefusedError, SinkUnavailableError
from calve.sinks.kafka.refusals import OF_TOPICS, BatchMark
from calve.sinks.kafka.settings import KafkaSinkSettings
from calve.sources.kafka.client import LOGIN_HINT, ClientTrouble

__all__ = ["ANSWER_SECONDS", "UNAUTHORIZED", "Brokers"]

ANSWER_SECONDS = 15.0
_OF_TOPIC = "Allow Calve's user DESCRIBE, WRITE and READ on the topic"
_OF_GROUP = "Allow Calve's user READ and DESCRIBE on groups whose names begin with `calve-`"
_OF_ID = "Allow Calve's user WRITE and DESCRIBE on transactional ids that begin with `calve-`"
UNAUTHORIZED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _OF_TOPIC,
    KafkaError.GROUP_AUTHORIZATION_FAILED: _OF_GROUP,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _OF_ID,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "Create the topic, or allow Calve's user CREATE on it or on the cluster",
    KafkaError.SASL_AUTHENTICATION_FAILED: LOGIN_HINT,
    KafkaError._AUTHENTICATION: LOGIN_HINT,
}
"""What to do where a broker refuses Calve's user, by its code."""
_LOADING = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError._WAIT_COORD,
}
"""A coordinator's codes for a moment later: it moved, or a transaction is about to end."""
_NEEDED = {AclOperation.WRITE, AclOperation.READ}
"""Of a topic: records, and the offset of a transaction."""
_MISSING_SECONDS = 5.0
"""How long a topic that the brokers do not know may be one that they do not know yet."""


class Brokers:
    """Asks the brokers; on the driver and in tasks.

    Args:
        settings: The sink's settings.

    Raises:
        SinkRefusedError: librdkafka refuses the settings.
    """

    def __init__(self, settings: KafkaSinkSettings) -> None:
        self.trouble = ClientTrouble(settings.client())
        self._target = settings.target
        self._admin: AdminClient = self.opened(AdminClient, {})
        self._usable: set[str] = set()

    def opened(self, client: Any, more: dict[str, Any]) -> Any:
        """Return a client of these brokers with more properties.

        Raises:
            SinkRefusedError: librdkafka refuses them.
        """
        try:
            return client(self.trouble.client | more)
        except (KafkaException, ValueError, TypeError) as error:
            cause = error.args[0] if error.args else error
            text = cause.str() if isinstance(cause, KafkaError) else str(cause)
            raise self._refused(f"librdkafka refuses the settings: {text}", "Correct `client_properties`") from error

    def reach(self) -> None:
        """Check that a broker answers.

        Raises:
            SinkUnavailableError: None does.
        """
        try:
            self._admin.list_topics(timeout=ANSWER_SECONDS)
        except KafkaException as error:
            raise self.failed(error, "the list of topics") from error

    def unusable(self, topics: Collection[str], creates: bool = True) -> dict[str, int]:
        """Return the topics that take no records, with the code of the error.

        Args:
            topics: Their names.
            creates: Whether to create those that may be created; else they are usable.

        Raises:
            SinkUnavailableError: The brokers do not answer.
        """
        codes = self._faults(set(topics) - self._usable)
        if (missing := self._missing(codes)) and self._target.create_topic:
            codes = {name: code for name, code in codes.items() if name not in missing}
            codes |= self._create(missing) if creates else {}
        deadline = time.monotonic() + _MISSING_SECONDS  # a broker that just started, or a topic that is new
        while (missing := self._missing(codes)) and time.monotonic() < deadline:
            time.sleep(0.2)
            codes = {name: code for name, code in codes.items() if name not in missing} | self._faults(missing)
        self._usable |= set(topics) - codes.keys()
        return codes

    def mark(self, group: str) -> BatchMark:
        """Return the mark of the last committed transaction of a group; waits for one that is being committed.

        A consumer asks, not the admin client: that one ends the process where a transaction is not settled yet, or the
        group's broker changes (librdkafka 2.16, `rd_kafka_handle_OffsetFetch` without a consumer group).

        Raises:
            CalveError: The brokers do not answer, or refuse.
        """
        with closing(self.opened(Consumer, {"group.id": group})) as consumer:
            offsets = self._committed(consumer, group)
        marks = [BatchMark.of(at.offset, at.metadata) for at in offsets if at.error is None and at.offset > 0]
        return max(marks, key=lambda mark: mark.batch, default=BatchMark())

    def _committed(self, consumer: Consumer, group: str) -> list[TopicPartition]:
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            try:
                topics = consumer.list_topics(timeout=ANSWER_SECONDS).topics
                places = [TopicPartition(name, 0) for name in topics]
                offsets: list[TopicPartition] = consumer.committed(places, ANSWER_SECONDS)
                return offsets
            except KafkaException as error:
                message = consumer.poll(0.1)  # has the reason why there is no coordinator
                reason = message.error() if message is not None else None
                if reason is not None and reason.code() in UNAUTHORIZED:
                    raise self.failed(KafkaException(reason), f"the offsets of the group {group}") from error
                if error.args[0].code() not in _LOADING or time.monotonic() > deadline:
                    raise self.failed(error, f"the offsets of the group {group}") from error
                time.sleep(0.1)

    def failed(self, error: Exception | None, what: str) -> CalveError:
        """Return Calve's error for one of librdkafka."""
        cause = error.args[0] if isinstance(error, KafkaException) else None
        code = cause.code() if isinstance(cause, KafkaError) else None
        if code in UNAUTHORIZED and isinstance(cause, KafkaError):
            return self._refused(f"Kafka refuses {what}: {cause.str().rstrip('.')}", UNAUTHORIZED[code])
        self._admin.poll(0)  # delivers the client's errors
        if reason := self.trouble.refused_login:
            return self._refused(reason, LOGIN_HINT)
        failed = self.trouble.unavailable(what)
        passing = (None, KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
        message = failed.message if code in passing else f"Kafka at {self.trouble.servers} fails {what}: {cause}"
        return SinkUnavailableError(message, step="write", target=self.trouble.servers, hint=failed.hint)

    def refused_topic(self, name: str, code: int) -> CalveError:
        """Return the error of a topic that takes no records, if all events of a sink go to it."""
        hint = "Create it, or set `create_topic: true`" if code in OF_TOPICS else "Correct `topic`"
        return self._refused(f"Kafka refuses the topic {name}: {KafkaError(code).str()}", UNAUTHORIZED.get(code, hint))

    def _missing(self, codes: Mapping[str, int]) -> set[str]:
        return {name for name, code in codes.items() if code == KafkaError.UNKNOWN_TOPIC_OR_PART}

    def _faults(self, names: Collection[str]) -> dict[str, int]:
        if not names:
            return {}
        codes: dict[str, int] = {}
        asked = self._admin.describe_topics(
            TopicCollection(sorted(names)), include_authorized_operations=True, request_timeout=ANSWER_SECONDS
        )
        for name, future in asked.items():
            try:
                operations = {*(future.result(ANSWER_SECONDS + 1).authorized_operations or ())}
            except (KafkaException, TimeoutError) as error:
                codes[name] = self._code_of_topic(error, f"topic {name}")
            else:
                if operations and AclOperation.ALL not in operations and not operations >= _NEEDED:
                    codes[name] = KafkaError.TOPIC_AUTHORIZATION_FAILED
        return codes

    def _create(self, names: Collection[str]) -> dict[str, int]:
        target = self._target
        topics = [
            NewTopic(
                name, target.number_of_partitions or -1, target.replication_factor or -1, config=target.topic_properties
            )
            for name in names
        ]
        codes: dict[str, int] = {}
        for name, future in self._admin.create_topics(topics, request_timeout=ANSWER_SECONDS).items():
            try:
                future.result(ANSWER_SECONDS + 1)
            except (KafkaException, TimeoutError) as error:
                cause = error.args[0] if error.args else None
                if isinstance(cause, KafkaError) and cause.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                    continue
                code = self._code_of_topic(error, f"the new topic {name}")
                is_forbidden = code == KafkaError.TOPIC_AUTHORIZATION_FAILED  # to create it: it may be written
                codes[name] = KafkaError.CLUSTER_AUTHORIZATION_FAILED if is_forbidden else code
        return codes

    def _code_of_topic(self, error: Exception, what: str) -> int:
        """Return the code of an error that is this topic's alone; raise any other."""
        cause = error.args[0] if isinstance(error, KafkaException) else None
        code: int = cause.code() if isinstance(cause, KafkaError) else 0
        passes = isinstance(cause, KafkaError) and cause.retriable() and code != KafkaError.UNKNOWN_TOPIC_OR_PART
        if code <= 0 or passes:
            raise self.failed(error, what) from error
        return code

    def _refused(self, message: str, hint: str) -> CalveError:
        return SinkRefusedError(message, step="write", target=self.trouble.servers, hint=hint)
