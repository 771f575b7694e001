"""Reading a range of offsets of one partition with librdkafka (executors, and a sample on the driver)."""

from __future__ import annotations

import atexit
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from calve.errors import SourceError
from calve.sources.kafka.client import Trouble, translate

__all__ = ["BLOCK_ROWS", "IDLE_SECONDS", "Range", "messages"]

BLOCK_ROWS = 1000
"""Messages taken at once: measured, small blocks that stay in the processor's cache are read 1.5 times as fast."""
BLOCK_BYTES = 8 << 20
FIRST_ROWS = 100
"""Messages of the first block, whose size is not known yet."""
IDLE_SECONDS = 15.0
"""How long a broker may give nothing of what it has."""
POLL_SECONDS = 0.1

SETTINGS: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,  # tells the end when the last offsets are no records (transactions, compaction)
    "queued.min.messages": 20_000,  # what is fetched ahead, and thrown away at the end of a range
    "queued.max.messages.kbytes": 32_768,
    "fetch.message.max.bytes": 2 << 20,
    "fetch.queue.backoff.ms": 10,  # the default of 1000 halves the rate
    "fetch.wait.max.ms": 20,
    "fetch.error.backoff.ms": 50,
}


@dataclass(frozen=True)
class Range:
    """The records of one partition from offset `start` up to, not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.partition}, offsets {self.start} to {self.end - 1}"


def messages(client: dict[str, Any], wanted: Range) -> Iterator[list[Message]]:
    """Yield every record of a range in order, in blocks; offsets that hold no record are passed over.

    Raises:
        SourceError: The broker does not answer, or the records are gone.
    """
    with _consumer(client) as (consumer, trouble):
        try:
            consumer.assign([TopicPartition(wanted.topic, wanted.partition, wanted.start)])
            yield from _blocks(consumer, wanted, trouble)
        except KafkaException as error:
            raise translate(error, str(wanted), trouble) from error


def _blocks(consumer: Consumer, wanted: Range, trouble: Trouble) -> Iterator[list[Message]]:
    at, rows, deadline = wanted.start, FIRST_ROWS, time.monotonic() + IDLE_SECONDS
    while at < wanted.end:
        got = consumer.consume(min(rows, wanted.end - at), POLL_SECONDS)
        if any(map(Message.error, got)):
            reached = _end_of_partition(got, wanted, trouble)
            got = [message for message in got if message.error() is None]
        else:
            reached = at
        if got:
            reached = max(reached, got[-1].offset() + 1)
            rows = max(1, min(BLOCK_ROWS, BLOCK_BYTES * len(got) // (sum(map(len, got)) or 1)))
            inside = got if reached <= wanted.end else [each for each in got if each.offset() < wanted.end]
            yield from [inside] if inside else []
        if reached > at:
            at, deadline = reached, time.monotonic() + IDLE_SECONDS
        elif time.monotonic() > deadline:
            raise trouble.unavailable(f"{wanted}, waited {IDLE_SECONDS:g} s at {at}")


def _end_of_partition(got: list[Message], wanted: Range, trouble: Trouble) -> int:
    """Give how far the partition is known to be read; any other error of the partition is raised.

    Errors without a topic are about the consumer group, which reading by ranges does not need.
    """
    reached = wanted.start
    for message in got:
        error = message.error()
        if error is not None and message.topic() is None:
            trouble.note(error)
        elif error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise translate(error, str(wanted), trouble)
        elif error is not None:
            reached = max(reached, message.offset())
    return reached


_idle: dict[tuple[tuple[str, str], ...], list[tuple[Consumer, Trouble]]] = {}


@contextmanager
def _consumer(client: dict[str, Any]) -> Iterator[tuple[Consumer, Trouble]]:
    """Lend a connected consumer of this process; one that failed is not used again."""
    idle = _idle.setdefault(tuple(sorted((key, str(value)) for key, value in client.items())), [])
    try:
        pair = idle.pop()
    except IndexError:
        pair = _open(client)
    try:
        yield pair
    except BaseException:
        pair[0].close()
        raise
    pair[0].unassign()
    idle.append(pair)


def _open(client: dict[str, Any]) -> tuple[Consumer, Trouble]:
    trouble = Trouble(SETTINGS | client)
    try:
        return Consumer(trouble.client), trouble
    except KafkaException as error:
        text = error.args[0].str()
        raise SourceError(
            f"Kafka's client refuses its settings: {text}", step="read", target=trouble.servers
        ) from error


@atexit.register
def _close() -> None:
    for idle in _idle.values():
        while idle:
            idle.pop()[0].close()
