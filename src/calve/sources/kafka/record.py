"""Converts records of Kafka to columns: the event in its form, and its metadata."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Message

from calve.sources.kafka.settings import RECORD
from calve.sources.source import EVENT

__all__ = ["COSTLY", "KEY", "OFFSET", "EventForm", "Records", "batch", "costly"]

MESSAGE = "message"
KEY = "kafka_key"
OFFSET = "kafka_offset"
TIMESTAMP_TYPES = {  # 0: the record has none
    TIMESTAMP_CREATE_TIME: "CreateTime",
    TIMESTAMP_LOG_APPEND_TIME: "LogAppendTime",
}


@dataclass(frozen=True)
class EventForm:
    """The form of a topic's events; see `TopicSettings`."""

    serde_format: str = "json"
    key_mode: str = "include_as_metadata"

    @property
    def is_value(self) -> bool:
        """Whether the event is the record's unchanged value."""
        return self.serde_format not in ("plaintext", "bytes") and self.key_mode != "include_as_field"


def _keys(block: Sequence[Message]) -> pa.Array:
    """Return keys as text; keys that are not UTF-8 as Base64."""
    keys = pa.array(list(map(Message.key, block)), pa.binary())
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if key is None else _text(key) for key in keys.to_pylist()], pa.string())


def _timestamps(block: Sequence[Message]) -> pa.Array:
    """Return epoch milliseconds; null if a record has none."""
    return pa.array([at if kind else None for kind, at in map(Message.timestamp, block)], pa.int64())


def _timestamp_types(block: Sequence[Message]) -> pa.Array:
    return pa.array([TIMESTAMP_TYPES.get(kind) for kind, _ in map(Message.timestamp, block)], pa.string())


def _headers(block: Sequence[Message]) -> pa.Array:
    """Return headers as a JSON object; a repeated name has an array, and bytes that are not UTF-8 are Base64."""
    headers = list(map(Message.headers, block))
    return pa.array(map(_header, headers), pa.string()) if any(headers) else pa.nulls(len(block), pa.string())


def _exact(block: Sequence[Message]) -> pa.Array:
    """Return key and headers as JSON with Base64, `[key, [[name, value], …]]`; null for a record with neither."""
    parts = [(message.key(), message.headers() or []) for message in block]
    texts = [None if key is None and not headers else msgspec.json.encode((key, headers)) for key, headers in parts]
    return pa.array(texts, pa.binary()).cast(pa.string())


COSTLY: dict[str, Callable[[Sequence[Message]], pa.Array]] = {
    KEY: _keys,
    "kafka_timestamp": _timestamps,
    "kafka_timestamp_type": _timestamp_types,
    "kafka_headers": _headers,
    RECORD: _exact,
}
"""Metadata that needs a call per record, so it is built only on request."""


class Records:
    """Collects blocks of one partition into a batch.

    Args:
        topic: Their topic.
        partition: Their partition.
        form: The form of the events.
        metadata: The requested expensive attributes; None: all.
    """

    def __init__(self, topic: str, partition: int, form: EventForm, metadata: frozenset[str] | None) -> None:
        self.rows = 0
        self.size_bytes = 0
        self._topic = topic
        self._partition = partition
        self._form = form
        self._wanted = costly(metadata)
        self._chunks: dict[str, list[pa.Array]] = {name: [] for name in (EVENT, OFFSET, *self._wanted)}

    def add(self, block: Sequence[Message]) -> None:
        """Add one block; its messages are not kept."""
        events = _events(block, self._form)
        self._chunks[EVENT].append(events)
        self._chunks[OFFSET].append(_offsets(block))
        for name in self._wanted:
            hidden = name in (KEY, RECORD) and self._form.key_mode == "discard"
            self._chunks[name].append(pa.nulls(len(block), pa.string()) if hidden else COSTLY[name](block))
        self.rows += len(block)
        self.size_bytes += events.nbytes

    def batch(self) -> pa.RecordBatch:
        """Return the collected records as one batch, the events first."""
        columns = {name: pa.concat_arrays(chunks) for name, chunks in self._chunks.items()}
        return batch(columns, self._topic, self._partition)


def costly(metadata: frozenset[str] | None) -> list[str]:
    """Return the requested expensive attributes; None: all."""
    return [name for name in COSTLY if metadata is None or name in metadata]


def batch(columns: dict[str, pa.Array], topic: str, partition: int) -> pa.RecordBatch:
    """Return columns as a batch, with the constant columns."""
    rows = len(columns[EVENT])
    same = {"kafka_topic": pa.scalar(topic), "kafka_partition": pa.scalar(partition, pa.int32())}
    return pa.record_batch(columns | {name: pa.repeat(value, rows) for name, value in same.items()})


def _events(block: Sequence[Message], form: EventForm) -> pa.Array:
    """Return events; null for a tombstone, which a change stream skips and other formats reject as malformed."""
    values: Iterable[bytes | None] = map(Message.value, block)
    if not form.is_value:
        make = FORMS[form.serde_format]
        keys = _keys(block).to_pylist() if form.key_mode == "include_as_field" else [None] * len(block)
        values = (None if value is None else make(value, key) for value, key in zip(values, keys, strict=True))
    return pa.array(list(values), pa.binary())


def _plain(value: bytes, key: str | None) -> bytes:
    """Wrap a text in an object, under the record's key if that becomes a field, as in Data Prepper; else `message`.

    Bytes that are not UTF-8 stay as they are, and are later rejected as malformed.
    """
    try:
        return msgspec.json.encode({MESSAGE if key is None else key: value.decode()})
    except UnicodeDecodeError:
        return value


def _encoded(value: bytes, key: str | None) -> bytes:
    return msgspec.json.encode({MESSAGE if key is None else key: base64.b64encode(value).decode()})


def _with_key(value: bytes, key: str | None) -> bytes:
    """Add the key after an object's last field, where it overrides a field of the same name; else change nothing."""
    body = value.rstrip()
    if key is None or not body.endswith(b"}") or not body.lstrip().startswith(b"{"):
        return value
    comma = b"" if body[:-1].rstrip().endswith(b"{") and len(body[:-1].strip()) == 1 else b","
    return body[:-1] + comma + b'"' + KEY.encode() + b'":' + msgspec.json.encode(key) + b"}"


FORMS: dict[str, Callable[[bytes, str | None], bytes]] = {"json": _with_key, "plaintext": _plain, "bytes": _encoded}


def _offsets(block: Sequence[Message]) -> pa.Array:
    first, last = block[0].offset(), block[-1].offset()
    if last - first + 1 == len(block):
        return pa.arange(first, last + 1)
    return pa.array(list(map(Message.offset, block)), pa.int64())


def _header(headers: list[tuple[str, bytes | None]] | None) -> str | None:
    if not headers:
        return None
    values: dict[str, list[str | None]] = {}
    for name, value in headers:
        values.setdefault(name, []).append(None if value is None else _text(value))
    return msgspec.json.encode({name: texts if len(texts) > 1 else texts[0] for name, texts in values.items()}).decode()


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()
