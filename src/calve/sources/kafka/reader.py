"""The kafka source on executors: reads a range of offsets as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from calve.errors import SourceError
from calve.sources.kafka import columns
from calve.sources.kafka.consumer import Range, messages
from calve.sources.kafka.librdkafka import RefusedError, load
from calve.sources.kafka.record import Form, Records
from calve.sources.kafka.settings import KafkaSettings, TopicSettings
from calve.sources.source import READ_BYTES, READ_ROWS, Split

__all__ = ["KafkaReader"]


@dataclass(frozen=True)
class KafkaReader:
    """Reads ranges of offsets; pickled into the tasks.

    Columns: `event`, `kafka_topic`, `kafka_partition`, `kafka_offset`, and those of `record.COSTLY` in `metadata`.

    Attributes:
        clients: librdkafka's properties by topic; never shown, because they may have a password.
        forms: The form of each topic's events.
        metadata: The requested metadata attributes; None: all. `dataclasses.replace` changes it.
    """

    clients: dict[str, dict[str, Any]] = field(repr=False)
    forms: dict[str, Form]
    metadata: frozenset[str] | None = None

    @classmethod
    def of(cls, settings: KafkaSettings, pipeline: str) -> KafkaReader:
        """Create the reader of a source, with all metadata."""
        clients = {topic.name: settings.client() | _consumer(settings, topic, pipeline) for topic in settings.topics}
        return cls(clients, {topic.name: Form(topic.serde_format, topic.key_mode) for topic in settings.topics})

    def client(self, topic: str) -> dict[str, Any]:
        """Return librdkafka's properties of a consumer of a topic.

        Raises:
            SourceError: An uncommitted batch reads a topic that is no longer in the settings.
        """
        if topic not in self.clients:
            hint = f"Add {topic} to `topics` again until that batch is committed"
            text = f"An uncommitted batch reads topic {topic}, which is no longer in the settings"
            raise SourceError(text, step="read", target=topic, hint=hint)
        return self.clients[topic]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range in order; offsets without a record (transactions, compaction) are skipped."""
        wanted = Range(**split.body)
        client, form = self.client(wanted.topic), self.forms[wanted.topic]
        native = load() if form.is_value else None
        if native:
            with suppress(RefusedError):
                yield from columns.batches(native, client, columns.Wanted(wanted, form, self.metadata))
                return
        yield from self._from_messages(client, wanted)

    def _from_messages(self, client: dict[str, Any], wanted: Range) -> Iterator[pa.RecordBatch]:
        records = self._records(wanted)
        for block in messages(client, wanted):
            records.add(block)
            if records.rows > READ_ROWS - len(block) or records.size_bytes > READ_BYTES:
                yield records.batch()
                records = self._records(wanted)
        if records.rows:
            yield records.batch()

    def _records(self, wanted: Range) -> Records:
        return Records(wanted.topic, wanted.partition, self.forms[wanted.topic], self.metadata)


def _consumer(settings: KafkaSettings, topic: TopicSettings, pipeline: str) -> dict[str, Any]:
    lost = "earliest" if settings.on_lost_position == "earliest" else "error"
    group = topic.group_id or f"calve-{pipeline}"
    return {"group.id": group, "isolation.level": topic.isolation_level, "auto.offset.reset": lost}
