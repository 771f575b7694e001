"""Encodes values and keys of records by the schemas of a registry. Runs on executors; the driver looks schemas up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.convert.by_table import TableOfRow
from calve.convert.scalar import MismatchError
from calve.errors import SinkRefusedError
from calve.event.exact_json import MalformedError, parse_object
from calve.event.operation import Operation
from calve.event.reject import Code, Reject, rejects_table
from calve.serde.avro.schema import parse_schema
from calve.serde.format import UnsupportedSchemaError, WriterSchema
from calve.serde.protobuf.format import parsed
from calve.serde.protobuf.plan import plan
from calve.serde.protobuf.tokens import ProtoError
from calve.serde.registry import Registry
from calve.serde.settings import SchemaSettings
from calve.sinks.kafka.avro import avro_writer
from calve.sinks.kafka.binary import Write
from calve.sinks.kafka.protobuf import indexes_prefix, protobuf_writer
from calve.sinks.records.shape import EventRecords

__all__ = ["Encoding", "RecordEncoder"]

_KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF"}
_WITH_VALUE = (Operation.INSERT, Operation.UPDATE)
_Encoded = bytes | tuple[Code, str] | None


@dataclass(frozen=True)
class Encoding:
    """How a sink's records are encoded; pickled into tasks.

    Attributes:
        schema: The registry, and the subject and version of values.
        value: `avro` or `protobuf`; empty: values stay as they are.
        key: As `value`, for keys.
        key_subject: The subject of keys; None: `<topic>-key`.
        message: The full name of the value's message in a `.proto` file; empty: its first one.
        has_key_columns: Whether keys are JSON objects; else they are texts.
    """

    schema: SchemaSettings
    value: str = ""
    key: str = ""
    key_subject: str | None = None
    message: str = ""
    has_key_columns: bool = False


class RecordEncoder:
    """Encodes in Avro or Protobuf, each topic by the versions of its subjects that the settings choose.

    Args:
        encoding: The formats.
        one_topic: The only topic, whose lack of a schema is an error; None: events name their topics.
    """

    def __init__(self, encoding: Encoding, one_topic: str | None) -> None:
        schema, registry = encoding.schema, Registry(encoding.schema)
        self._has_key_columns = encoding.has_key_columns
        self._one_topic = one_topic
        self._values, self._keys = None, None
        if encoding.value:
            subject = schema.subject or "{}-value"
            self._values = _Schemas(registry, encoding.value, (subject, schema.version), encoding.message, one_topic)
        if encoding.key:
            subject = encoding.key_subject or "{}-key"
            self._keys = _Schemas(registry, encoding.key, (subject, "latest"), "", one_topic)

    def check(self) -> None:
        """Look the schemas of the only topic up, if there is one.

        Raises:
            SinkRefusedError: The registry has none, or one that cannot be used.
        """
        for schemas in (self._values, self._keys):
            if schemas and self._one_topic is not None:
                schemas.writer(self._one_topic)

    def encode(self, topics: Sequence[str], topic_of_row: TableOfRow, records: EventRecords) -> EventRecords:
        """Return records that are encoded; those that do not fit the schemas of their topic are rejected."""
        texts: list[_Encoded] = []
        keys: list[_Encoded] = []
        columns = records.operations, records.keys, records.texts
        for topic, operation, key, text in zip(
            topic_of_row.tolist(), *(column.to_pylist() for column in columns), strict=True
        ):
            # also of an old row: it joins its new one by the key
            keys.append(self._key(topics[topic], key) if operation is not None and key is not None else None)
            has_value = operation in _WITH_VALUE and not isinstance(keys[-1], tuple)
            texts.append(self._value(topics[topic], text) if has_value else None)
        faults = [
            Reject(row, encoded[0], field, encoded[1])
            for column, field in ((keys, "key"), (texts, ""))
            for row, encoded in enumerate(column)
            if isinstance(encoded, tuple)
        ]
        rejected = np.zeros(len(texts), bool)
        rejected[[reject.row for reject in faults]] = True
        return records._replace(
            texts=_binary(texts) if self._values else records.texts,
            keys=_binary(keys) if self._keys else records.keys,
            operations=pc.if_else(pa.array(rejected), pa.scalar(None, pa.int8()), records.operations),
            rejects=pa.concat_tables([records.rejects, rejects_table(faults)]) if faults else records.rejects,
        )

    def _value(self, topic: str, text: str) -> _Encoded:
        return self._values.encoded(topic, text, True) if self._values else None

    def _key(self, topic: str, text: str) -> _Encoded:
        return self._keys.encoded(topic, text, self._has_key_columns) if self._keys else None


def _binary(values: Sequence[_Encoded]) -> pa.Array:
    return pa.array([value if isinstance(value, bytes) else None for value in values], pa.binary())


class _Schemas:
    """The schemas of the values, or of the keys, of topics.

    Args:
        registry: Has them.
        kind: Their format.
        version: The subject, perhaps with `{}` for the topic, and its version.
        message: The message of a `.proto` file; empty: its first one.
        one_topic: As for `RecordEncoder`.
    """

    def __init__(
        self, registry: Registry, kind: str, version: tuple[str, str], message: str, one_topic: str | None
    ) -> None:
        self._registry, self._kind, self._version, self._message = registry, kind, version, message
        self._one_topic = one_topic
        self._writers: dict[str, tuple[bytes, Write] | str] = {}

    def encoded(self, topic: str, text: str, is_object: bool) -> bytes | tuple[Code, str]:
        """Return the binary of a JSON object, or of a text; or why there is none."""
        writer = self.writer(topic)
        if isinstance(writer, str):
            return Code.UNKNOWN_SCHEMA, writer
        frame, write = writer
        value = bytearray(frame)
        try:
            write(parse_object(text) if is_object else text, value)
        except (MismatchError, MalformedError) as error:
            return Code.SINK_REFUSED, f"it does not fit the subject {self._subject(topic)}: {error}"
        return bytes(value)

    def writer(self, topic: str) -> tuple[bytes, Write] | str:
        """Return the beginning of each value, with the id of the schema, and what writes it; or why there is none.

        Raises:
            SinkRefusedError: There is none for the only topic.
        """
        subject = self._subject(topic)
        if topic not in self._writers:
            schema = self._registry.version(subject, self._version[1])
            try:
                self._writers[topic] = self._compiled(schema)
            except (UnsupportedSchemaError, ProtoError) as error:
                self._writers[topic] = f"the subject {subject} of the registry cannot be used: {error}"
        writer = self._writers[topic]
        if isinstance(writer, str) and topic == self._one_topic:
            raise SinkRefusedError(
                writer[0].upper() + writer[1:],
                step="write",
                target=topic,
                hint="Register the schema, or correct `schema.subject`, `schema.version`, `key_subject` or `message`",
            )
        return writer

    def _subject(self, topic: str) -> str:
        return self._version[0].replace("{}", topic)

    def _compiled(self, schema: WriterSchema | None) -> tuple[bytes, Write]:
        if schema is None:
            raise UnsupportedSchemaError("it does not exist")
        if schema.kind != _KINDS[self._kind]:
            raise UnsupportedSchemaError(f"it has a schema of {schema.kind}")
        frame = b"\0" + schema.id.to_bytes(4, "big")
        if self._kind == "avro":
            return frame, avro_writer(parse_schema(schema))
        files = parsed(schema)
        indexes = files.indexes(self._message)
        return frame + indexes_prefix(indexes), protobuf_writer(plan(files, files.message(indexes)))
