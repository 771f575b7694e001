"""The options of the Kafka sink, by Data Prepper's keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Literal

import pyarrow as pa

from calve.dead_letters.settings import FolderDeadLetters, prefix
from calve.errors import SettingsError
from calve.event.control_characters import has_control
from calve.expression import compile_format
from calve.serde.settings import SchemaSettings
from calve.settings import Size, option
from calve.sinks.settings import SinkSettings
from calve.sources.kafka.access import Encryption, KafkaAccess, KafkaAuthentication, topic_fault

__all__ = ["SETTINGS", "KafkaSinkSettings", "TargetTopic"]

_KEPT = frozenset({"bootstrap.servers", "transactional.id", "enable.idempotence", "acks", "delivery.report.only.error"})
"""librdkafka's properties that Calve sets itself, because no event may be lost or duplicated."""


def _check_topic(text: str) -> None:
    static = compile_format(text).static
    if static is not None and (fault := topic_fault(static)):
        raise SettingsError(fault)


def _check_headers(headers: dict[str, str]) -> None:
    for text in headers.values():
        compile_format(text)


def _check_columns(names: list[str]) -> None:
    for name in names:
        if not name or has_control(name) or {*name} & {*'"\\'}:
            raise SettingsError(f"{name[:100]!r} is not a field")


