"""The settings of the kafka source, by Data Prepper's keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Literal

import pyarrow as pa

from calve.errors import SettingsError
from calve.event.envelope.placeholder import check_unavailable_value
from calve.event.envelope.shape import SHAPES
from calve.serde.settings import FORMATS, SchemaSettings, Serde
from calve.settings import option
from calve.sources.kafka.access import Encryption, KafkaAccess, KafkaAuthentication
from calve.sources.settings import Claim, SourceSettings

__all__ = ["RECORD", "SETTINGS", "KafkaSettings", "TopicSettings"]

KEPT = frozenset(
    {
        "auto.offset.reset",
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "group.id",
        "isolation.level",
    }
)
"""librdkafka's properties that Calve sets itself, because no event may be lost or duplicated."""
RECORD = "kafka_record"
"""Metadata: key and headers as JSON with Base64, `[key, [[name, value], …]]`, for topics of dead letters."""
METADATA = {
    "kafka_topic": pa.string(),
    "kafka_partition": pa.int32(),
    "kafka_offset": pa.int64(),
    "kafka_key": pa.string(),
    "kafka_timestamp": pa.int64(),
    "kafka_timestamp_type": pa.string(),
    "kafka_headers": pa.string(),
    RECORD: pa.string(),
}
UNUSED = "Accepted for compatibility with Data Prepper; no effect: Calve reads offset ranges, without a group."


