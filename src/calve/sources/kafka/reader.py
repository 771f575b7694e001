"""The kafka source on executors: reads a range of offsets as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from calve.errors import SourceError
from calve.event.envelope.shape import SHAPES
from calve.serde.settings import FORMATS
from calve.sources.kafka import columns
from calve.sources.kafka.consumer import Range, messages, messages_of
from calve.sources.kafka.deleted import letters, topic_ids
from calve.sources.kafka.librdkafka import UnsupportedSettingsError, load
from calve.sources.kafka.record import EventForm, Records
from calve.sources.kafka.settings import KafkaSettings, TopicSettings
from calve.sources.kafka.topics import ChosenTopics
from calve.sources.source import READ_BYTES, READ_ROWS, Split

__all__ = ["RANGES", "KafkaReader"]

RANGES = "ranges"
"""In the body of a split: several ranges, each as a list."""


@dataclass(frozen=True)
class KafkaReader:
    """Reads ranges of offsets; pickled into the tasks.

    Columns: `event`, `kafka_topic`, `kafka_partition`, `kafka_offset`, and those of `record.COSTLY` in `metadata`.

    Attributes:
        topics: The entries of `topics`.
        clients: librdkafka's properties of each entry; never shown, because they may have a password.
        metadata: The requested metadata attributes; None: all. `dataclasses.replace` changes it.
    """

    topics: ChosenTopics
    clients: dict[str, dict[str, Any]] = field(repr=False)
    metadata: frozenset[str] | None = None

    @classmethod
    def of(cls, settings: KafkaSettings, pipeline: str) -> KafkaReader:
        """Create the reader of a source, with all metadata."""
        clients = {topic.title: settings.client() | _consumer(settings, topic, pipeline) for topic in settings.topics}
        return cls(ChosenTopics(settings.topics), clients)

    def client(self, topic: str) -> dict[str, Any]:
        """Return librdkafka's properties of a consumer of a topic.

        Raises:
            SourceError: An uncommitted batch reads a topic that is no longer in the settings.
        """
        return self.clients[self._entry(topic).title]

    def _entry(self, topic: str) -> TopicSettings:
        entry = self.topics.of(topic)
        if entry is None:
            hint = f"Add {topic} to `topics` again until that batch is committed"
            text = f"An uncommitted batch reads topic {topic}, which is no longer in the settings"
            raise SourceError(text, step="read", target=topic, hint=hint)
        return entry

    def form(self, topic: str) -> EventForm:
        """Return the form of a topic's events."""
        entry = self._entry(topic)
        return EventForm(entry.serde_format, entry.key_mode)

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range in order; offsets without a record (transactions, compaction) are skipped."""
        is_packed = RANGES in split.body
        wanted = [Range(*span) for span in split.body[RANGES]] if is_packed else [Range(**split.body)]
        deleted = self._deleted(wanted)
        if deleted:
            yield letters(deleted)
        present = [span for span in wanted if span not in deleted]
        if is_packed and present:
            yield from self._packed(present)
        elif present:
            yield from self._alone(present[0])

    def _deleted(self, wanted: list[Range]) -> list[Range]:
        """Return the ranges of topics of patterns that were deleted since they were planned."""
        free = [span for span in wanted if span.topic_id and not self.topics.is_named(span.topic)]
        if not free:
            return []
        ids = topic_ids(self.client(free[0].topic), {span.topic for span in free})
        return [span for span in free if ids.get(span.topic) not in (span.topic_id, "")]

    def _alone(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        client, form = self.client(wanted.topic), self.form(wanted.topic)
        native = load() if form.is_value else None
        if native:
            with suppress(UnsupportedSettingsError):
                yield from columns.batches(native, client, columns.Wanted(wanted, form, self.metadata))
                return
        yield from self._from_messages(client, wanted)

    def _packed(self, wanted: list[Range]) -> Iterator[pa.RecordBatch]:
        """Yield short ranges of many topics together, if schemas do not divide them."""
        batches: list[pa.RecordBatch] = []
        for span, block in messages_of(self.client(wanted[0].topic), wanted):
            records = self._records(span)
            records.add(block)
            batches.append(records.batch())
        if self.form(wanted[0].topic).serde_format in (*FORMATS, *SHAPES):
            yield from batches
        elif batches:
            yield from pa.Table.from_batches(batches).combine_chunks().to_batches(READ_ROWS)

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
        return Records(wanted.topic, wanted.partition, self.form(wanted.topic), self.metadata)


def _consumer(settings: KafkaSettings, topic: TopicSettings, pipeline: str) -> dict[str, Any]:
    lost = "earliest" if settings.on_lost_position == "earliest" else "error"
    group = topic.group_id or f"calve-{pipeline}"
    return {"group.id": group, "isolation.level": topic.isolation_level, "auto.offset.reset": lost}
