"""The first records of a topic, to set up a pipeline: of which format they are, and what identifies a row."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from calve.sources.kafka.client import ClientTrouble, translate
from calve.sources.kafka.consumer import SETTINGS
from calve.sources.kafka.settings import KafkaSettings

__all__ = ["TopicPreview", "preview"]

_MOST_RECORDS = 20
_ANSWER_SECONDS, _READ_SECONDS = 5.0, 3.0
_MAGIC = b"\0"
_ID_BYTES = 5


@dataclass(frozen=True)
class TopicPreview:
    """A topic.

    Attributes:
        others: The topics of the brokers, if this one does not exist.
        serde_format: The format of its records; empty: there are none, or it needs a registry that is not known.
        schema_ids: The ids of the schemas in the records, if they have some.
        key: The fields that identify a row, by the keys of the records.
        events: The values that are JSON objects.
        has_schema: Whether Connect's schema is in the values.
    """

    others: tuple[str, ...] = ()
    serde_format: str = ""
    schema_ids: tuple[int, ...] = ()
    key: tuple[str, ...] = ()
    events: tuple[bytes, ...] = ()
    has_schema: bool = False


def preview(settings: KafkaSettings) -> TopicPreview:
    """Return what the first records of the first topic are.

    Raises:
        SourceError: The brokers refuse.
        SourceUnavailableError: The brokers do not answer.
    """
    trouble, topic = ClientTrouble(settings.client()), settings.topics[0].name
    consumer = Consumer({**trouble.client, **SETTINGS, "group.id": "calve-init", "auto.offset.reset": "earliest"})
    try:
        topics = consumer.list_topics(timeout=_ANSWER_SECONDS).topics
        if topic not in topics:
            return TopicPreview(tuple(sorted(name for name in topics if not name.startswith("_"))))
        places = [TopicPartition(topic, number, 0) for number in topics[topic].partitions]
        for place in places:
            place.offset = consumer.get_watermark_offsets(place, _ANSWER_SECONDS)[0]
        consumer.assign(places)
        return _described(_records(consumer))
    except KafkaException as error:
        raise translate(error, f"topic {topic}", trouble) from error
    finally:
        consumer.close()


def _records(consumer: Consumer) -> list[Message]:
    records: list[Message] = []
    until = time.monotonic() + _READ_SECONDS
    while len(records) < _MOST_RECORDS and time.monotonic() < until:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None and message.value():
            records.append(message)
    return records


def _described(records: Sequence[Message]) -> TopicPreview:
    values = [bytes(message.value()) for message in records]
    key = _fields_of(records[0].key()) if records else ()
    if not values:
        return TopicPreview()
    if all(value[:1] == _MAGIC and len(value) > _ID_BYTES for value in values):
        ids = {int.from_bytes(value[1:_ID_BYTES], "big") for value in values}
        return TopicPreview(schema_ids=tuple(sorted(ids)), key=key)
    objects = [_object(value) for value in values]
    events = tuple(value for value, event in zip(values, objects, strict=True) if event is not None)
    first = next((event for event in objects if event is not None), None)
    if first is None:
        is_text = all(_is_text(value) for value in values)
        return TopicPreview(serde_format="plaintext" if is_text else "bytes", key=key)
    payload = first.get("payload") if isinstance(first.get("schema"), dict) else first
    is_change = isinstance(payload, dict) and "op" in payload and {"before", "after"} & payload.keys()
    return TopicPreview((), "debezium" if is_change else "json", (), key, events, payload is not first)


def _fields_of(key: bytes | None) -> tuple[str, ...]:
    """Return the fields of a key that is a JSON object, with Connect's schema or without."""
    content = _object(key or b"")
    if content is None:
        return ()
    payload = content.get("payload") if isinstance(content.get("schema"), dict) else content
    return tuple(map(str, payload)) if isinstance(payload, dict) else ()


def _object(value: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(value)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