@dataclass(frozen=True)
class TargetTopic:
    """A topic, and how it is created."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "max_message_bytes": "topic_properties: {max.message.bytes: …} sets it",
        **dict.fromkeys(
            ("metadata_max_age", "reconnect_backoff", "retry_backoff"),
            "librdkafka's limits hold; client_properties can set them",
        ),
    }
    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        "retention_period": "is not supported: topic_properties: {retention.ms: …}",
        "serde_format": "is not supported here: set serde_format of the sink",
    }

    name: str = option(doc="The topic, as in `topic`.", minimum=1, check=_check_topic)
    create_topic: bool = option(False, "Create a topic that does not exist.")
    number_of_partitions: int | None = option(None, "Partitions of a new topic. Default: the broker's.", minimum=1)
    replication_factor: int | None = option(None, "Replicas of a new topic. Default: the broker's.", minimum=1)
    topic_properties: dict[str, str] = option({}, "Properties of a new topic, e.g. `{cleanup.policy: compact}`.")


@dataclass(frozen=True)
class KafkaSinkSettings(KafkaAccess, SinkSettings):
    """Sends events to Kafka topics. Who reads committed records gets each exactly once, those of a key in order."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "thread_wait_time": "Calve's tasks send",
    }
    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        "aws": (
            "is not supported: name the brokers of MSK in bootstrap_servers, and a user in authentication.sasl.scram"
        ),
    }

    bootstrap_servers: str | list[str] = option(doc="Brokers for the first connection, as host:port.", minimum=1)
    topic: str | TargetTopic = option(
        doc="The topic, e.g. `orders` or `shop.${/tenant}`; with `${…}` each event selects its topic.", minimum=1
    )
    key: str | None = option(
        None,
        "The record's key, e.g. `${/customer}`. Records with the same key go to the same partition, as a Java producer "
        "would send them. Default: the attribute `document_id`, if the source has it; else no key.",
        aliases=("partition_key",),
        check=compile_format,
    )
    key_columns: list[str] = option(
        [], 'Instead of `key`: fields that form a JSON object, e.g. `{"id":7}`.', check=_check_columns
    )
    headers: dict[str, str] = option(
        {}, "Headers of each record: names, and texts with `${…}`; without a value a header is left out.",
        check=_check_headers,
    )  # fmt: skip
    serde_format: Literal["json", "debezium", "avro", "protobuf"] = option(
        "json",
        "`json`: the event; a delete is a tombstone (a record without a value). `debezium`: the envelope of Debezium "
        "with `before`, `after` and `op`; a delete is followed by a tombstone. `avro` and `protobuf`: as `json`, "
        "with values that are encoded by the schema of the topic's subject, see `schema`.",
    )
    schema: SchemaSettings | None = option(
        None,
        "The schema registry, if `serde_format` is avro or protobuf, or `key_format` is. `subject` is by default "
        "`<topic>-value`, `version` the one to write. `key_format: avro` or `protobuf` encodes keys, too.",
    )
    key_subject: str | None = option(
        None, "The subject of keys, if they are encoded. Default: `<topic>-key`.", minimum=1
    )
    message: str = option(
        "", "The Protobuf message of values, by its full name, e.g. `shop.Order`. Default: the first of the file."
    )
    operation: str | None = option(
        None,
        "The expression of an event's operation (`insert`, `update`, `delete` and so on). Default: that of the source, "
        "if it has changes; else every event is an insert.",
        check=compile_format,
    )
    encryption: Encryption | None = option(None, "TLS. Default: no TLS.")
    authentication: KafkaAuthentication | None = option(None, "How Calve authenticates.")
    client_properties: dict[str, str] = option(
        {},
        "Further properties of librdkafka, e.g. `{compression.type: zstd}`, passed on unchanged.",
        secret=True,
        aliases=("producer_properties",),
    )
    flush_interval: timedelta = option(
        timedelta(seconds=1), "Maximum time that events wait before they are sent.", unit="ms"
    )
    max_batch_bytes: Size = option(
        Size(64 << 20), "Maximum amount of data of a batch, which is one transaction.", minimum=1
    )
    dlq: str | FolderDeadLetters | None = option(
        None,
        "The destination of rejected events: a folder or an object-store prefix. Default: `<state>/<pipeline>/dlq`.",
    )

    @property
    def target(self) -> TargetTopic:
        """The topic, also if only its name is set."""
        return self.topic if isinstance(self.topic, TargetTopic) else TargetTopic(name=self.topic)

    @property
    def dlq_prefix(self) -> str | None:
        """The location of dead letters, or None for the folder in the state."""
        return prefix(self.dlq)

    def check(self) -> Iterator[tuple[str, str]]:
        """Refuse options that exclude each other."""
        if isinstance(self.topic, str):
            try:
                _check_topic(self.topic)
            except SettingsError as error:
                yield "topic", error.message
        if self.key is not None and self.key_columns:
            yield "key_columns", "means the same as key; set only one"
        for name in sorted(_KEPT & self.client_properties.keys()):
            yield "client_properties", f"{name} is set by Calve itself, so that no event is lost or duplicated"
        yield from self._check_schema()
        if self.dlq == "":
            yield "dlq", "needs a location; leave it out for <state>/<pipeline>/dlq"

    @property
    def value_format(self) -> str:
        """The format of values that have a schema; empty: they have none."""
        return self.serde_format if self.serde_format in ("avro", "protobuf") else ""

    def _check_schema(self) -> Iterator[tuple[str, str]]:
        key_format = self.schema.key_format if self.schema else "text"
        if bool(self.value_format or key_format != "text") != (self.schema is not None):
            yield (
                "schema",
                "is for serde_format: avro or protobuf, which needs it: schema: {registry_url: https://…:8081}",
            )
        elif self.schema is not None and self.schema.registry_url is None:
            yield "schema", "needs registry_url: each value begins with the id of its schema"
        if key_format == "json_schema":
            yield "schema.key_format", "keys can be text, avro or protobuf"
        if self.schema is not None and self.schema.validate:
            yield "schema.validate", "is for sources: what the schema of a sink cannot hold is a dead letter anyway"
        if key_format == "text" and self.key_subject:
            yield "key_subject", "is for keys with a schema: schema: {key_format: avro}"
        if self.message and self.serde_format != "protobuf":
            yield "message", "is for serde_format: protobuf"

    def faults(
        self, stream: str | None, has_keys: bool, metadata: Mapping[str, pa.DataType]
    ) -> Iterable[tuple[str, str]]:
        """Refuse deletes that no record could express."""
        if self.operation and not self.key and not self.key_columns and "document_id" not in metadata:
            yield "operation", "needs a key or key_columns: a delete is a record with the key alone"


SETTINGS = KafkaSinkSettings
