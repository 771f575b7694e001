"""Sends one batch in one transaction. Runs on executors.

The transaction also commits an offset of a private group: the number of the batch, with what was refused of it. The
records and the offset become visible together, so a batch that comes again is recognized, whatever has died. Only one
process has the transactional id: a newer one ends the transaction of an older one, before it reads the mark.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from calve.errors import OvertakenError, SinkRefusedError, SinkUnavailableError
from calve.expression import compile_format
from calve.sinks.kafka.brokers import ANSWER_SECONDS, UNAUTHORIZED, Brokers
from calve.sinks.kafka.refusals import OF_RECORDS, OF_TOPICS, BatchMark, RecordRefusals
from calve.sinks.kafka.settings import KafkaSinkSettings
from calve.sinks.records.record import OutgoingRecord, size_bytes
from calve.stop_point import stop_at

__all__ = ["PATIENCE_SECONDS", "bounded", "send"]

_silent = logging.Logger("librdkafka")
_silent.addHandler(logging.NullHandler())
_PROPERTIES = {
    "partitioner": "murmur2_random",  # as Java's
    "message.max.bytes": 1_000_000_000,  # the topic decides
    "queue.buffering.max.messages": 500_000,
    "linger.ms": 5,
}
"""These may be set otherwise."""
_KEPT = {"enable.idempotence": True, "delivery.report.only.error": True, "logger": _silent}
_ALONE = {"batch.num.messages": 1}
"""Each record in a request of its own, so that a refused one is known."""
_FENCED = {KafkaError._FATAL, KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
PATIENCE_SECONDS = 2 * ANSWER_SECONDS
"""How long a call may take that has a timeout of its own."""
_MOST_METADATA = 4000
"""A broker's limit of an offset's metadata is 4,096 bytes (`offset.metadata.max.bytes`)."""
_open: dict[tuple[int, str, str], _Sender] = {}
"""The senders of this process, as it takes half a second to begin; one that failed is not used again."""
Records = Callable[[], Iterable[OutgoingRecord]]
"""Returns the records of a batch, in order; called for each attempt."""


def send(
    settings: KafkaSinkSettings, name: str, batch: int, topics: Collection[str], records: Records
) -> RecordRefusals:
    """Send a batch, unless its transaction is already committed; return what Kafka refuses of it.

    Args:
        settings: The sink's settings.
        name: The transactional id and the group, unique to the state and the sink.
        batch: The number of the batch.
        topics: The topics of the records.
        records: The records.

    Raises:
        SinkUnavailableError: The brokers do not answer.
        SinkRefusedError: They refuse Calve's user, or the only topic.
        OvertakenError: A later batch is already there.
    """
    key = os.getpid(), name, repr(sorted(settings.client().items()))
    sender, is_new = _open.pop(key, None), False
    while True:
        try:
            if sender is None:
                is_new = True
                sender = _Sender(settings, name)
            refusals = sender.send(batch, topics, records)
        except _FencedError as error:
            if is_new:
                raise SinkUnavailableError(
                    f"Another process sends as {name}", step="write", target=name, hint="Calve retries the batch"
                ) from error
            sender = None
        else:
            if sender.is_reusable:
                _open[key] = sender
            return refusals


def bounded(call: Callable[..., object], *arguments: Any) -> None:
    """Call a function of librdkafka that may ignore its timeout: https://github.com/confluentinc/librdkafka/issues/5456.

    A call that does not return keeps its thread and its producer, which sends no more: the next one has its id.

    Raises:
        TimeoutError: It does not return.
        Exception: What it raises.
    """
    outcome: Future[None] = Future()

    def run() -> None:
        try:
            call(*arguments)
            outcome.set_result(None)
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    outcome.result(PATIENCE_SECONDS)


class _FencedError(Exception):
    """A newer process has the transactional id, or the producer cannot be used any more."""


class _Sender:
    """Has a transactional id, until another one takes it."""

    def __init__(self, settings: KafkaSinkSettings, name: str) -> None:
        self.is_reusable = True
        self._name = name
        self._one_topic = compile_format(settings.target.name).static
        self._brokers = Brokers(settings)
        self._client = _PROPERTIES | settings.client_properties | _KEPT | {"transactional.id": name}
        self._failures: list[tuple[int, str, bytes | None, int]] = []
        group = self._brokers.opened(Consumer, {"group.id": name})
        self._group = group.consumer_group_metadata()
        group.close()
        self._producer = self._begun({})
        self._mark = self._brokers.mark(name)

    def send(self, batch: int, topics: Collection[str], records: Records) -> RecordRefusals:
        """Send a batch in one transaction; see `send`."""
        if self._mark.batch > batch:
            raise OvertakenError(
                f"Kafka has batch {self._mark.batch} of this state already, and this run sends batch {batch}",
                step="write",
                target=self._name,
                hint="Another run is ahead, or an older copy of the state was restored: start with the newest one",
            )
        if self._mark.batch == batch:
            return self._mark.refusals
        mark = BatchMark(batch, RecordRefusals(self._brokers.unusable(topics)))
        while not self._attempt(mark, records):
            pass
        self._mark = mark
        return mark.refusals

    def _attempt(self, mark: BatchMark, records: Records) -> bool:
        """Return whether the transaction is committed; if not, more is refused."""
        if self._one_topic in mark.refusals.topics:
            raise self._brokers.refused_topic(self._one_topic, mark.refusals.topics[self._one_topic])
        metadata, self._failures = mark.metadata, []
        if len(metadata) > _MOST_METADATA:
            raise SinkRefusedError(
                f"Kafka refuses too many topics of batch {mark.batch}, e.g. {min(mark.refusals.names)}",
                step="write",
                target=self._name,
                hint="Create the topics, set `create_topic: true`, or leave out their events with a route",
            )
        try:
            self._producer.begin_transaction()
            topic = self._produce(mark.refusals, records)
            if topic and not self._failures:  # else all is refused
                offsets = [TopicPartition(topic, 0, mark.batch, metadata)]
                bounded(self._producer.send_offsets_to_transaction, offsets, self._group, ANSWER_SECONDS)
                stop_at("task.before-send")
                bounded(self._producer.commit_transaction, ANSWER_SECONDS)
                stop_at("task.after-send")
                return True
            if not self._failures:  # nothing is left to send
                bounded(self._producer.abort_transaction, ANSWER_SECONDS)
        except (KafkaException, SystemError, TimeoutError) as error:
            if not self._failures:
                raise self._error(error) from error
        return self._learn(mark.refusals)

    def _produce(self, refusals: RecordRefusals, records: Records) -> str:
        """Give all records to librdkafka, and wait until they arrived; return the topic of the first one."""
        topic = ""
        for record in records():
            if refusals.reason(record) is None:
                topic = topic or record.target
                self._give(record)
            if self._failures:
                return ""
        waiting, deadline = len(self._producer), time.monotonic() + ANSWER_SECONDS
        while waiting and not self._failures:  # after one the others wait for the end of the transaction
            if (remaining := self._producer.flush(0.1)) < waiting:
                waiting, deadline = remaining, time.monotonic() + ANSWER_SECONDS
            elif time.monotonic() > deadline:
                raise self._brokers.failed(None, "records")
        return topic

    def _give(self, record: OutgoingRecord) -> None:
        while True:
            try:
                self._producer.produce(
                    record.target, record.value, record.key, headers=record.headers, on_delivery=self._delivered
                )
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:  # what librdkafka refuses itself, such as more than message.max.bytes
                if error.args[0].code() not in OF_TOPICS | OF_RECORDS:
                    raise
                self._failures.append((error.args[0].code(), record.target, record.key, record.size_bytes))
                return
            else:
                self._producer.poll(0)
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() in OF_TOPICS | OF_RECORDS:
            size = size_bytes(message.key(), message.value(), message.headers() or ())
            self._failures.append((error.code(), message.topic() or "", message.key(), size))

    def _learn(self, refusals: RecordRefusals) -> bool:
        """Add what was refused, or send alone what was refused together; return whether nothing was."""
        for failure in self._failures:
            if failure[0] in OF_TOPICS or not self.is_reusable:
                refusals.add(*failure)
        if not self._failures:
            return True
        self.is_reusable &= all(failure[0] in OF_TOPICS for failure in self._failures)
        self._producer = self._begun({} if self.is_reusable else _ALONE)  # aborts the transaction
        return False

    def _begun(self, more: dict[str, Any]) -> Producer:
        """Return a producer that has the transactional id: what an older one sent is committed or aborted."""
        producer: Producer = self._brokers.opened(Producer, self._client | more)
        try:
            bounded(producer.init_transactions, ANSWER_SECONDS)
        except (KafkaException, SystemError, TimeoutError) as error:
            raise self._error(error) from error
        return producer

    def _error(self, error: Exception) -> Exception:
        error = error.__cause__ if isinstance(error.__cause__, KafkaException) else error  # raised within a callback
        cause = error.args[0] if error.args else None
        is_refused = isinstance(cause, KafkaError) and cause.code() in UNAUTHORIZED  # librdkafka calls it fatal
        if isinstance(cause, KafkaError) and (cause.code() in _FENCED or cause.fatal()) and not is_refused:
            return _FencedError(str(cause))
        return self._brokers.failed(error, "a transaction")
