"""A Kafka sink on the driver: its brokers, and its part of a job. A task sends; nothing is left to commit."""

from __future__ import annotations

import re
from collections.abc import Sequence

from calve.columns.fields import Fields
from calve.dead_letters.rejects import DeadLetterLocation
from calve.engine.engine import Engine
from calve.expression import compile_format
from calve.route.gates import gates
from calve.route.sink_route import SinkRoute
from calve.sinks.kafka.brokers import Brokers
from calve.sinks.kafka.encoder import Encoding, RecordEncoder
from calve.sinks.kafka.job import RecordJob
from calve.sinks.kafka.settings import KafkaSinkSettings
from calve.sinks.records.shape import RecordOptions, compile_shape
from calve.sinks.sink import Opening, Order, Sink
from calve.sources.kafka.access import topic_fault
from calve.sources.source import SourceTable

__all__ = ["KafkaSink", "check", "open", "probe", "record_options"]


class KafkaSink:
    """The Kafka sink (`Sink`); runs on the driver.

    Args:
        opening: Its settings and tools.
    """

    tables = None
    order = Order.ONE_TASK
    """A batch is one transaction, so one task sends it."""

    def __init__(self, opening: Opening) -> None:
        entry, metadata = opening.entry, opening.metadata
        settings: KafkaSinkSettings = entry.value
        self._settings = settings
        self._label = opening.label
        self._route = SinkRoute(
            compile_format(settings.target.name, metadata), gates(entry, metadata), field="topic", fault=topic_fault
        )
        self._shape = compile_shape(record_options(settings), metadata, opening.operation)
        self._fields = Fields(frozenset(entry.include_keys), frozenset(entry.exclude_keys))
        self.dead_letters = DeadLetterLocation(
            opening.dead_letters, opening.letters_storage({}), limits=opening.letters_limits
        )
        self._encoding = _encoding(settings)
        self.flush_seconds = settings.flush_interval.total_seconds()
        self.max_batch_bytes = int(settings.max_batch_bytes)

    @property
    def metadata(self) -> frozenset[str]:
        """The metadata attributes that it reads."""
        return self._route.metadata | self._shape.metadata

    def open(self) -> None:
        """Connect to the brokers, and create the topic, if it is one that may be created."""
        check(self._settings, creates=True)

    def begin_batch(self, tables: Sequence[SourceTable]) -> None:
        """Do nothing: the first record creates a topic."""

    def job(self, batch: int, time_tenths: int, prefix: str, replays: bool) -> RecordJob:
        """Return its part of the job of a batch.

        Args:
            batch: The batch's number.
            time_tenths: The batch's time.
            prefix: A part of the transactional id, unique to the state and the sink.
            replays: Whether this is a replay of dead letters.
        """
        label = re.sub(r"[^A-Za-z0-9._-]+", "-", self._label)
        name = f"calve-{label}-{prefix.rstrip('-')}"
        return RecordJob(
            self._label,
            self._route,
            self.dead_letters,
            self._settings,
            self._shape,
            name,
            batch,
            time_tenths * 100,
            self._fields,
            self._encoding,
        )


def record_options(settings: KafkaSinkSettings) -> RecordOptions:
    """Return how a sink's settings make records of events."""
    is_envelope = settings.serde_format == "debezium"
    return RecordOptions("topic", settings.key, settings.key_columns, settings.headers, settings.operation, is_envelope)


def open(opening: Opening) -> Sink:
    """Create a Kafka sink; it connects in `Sink.open`."""
    return KafkaSink(opening)


def probe(settings: KafkaSinkSettings, spark: Engine | None) -> None:
    """Check that the brokers answer, and that the topic exists and may be written.

    Raises:
        CalveError: It is not so.
    """
    check(settings, creates=False)


def check(settings: KafkaSinkSettings, creates: bool) -> None:
    """Check that the brokers answer, and that the topic may be written; perhaps create it.

    Raises:
        CalveError: It is not so.
    """
    brokers, topic = Brokers(settings), compile_format(settings.target.name).static
    brokers.reach()
    faults = brokers.unusable([topic] if topic else [], creates)
    for name, code in faults.items():
        raise brokers.refused_topic(name, code)
    if encoding := _encoding(settings):
        RecordEncoder(encoding, topic).check()


def _encoding(settings: KafkaSinkSettings) -> Encoding | None:
    """Return how records are encoded; None: not at all."""
    schema = settings.schema
    if schema is None:
        return None
    key = "" if schema.key_format == "text" else schema.key_format
    names = settings.key_subject, settings.message, bool(settings.key_columns)
    return Encoding(schema.with_text(), settings.value_format, key, *names)
