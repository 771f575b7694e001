"""Encodes the values of records by the schemas of a registry. Runs on executors; the driver looks schemas up."""

from __future__ import annotations

from collections.abc import Sequence

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
from calve.serde.format import UnsupportedSchemaError
from calve.serde.registry import Registry
from calve.serde.settings import SchemaSettings
from calve.sinks.kafka.avro import Write, avro_writer
from calve.sinks.records.shape import EventRecords

__all__ = ["ValueEncoder"]


class ValueEncoder:
    """Encodes in Avro, each topic by the version of its subject that the settings choose.

    Args:
        schema: The settings.
        one_topic: The only topic, whose lack of a schema is an error; None: events name their topics.
    """

    def __init__(self, schema: SchemaSettings, one_topic: str | None) -> None:
        self._schema = schema
        self._one_topic = one_topic
        self._registry = Registry(schema)
        self._writers: dict[str, tuple[bytes, Write] | str] = {}

    def check(self) -> None:
        """Look the schema of the only topic up, if there is one.

        Raises:
            SinkRefusedError: The registry has none, or one that cannot be used.
        """
        if self._one_topic is not None:
            self._writer(self._one_topic)

    def encode(self, topics: Sequence[str], topic_of_row: TableOfRow, records: EventRecords) -> EventRecords:
        """Return records whose values are encoded; those that do not fit the schema of their topic are rejected."""
        without_value = (None, Operation.DELETE, Operation.SKIPPED)
        values: list[bytes | None] = []
        rejects: list[Reject] = []
        columns = topic_of_row.tolist(), records.operations.to_pylist(), records.texts.to_pylist()
        for row, (topic, operation, text) in enumerate(zip(*columns, strict=True)):
            value = None if operation in without_value else self._encoded(topics[topic], text)
            if isinstance(value, tuple):
                rejects.append(Reject(row, value[0], "", value[1]))
            values.append(value if isinstance(value, bytes) else None)
        if not rejects:
            return records._replace(texts=pa.array(values, pa.binary()))
        rejected = np.zeros(len(values), bool)
        rejected[[reject.row for reject in rejects]] = True
        return records._replace(
            texts=pa.array(values, pa.binary()),
            operations=pc.if_else(pa.array(rejected), pa.scalar(None, pa.int8()), records.operations),
            rejects=pa.concat_tables([records.rejects, rejects_table(rejects)]),
        )

    def _encoded(self, topic: str, text: str) -> bytes | tuple[Code, str]:
        writer = self._writer(topic)
        if isinstance(writer, str):
            return Code.UNKNOWN_SCHEMA, writer
        frame, write = writer
        value = bytearray(frame)
        try:
            write(parse_object(text), value)
        except (MismatchError, MalformedError) as error:
            return Code.SINK_REFUSED, f"it does not fit the schema of the topic {topic}: {error}"
        return bytes(value)

    def _writer(self, topic: str) -> tuple[bytes, Write] | str:
        """Return the beginning of each value, with the id of the schema, and what writes it; or why there is none."""
        if topic not in self._writers:
            subject = self._schema.subject or f"{topic}-value"
            schema = self._registry.version(subject, self._schema.version)
            try:
                if schema is None:
                    raise UnsupportedSchemaError("it does not exist")
                if schema.kind != "AVRO":
                    raise UnsupportedSchemaError(f"it has a schema of {schema.kind}")
                self._writers[topic] = b"\0" + schema.id.to_bytes(4, "big"), avro_writer(parse_schema(schema))
            except UnsupportedSchemaError as error:
                self._writers[topic] = f"the subject {subject} of the registry cannot be used: {error}"
        writer = self._writers[topic]
        if isinstance(writer, str) and topic == self._one_topic:
            raise SinkRefusedError(
                writer[0].upper() + writer[1:],
                step="write",
                target=topic,
                hint="Register the schema, or correct `schema.subject` or `schema.version`",
            )
        return writer
