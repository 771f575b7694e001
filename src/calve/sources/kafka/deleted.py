"""Topics that were deleted, perhaps recreated, between the plan of a batch and its reading (executors)."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from functools import lru_cache
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from calve.sources.kafka.client import ClientTrouble, translate
from calve.sources.kafka.consumer import Range
from calve.sources.kafka.record import OFFSET
from calve.sources.source import EVENT, MALFORMED

__all__ = ["letters", "topic_id", "topic_ids"]

_ANSWER_SECONDS = 10.0
_MISSING_SECONDS = 3.0
"""How long a topic must be missing: a broker that just started may not know it yet."""
_CONSUMERS_OWN = ("group.id", "auto.offset.reset", "isolation.level")


def topic_id(description: Any) -> str:
    """Return the id of a described topic (KIP-516); empty if the broker is too old."""
    uuid = description.topic_id
    has_id = uuid is not None and (uuid.get_most_significant_bits() or uuid.get_least_significant_bits())
    return str(uuid) if has_id else ""


def topic_ids(client: dict[str, Any], topics: Collection[str]) -> dict[str, str]:
    """Return the ids of those topics that exist.

    Raises:
        SourceError: The brokers do not answer.
    """
    trouble, deadline = ClientTrouble(client), time.monotonic() + _MISSING_SECONDS
    admin = _admin(tuple((name, value) for name, value in client.items() if name not in _CONSUMERS_OWN))
    ids: dict[str, str] = {}
    while len(ids) < len(topics):
        unknown = TopicCollection(sorted({*topics} - ids.keys()))
        for name, future in admin.describe_topics(unknown, request_timeout=_ANSWER_SECONDS).items():
            ids |= _id_of(name, future, trouble)
        if time.monotonic() > deadline:
            break
        time.sleep(0.2 * (len(ids) < len(topics)))
    return ids


def _id_of(name: str, future: Future[Any], trouble: ClientTrouble) -> dict[str, str]:
    """Return the id of a topic by its name; nothing if it does not exist."""
    try:
        return {name: topic_id(future.result(_ANSWER_SECONDS + 1))}
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise translate(error, f"topic {name}", trouble) from error
        return {}


def letters(deleted: Sequence[Range]) -> pa.RecordBatch:
    """Return a malformed event for each range that cannot be read any more, which becomes a dead letter."""
    reasons = [f"{span} were deleted with their topic before they were read" for span in deleted]
    return pa.record_batch(
        {
            EVENT: pa.nulls(len(deleted), pa.binary()),
            MALFORMED: pa.array(reasons),
            "kafka_topic": pa.array([span.topic for span in deleted]),
            "kafka_partition": pa.array([span.partition for span in deleted], pa.int32()),
            OFFSET: pa.array([span.start for span in deleted], pa.int64()),
        }
    )


@lru_cache(8)
def _admin(client: tuple[tuple[str, Any], ...]) -> AdminClient:
    return AdminClient({"log_level": 0, **dict(client)})
