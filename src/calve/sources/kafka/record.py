"""Records of Kafka as columns: the event in its form, and its metadata."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Message

from calve.sources.source import EVENT, MALFORMED

__all__ = ["COSTLY", "Form", "Records"]

TOMBSTONE = "the record has no value (a tombstone)"
NOT_TEXT = "the record is not UTF-8 text"
MESSAGE = "message"
KEY = "kafka_key"
TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: "CreateTime", TIMESTAMP_LOG_APPEND_TIME: "LogAppendTime"}


@dataclass(frozen=True)
class Form:
    """What a record becomes; see `TopicSettings`."""

    serde_format: str = "json"
    key_mode: str = "include_as_metadata"


def _keys(block: Sequence[Message]) -> pa.Array:
    """Give keys as text; one that is not UTF-8 as Base64."""
    keys = pa.array([message.key() for message in block], pa.binary())
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if key is None else _text(key) for key in keys.to_pylist()], pa.string())


def _timestamps(block: Sequence[Message]) -> pa.Array:
    """Give epoch milliseconds; null where a record has none."""
    pairs = [message.timestamp() for message in block]
    return pa.array([at if kind in TIMESTAMP_TYPES else None for kind, at in pairs], pa.int64())


def _timestamp_types(block: Sequence[Message]) -> pa.Array:
    return pa.array([TIMESTAMP_TYPES.get(message.timestamp()[0]) for message in block], pa.string())


def _headers(block: Sequence[Message]) -> pa.Array:
    """Give headers as a JSON object; of a repeated name the last one, of bytes that are not UTF-8 their Base64."""
    return pa.array([_header(message.headers()) for message in block], pa.string())


COSTLY: dict[str, Callable[[Sequence[Message]], pa.Array]] = {
    KEY: _keys,
    "kafka_timestamp": _timestamps,
    "kafka_timestamp_type": _timestamp_types,
    "kafka_headers": _headers,
}
"""Metadata that costs a call per record, so that it is only built when asked for."""


class Records:
    """Collects blocks of one partition into a batch.

    Args:
        topic: Their topic.
        partition: Their partition.
        form: What they become.
        metadata: The costly attributes that are wanted; None: all.
    """

    def __init__(self, topic: str, partition: int, form: Form, metadata: frozenset[str] | None) -> None:
        self.rows = 0
        self.size_bytes = 0
        self._constants = {"kafka_topic": pa.scalar(topic), "kafka_partition": pa.scalar(partition, pa.int32())}
        self._form = form
        wanted = COSTLY if metadata is None else {name: COSTLY[name] for name in COSTLY if name in metadata}
        self._columns = {name: make for name, make in wanted.items() if (name, form.key_mode) != (KEY, "discard")}
        self._chunks: dict[str, list[pa.Array]] = {name: [] for name in self._columns}
        self._chunks |= {EVENT: [], MALFORMED: [], "kafka_offset": []}

    def add(self, block: list[Message]) -> None:
        """Take one block; its messages are not kept."""
        events, reasons = _events(block, self._form)
        self._chunks[EVENT].append(events)
        self._chunks[MALFORMED].append(reasons)
        self._chunks["kafka_offset"].append(_offsets(block))
        for name, make in self._columns.items():
            self._chunks[name].append(make(block))
        self.rows += len(block)
        self.size_bytes += events.nbytes

    def batch(self) -> pa.RecordBatch:
        """Give what was taken as one batch."""
        columns = {name: pa.concat_arrays(chunks) for name, chunks in self._chunks.items()}
        columns |= {name: pa.repeat(value, self.rows) for name, value in self._constants.items()}
        return pa.record_batch(columns)


def _events(block: list[Message], form: Form) -> tuple[pa.Array, pa.Array]:
    values: list[bytes | None] = [message.value() for message in block]
    reasons: list[str | None] | None = [None if value is not None else TOMBSTONE for value in values]
    if None not in values:
        reasons = None
    if form.serde_format != "json" or form.key_mode == "include_as_field":
        values, reasons = _formed(block, values, form)
    made = pa.nulls(len(block), pa.string()) if reasons is None else pa.array(reasons, pa.string())
    return pa.array(values, pa.binary()), made


def _formed(block: list[Message], values: list[bytes | None], form: Form) -> Any:
    keys = _keys(block).to_pylist() if form.key_mode == "include_as_field" else [None] * len(block)
    make = {"json": _with_key, "plaintext": _plain, "bytes": _encoded}[form.serde_format]
    formed: list[bytes | None] = []
    reasons: list[str | None] = []
    for value, key in zip(values, keys, strict=True):
        try:
            formed.append(None if value is None else make(value, key))
            reasons.append(TOMBSTONE if value is None else None)
        except UnicodeDecodeError:
            formed.append(value)
            reasons.append(NOT_TEXT)
    return formed, reasons


def _plain(value: bytes, key: str | None) -> bytes:
    """Name the text by the record's key where it is to be a field, as Data Prepper does; else `message`."""
    return msgspec.json.encode({MESSAGE if key is None else key: value.decode()})


def _encoded(value: bytes, key: str | None) -> bytes:
    return msgspec.json.encode({MESSAGE if key is None else key: base64.b64encode(value).decode()})


def _with_key(value: bytes, key: str | None) -> bytes:
    """Put the key behind an object's last field, where it wins over a field of the same name; else change nothing."""
    body = value.rstrip()
    if key is None or not body.endswith(b"}") or not body.lstrip().startswith(b"{"):
        return value
    comma = b"" if body[:-1].rstrip().endswith(b"{") and len(body[:-1].strip()) == 1 else b","
    return body[:-1] + comma + b'"' + KEY.encode() + b'":' + msgspec.json.encode(key) + b"}"


def _offsets(block: list[Message]) -> pa.Array:
    first, last = block[0].offset(), block[-1].offset()
    if last - first + 1 == len(block):
        return pa.array(range(first, last + 1), pa.int64())
    return pa.array([message.offset() for message in block], pa.int64())


def _header(headers: list[tuple[str, bytes | None]] | None) -> str | None:
    if not headers:
        return None
    return msgspec.json.encode({name: None if value is None else _text(value) for name, value in headers}).decode()


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()