def _check_pattern(text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise SettingsError(f"is not a regular expression: {error}") from error


@dataclass(frozen=True)
class TopicSettings:
    """One topic, or all that match a pattern, and how their records become events."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        "client_id": "client_properties: {client.id: …} sets it",
        **dict.fromkeys(
            (
                "connections_max_idle",
                "fetch_max_bytes",
                "fetch_max_wait",
                "fetch_min_bytes",
                "max_partition_fetch_bytes",
                "reconnect_backoff",
                "retry_backoff",
            ),
            "librdkafka's limits hold; client_properties can set them",
        ),
        "metadata_max_age": "metadata_refresh decides",
    }

    name: str | None = option(None, "The topic; it must exist.", minimum=1, maximum=249)
    pattern: str | None = option(
        None,
        "Instead of `name`: a regular expression that matches whole names, e.g. `shop\\..*`; topics may come and go. "
        "It never takes Kafka's own topics (`__…`) nor topics that are named.",
        minimum=1,
        check=_check_pattern,
    )
    exclude: list[str] = option(
        [],
        "Topics that `pattern` leaves out: names or regular expressions.",
        check=lambda patterns: list(map(_check_pattern, patterns)),
    )
    group_id: str | None = option(None, "A consumer group; Calve commits its offsets for lag tools.", minimum=1)
    serde_format: Literal[
        "json", "connect_json", "plaintext", "bytes", "avro", "json_schema", "protobuf", "debezium", "maxwell", "dms"
    ] = option(
        "json",
        "The content of a record: a JSON object, text (field `message`) or bytes (field `message`, in Base64). "
        "`connect_json`: a row in Kafka Connect's JSON with schema (`schemas.enable=true`), whose types it gets. "
        "`avro`, `json_schema`, `protobuf`: a value with a schema, see `schema`. "
        "`debezium`, `maxwell`, `dms`: a row change in that tool's JSON envelope; with `schema` Debezium's in Avro.",
    )
    auto_offset_reset: Literal["earliest", "latest"] = option("earliest", "Where to begin if there is no state.")
    key_mode: Literal["include_as_field", "include_as_metadata", "discard"] = option(
        "include_as_metadata",
        "Where the key of a record is stored: in the field or the metadata attribute `kafka_key`, or not at all.",
    )
    isolation_level: Literal["read_committed", "read_uncommitted"] = option(
        "read_committed", "`read_committed` skips records of open and aborted transactions."
    )
    workers: int = option(2, UNUSED, minimum=1, maximum=200)
    auto_commit: bool = option(False, UNUSED)
    commit_interval: timedelta = option(timedelta(seconds=5), UNUSED)
    thread_waiting_time: timedelta = option(timedelta(seconds=5), UNUSED)
    max_poll_interval: timedelta = option(timedelta(seconds=300), UNUSED)
    consumer_max_poll_records: int = option(500, UNUSED, minimum=1)
    session_timeout: timedelta = option(timedelta(seconds=45), UNUSED)
    heart_beat_interval: timedelta = option(timedelta(seconds=5), UNUSED)

    @property
    def title(self) -> str:
        """Its name or pattern."""
        return self.name or self.pattern or ""

    def check(self) -> Iterator[tuple[str, str]]:
        """Require either a name or a pattern."""
        if (self.name is None) == (self.pattern is None):
            yield "", "set either name or pattern"
        elif self.exclude and self.pattern is None:
            yield "exclude", "is for topics with a pattern"


@dataclass(frozen=True)
class KafkaSettings(KafkaAccess, SourceSettings):
    """Reads Kafka topics, each record exactly once."""

    IGNORED_KEYS: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(
            ("acknowledgments_expiry_reset", "acknowledgments_timeout"),
            "progress always follows the commits",
        ),
        "client_dns_lookup": "all addresses of a name are tried",
    }
    REFUSED_KEYS: ClassVar[Mapping[str, str]] = {
        "aws": (
            "is not supported: name the brokers of MSK in bootstrap_servers, and a user in authentication.sasl.scram"
        ),
    }

    origin: ClassVar[tuple[str, ...]] = ("kafka_topic", "kafka_partition")
    record_time: ClassVar[str] = "kafka_timestamp"
    row_attributes: ClassVar[tuple[str, ...]] = ("kafka_key", "kafka_headers", RECORD)

    bootstrap_servers: str | list[str] = option(doc="Brokers for the first connection, as host:port.", minimum=1)
    topics: list[TopicSettings] = option(doc="The topics.", minimum=1)
    metadata_refresh: timedelta = option(
        timedelta(seconds=30),
        "How often new topics and partitions are looked for, if there is a `pattern` or more than ten topics; else "
        "all the time.",
        minimum=timedelta(milliseconds=100),
    )
    schema: SchemaSettings | None = option(
        None,
        "The schema registry or the schema of topics whose `serde_format` is avro, json_schema or protobuf. "
        "Set it for debezium if the envelopes are Avro.",
    )
    unavailable_value: str | None = option(
        None,
        "Debezium's placeholder for a large value that did not change, if the connector sets "
        "`unavailable.value.placeholder`. Default: `__debezium_unavailable_value`.",
        minimum=1,
        check=check_unavailable_value,
    )
    encryption: Encryption | None = option(None, "TLS. Default: no TLS.")
    authentication: KafkaAuthentication | None = option(None, "How Calve authenticates.")
    client_properties: dict[str, str] = option(
        {}, "Further properties of librdkafka, passed on unchanged.", secret=True
    )
    on_lost_position: Literal["fail", "earliest"] = option(
        "fail",
        "If records were deleted before they were read: stop with an error, or continue at the oldest "
        "remaining record.",
    )
    acknowledgments: bool = option(
        False, "Accepted for compatibility with Data Prepper; no effect: progress always follows the commits."
    )

    @property
    def metadata(self) -> Mapping[str, pa.DataType]:
        """The metadata attributes of a record, and their types."""
        return METADATA

    @property
    def envelope(self) -> str | None:
        """The format of its envelopes; None: its values are none."""
        format = self.topics[0].serde_format
        return format if format in SHAPES else None

    def claims(self, pipeline: str) -> Iterator[Claim]:
        """Yield the consumer groups: two pipelines would each commit their own offsets to one."""
        for index, topic in enumerate(self.topics):
            if topic.group_id:
                yield Claim(
                    f"topics[{index}].group_id",
                    ("group", self.servers, topic.title, topic.group_id),
                    f"reads the topic {topic.title} as the group {topic.group_id}; set another group, because each "
                    "pipeline must read the complete topic",
                )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield errors between several options."""
        names = [topic.title for topic in self.topics]
        formats = [topic.serde_format for topic in self.topics]
        for index, topic in enumerate(self.topics):
            if topic.serde_format in (*SHAPES, *FORMATS) and topic.key_mode == "include_as_field":
                yield f"topics[{index}].key_mode", "such a value has no field for the key; use include_as_metadata"
            if topic.serde_format != formats[0] and SHAPES.keys() & {topic.serde_format, formats[0]}:
                yield f"topics[{index}].serde_format", "envelopes and other events cannot be mixed; use a pipeline each"
            elif topic.serde_format != formats[0] and {*FORMATS} & {topic.serde_format, formats[0]}:
                yield f"topics[{index}].serde_format", "formats with a schema cannot be mixed; use a pipeline for each"
            if topic.title in names[:index]:
                key = "name" if topic.name else "pattern"
                yield f"topics[{index}].{key}", f"the topic {topic.title} is listed twice"
        if self.unavailable_value is not None and formats[0] != "debezium":
            yield "unavailable_value", "is for topics with serde_format: debezium"
        yield from self._check_schema(formats[0])
        for name in sorted(KEPT & self.client_properties.keys()):
            yield "client_properties", f"{name} is set by Calve itself, so that no event is lost or duplicated"

    def _check_schema(self, format: str) -> Iterator[tuple[str, str]]:
        if format in FORMATS and self.schema is None:
            yield "schema", f"serde_format {format} needs a schema, e.g. schema: {{registry_url: https://…:8081}}"
        if format not in (*FORMATS, "debezium") and self.schema is not None:
            yield "schema", f"serde_format {format} has no schema; use {' or '.join((*FORMATS, 'debezium'))}"
        if format != "json_schema" and self.schema is not None and self.schema.validate:
            yield "schema.validate", f"is for serde_format: json_schema; {format} has no constraints beyond its types"
        is_one = len(self.topics) == 1 and self.topics[0].name
        if self.schema is not None and self.schema.version != "latest" and not is_one:
            yield "schema.version", "a version belongs to one subject, so to one topic; use a pipeline for each topic"

    @property
    def datasets(self) -> list[tuple[str, str]]:
        """The topics that are named; with a pattern it is not known which ones there are."""
        servers = self.bootstrap_servers
        first = (servers if isinstance(servers, str) else servers[0]).partition(",")[0].strip()
        names = [topic.name for topic in self.topics if topic.name]
        return [(f"kafka://{first}", name) for name in names] if len(names) == len(self.topics) else []

    @property
    def serde(self) -> Serde | None:
        """How values with a schema become rows; None: they have none.

        Raises:
            SettingsError: The schema's file cannot be read.
        """
        if self.schema is None:
            return None
        subjects = [self.schema.subject or f"{topic.name}-value" for topic in self.topics if topic.name]
        return Serde(self.topics[0].serde_format, self.schema.with_text(), tuple(subjects))


SETTINGS = KafkaSettings
