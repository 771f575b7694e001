"""The kafka source on the driver: plans offsets of topics as splits."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, replace

from calve.errors import PositionLostError, SettingsError, SourceError
from calve.observe.log import Log
from calve.sources.kafka import position as positions
from calve.sources.kafka.client import lost
from calve.sources.kafka.cluster import Cluster, Topic
from calve.sources.kafka.consumer import Range, messages
from calve.sources.kafka.group import Group
from calve.sources.kafka.reader import KafkaReader
from calve.sources.kafka.settings import KafkaSettings
from calve.sources.source import (
    ALONE,
    READ_ROWS,
    Backlog,
    Beginning,
    Planned,
    Position,
    SourceContext,
    Split,
)
from calve.sources.try_start import try_start
from calve.state.folder import StateFolder

__all__ = ["KafkaSource", "open", "probe"]

SPLIT_BYTES = 32 << 20
SAMPLE_ROWS = 200
SAMPLE_SECONDS = 60.0
GUESS_BYTES = 512
_UNORDERED = "@again"
"""A part without events: batches that are read again do not change how far a table is complete in event time."""
DELETED = "Remove it from `topics`; or recreate it and set `on_lost_position: earliest` on the source"


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
        self._groups = {
            topic.name: Group(settings.client(), topic.group_id, topic.name)
            for topic in settings.topics
            if topic.group_id
        }
        self._begin: dict[str, dict[int, int]] = {}
        self._once: dict[str, Topic] | None = None
        self._row_bytes: dict[str, tuple[int, float]] = {}

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Check that the topics exist; fix the start of `latest` and, with `once`, the end of all partitions."""
        topics = self._look(position)
        reached = positions.offsets(position or {})
        for topic in self._settings.topics:
            if topic.auto_offset_reset == "latest" and topic.name not in reached:
                held = topics[topic.name].partitions
                self._begin[topic.name] = {partition: offset_range.high for partition, offset_range in held.items()}
        self._once = topics if once else None

    def backlog(self, position: Position | None) -> Backlog:
        """Count the offsets after a position, and estimate their bytes from a sample."""
        waiting = positions.waiting(position, self._topics(position), self._begin)
        rows = sum(span.end - span.start for span in waiting)
        sizes = self._sizes(waiting)
        return Backlog(rows, sum((span.end - span.start) * sizes[span.topic] for span in waiting))

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Plan about `max_bytes` of the waiting records, with a share of every partition."""
        topics = self._topics(position)
        waiting = positions.waiting(position, topics, self._begin)
        if not waiting:
            return None
        sizes = self._sizes(waiting)
        spans = positions.share(waiting, sizes, max_bytes)
        splits = [split for span in spans for split in _splits(span, sizes[span.topic])]
        more = [
            f"{portion.topic}/{portion.partition}"
            for portion, all_of in zip(spans, waiting, strict=True)
            if portion != all_of
        ]
        return Planned(splits, positions.advance(position, topics, spans), tuple(more))

    def between(self, start: Position | None, end: Position, count: int) -> list[Planned]:
        """Divide the records between two positions into `count` batches, each with an even part of every partition.

        Raises:
            PositionLostError: Some records were deleted.
            SourceUnavailableError: The brokers do not answer.
        """
        topics = self._cluster.look()
        latest = [topic.name for topic in self._settings.topics if topic.auto_offset_reset == "latest"]
        whole = positions.between(start, end, topics, latest)
        sizes = self._sizes(whole)
        batches: list[Planned] = []
        for number in range(count):
            spans = [positions.part(span, number, count) for span in whole]
            splits = [split for span in spans if span.end > span.start for split in _splits(span, sizes[span.topic])]
            start = positions.advance(start, topics, spans)
            batches.append(Planned(splits, start, (_UNORDERED,)))
        return [*batches[:-1], replace(batches[-1], position=end)]

    def begin_at(self, beginning: Beginning) -> Position:
        """Return the position of a beginning, for every partition of every topic.

        Raises:
            SettingsError: Offsets are missing, or there are no such topics, partitions or offsets.
            SourceUnavailableError: The brokers do not answer.
        """
        topics = self._look(None)
        if beginning.timestamp_ms is not None:
            offsets = self._cluster.at(topics, beginning.timestamp_ms)
        elif beginning.offsets is not None:
            offsets = positions.chosen(beginning.offsets, topics)
        elif beginning.at == "group":
            offsets = positions.chosen(self._committed(topics), topics)
        else:
            is_latest = beginning.at == "latest"
            offsets = {
                name: {number: held.high if is_latest else held.low for number, held in topic.partitions.items()}
                for name, topic in topics.items()
            }
        ranges = [Range(name, number, at, at) for name, given in offsets.items() for number, at in given.items()]
        return positions.advance(None, topics, ranges)

    def _committed(self, topics: dict[str, Topic]) -> dict[str, dict[int, int]]:
        if lacking := [name for name in topics if name not in self._groups]:
            text = f"No consumer group is configured for topic {lacking[0]}"
            raise SettingsError(text, step="rebuild", target="--from group", hint="Set its `group_id`")
        return {name: self._groups[name].committed(topic.partitions) for name, topic in topics.items()}

    def acknowledge(self, planned: Planned) -> None:
        """Commit the offsets to the consumer groups, for lag tools and a lost state; a failure is a warning."""
        for topic, offsets in positions.offsets(planned.position).items():
            try:
                if topic in self._groups:
                    self._groups[topic].commit(offsets)
            except SourceError as error:
                self._log.warning(f"offsets not committed to the consumer group: {error}")

    def stop(self) -> None:
        """Do nothing: no open resource can lose data."""

    def _topics(self, position: Position | None) -> dict[str, Topic]:
        if self._once is not None:
            return self._once
        return self._look(position)

    def _look(self, position: Position | None) -> dict[str, Topic]:
        topics = self._cluster.look()
        reached = positions.offsets(position or {})
        for index, topic in enumerate(self._settings.topics):
            if topic.name not in topics and topic.name in reached:
                raise lost(f"the rest of topic {topic.name}", "it was deleted", DELETED)
            if topic.name not in topics:
                hint = f"Create it, or correct `topics[{index}].name`"
                text = f"The topic {topic.name} does not exist at {self._settings.servers}"
                raise SourceError(text, step="read", target=topic.name, hint=hint)
        for error in positions.gone(position, topics):
            self._skip_lost(error)
        return topics

    def _skip_lost(self, error: PositionLostError) -> None:
        if self._settings.on_lost_position == "fail":
            raise error
        self._log.warning_once(f"{error.message}; continuing at the oldest remaining record")

    def _sizes(self, waiting: list[Range]) -> dict[str, int]:
        """Return the approximate bytes per record of each topic; sampled again from time to time."""
        for span in waiting:
            _, since = self._row_bytes.get(span.topic, (0, -math.inf))
            if time.monotonic() - since > SAMPLE_SECONDS:
                self._row_bytes[span.topic] = (self._sample(span), time.monotonic())
        return {topic: size for topic, (size, _) in self._row_bytes.items()}

    def _sample(self, some: Range) -> int:
        some = Range(some.topic, some.partition, some.start, min(some.end, some.start + SAMPLE_ROWS))
        blocks = messages(self.reader.client(some.topic), some)
        lengths = [len(message) for block in blocks for message in block]
        return max(1, sum(lengths) // len(lengths)) if lengths else GUESS_BYTES


def _splits(span: Range, row_bytes: int) -> list[Split]:
    rows = max(1, min(READ_ROWS, SPLIT_BYTES // row_bytes))
    return [Split(asdict(part), (part.end - part.start) * row_bytes) for part in positions.cut(span, rows)]
