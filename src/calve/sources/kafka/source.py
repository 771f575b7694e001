"""The kafka source on the driver: plans offsets of topics as splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from calve.errors import SourceError
from calve.observe.log import Log
from calve.sources.kafka import position as positions
from calve.sources.kafka.cluster import Cluster, Topic
from calve.sources.kafka.consumer import Range
from calve.sources.kafka.group import Groups
from calve.sources.kafka.reader import KafkaReader
from calve.sources.kafka.settings import KafkaSettings
from calve.sources.kafka.splits import RowSizes, packed, splits_of
from calve.sources.kafka.topic_check import TopicCheck
from calve.sources.kafka.topics import ChosenTopics
from calve.sources.source import (
    ALONE,
    Backlog,
    Planned,
    Position,
    SourceContext,
    StartPosition,
)
from calve.sources.try_start import try_start
from calve.state.folder import StateFolder

__all__ = ["KafkaSource", "open", "probe"]

_UNORDERED = "@again"
"""A part without events: batches that are read again do not change how far a table is complete in event time."""


def open(settings: KafkaSettings, folder: StateFolder, pipeline: str, context: SourceContext = ALONE) -> KafkaSource:
    """Create the source of one pipeline; it stores nothing on disk.

    Raises:
        SourceError: librdkafka refuses the settings.
    """
    return KafkaSource(settings, pipeline)


def probe(settings: KafkaSettings, folder: StateFolder, pipeline: str, context: SourceContext) -> None:
    """Check that the brokers answer and have the topics.

    Raises:
        SourceError: They do not.
    """
    try_start(open(settings, folder, pipeline))


class KafkaSource:
    """Plans ranges of offsets; Kafka keeps the events, so nothing is copied before the job runs.

    Args:
        settings: The source's settings.
        pipeline: Its name; the default of the readers' group.
    """

    def __init__(self, settings: KafkaSettings, pipeline: str) -> None:
        self.reader = KafkaReader.of(settings, pipeline)
        self._settings = settings
        self._log = Log(pipeline)
        self._cluster = Cluster(settings)
        self._topics = ChosenTopics(settings.topics)
        self._groups = Groups(settings, self._topics)
        self._check = TopicCheck(settings, self._topics, self._log)
        self._begin: dict[str, dict[int, int]] = {}
        self._once: Mapping[str, Topic] | None = None
        self._sizes = RowSizes(self.reader)

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Check that the topics exist; fix the start of `latest` and, with `once`, the end of all partitions."""
        topics = self._readable_topics(position)
        reached = positions.offsets(position or {})
        for name, topic in topics.items():
            entry = self._topics.of(name)
            is_new = name not in reached and (position is None or self._topics.is_named(name))
            if entry and entry.auto_offset_reset == "latest" and is_new:
                self._begin[name] = {partition: held.high for partition, held in topic.partitions.items()}
        self._once = topics if once else None

    def backlog(self, position: Position | None) -> Backlog:
        """Count the offsets after a position, and estimate their bytes from a sample."""
        waiting = positions.waiting(position, self._current(position), self._begin)
        rows = sum(span.end - span.start for span in waiting)
        sizes = self._sizes.of(waiting)
        size_bytes = sum((span.end - span.start) * sizes[span.topic] for span in waiting)
        parts = {f"{span.topic}/{span.partition}": span.end - span.start for span in waiting}
        return Backlog(rows, size_bytes, parts=parts)

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Plan about `max_bytes` of the waiting records, with a share of every partition."""
        topics = self._current(position)
        waiting = positions.waiting(position, topics, self._begin)
        if waiting and self._once is None and not self._cluster.is_always_fresh:
            names = {span.topic for span in waiting}
            topics = self._check.readable(self._cluster.refreshed_topics(names), self._cluster.refused, position)
            waiting = positions.waiting(position, topics, self._begin)
        if not waiting:
            return None
        sizes = self._sizes.of(waiting)
        spans = positions.share(waiting, sizes, max_bytes)
        splits = packed(spans, sizes, self._topics)
        more = [
            f"{portion.topic}/{portion.partition}"
            for portion, all_of in zip(spans, waiting, strict=True)
            if portion != all_of
        ]
        begun = [Range(name, at, offset, offset) for name, given in self._begin.items() for at, offset in given.items()]
        unread = [span for span in begun if span.topic not in positions.offsets(position or {})]
        forgotten = self._check.forgotten
        return Planned(splits, positions.advance(position, topics, [*unread, *spans], forgotten), tuple(more))

    def between(self, start: Position | None, end: Position, count: int) -> list[Planned]:
        """Divide the records between two positions into `count` batches, each with an even part of every partition.

        Raises:
            PositionLostError: Some records were deleted.
            SourceUnavailableError: The brokers do not answer.
        """
        topics = self._cluster.topics()
        entries = {name: self._topics.of(name) for name in topics}
        latest = [name for name, entry in entries.items() if entry and entry.auto_offset_reset == "latest"]
        whole = positions.between(start, end, topics, latest)
        sizes = self._sizes.of(whole)
        batches: list[Planned] = []
        for number in range(count):
            spans = [positions.part(span, number, count) for span in whole]
            splits = [split for span in spans if span.end > span.start for split in splits_of(span, sizes[span.topic])]
            start = positions.advance(start, topics, spans)
            batches.append(Planned(splits, start, (_UNORDERED,)))
        return [*batches[:-1], replace(batches[-1], position=end)]

    def begin_at(self, beginning: StartPosition) -> Position:
        """Return the position of a beginning, for every partition of every topic.

        Raises:
            SettingsError: Offsets are missing, or there are no such topics, partitions or offsets.
            SourceUnavailableError: The brokers do not answer.
        """
        topics = self._readable_topics(None)
        if beginning.timestamp_ms is not None:
            offsets = self._cluster.at(topics, beginning.timestamp_ms)
        elif beginning.offsets is not None:
            offsets = positions.chosen(beginning.offsets, topics)
        elif beginning.at == "group":
            offsets = positions.chosen(self._groups.committed(topics), topics)
        else:
            is_latest = beginning.at == "latest"
            offsets = {
                name: {number: held.high if is_latest else held.low for number, held in topic.partitions.items()}
                for name, topic in topics.items()
            }
        ranges = [Range(name, number, at, at) for name, given in offsets.items() for number, at in given.items()]
        return positions.advance(None, topics, ranges)

    def acknowledge(self, planned: Planned) -> None:
        """Commit the offsets to the consumer groups, for lag tools and a lost state; a failure is a warning."""
        try:
            self._groups.commit(positions.offsets(planned.position))
        except SourceError as error:
            self._log.warning(f"offsets not committed to the consumer group: {error}")

    @property
    def condition(self) -> str:
        """How many topics a pattern has, and why some are stopped."""
        return self._check.condition

    @property
    def stopped(self) -> Mapping[str, str]:
        """The topics of patterns that are not read any more, and why."""
        return self._check.stopped

    def _current(self, position: Position | None) -> Mapping[str, Topic]:
        return self._readable_topics(position) if self._once is None else self._once

    def _readable_topics(self, position: Position | None) -> Mapping[str, Topic]:
        return self._check.readable(self._cluster.topics(), self._cluster.refused, position)
