"""Decides which topics can be read from their positions, and what becomes of the others (driver).

A topic that is named in the settings must exist and have its records; otherwise the source ends with an error. A topic
of a pattern that lost records, or is refused, stops alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from calve.errors import PositionLostError, SourceError
from calve.observe.humanize import listed, many
from calve.observe.log import Log
from calve.sources.kafka import position as positions
from calve.sources.kafka.client import lost
from calve.sources.kafka.cluster import Topic
from calve.sources.kafka.settings import KafkaSettings
from calve.sources.kafka.topics import ChosenTopics
from calve.sources.source import Position

__all__ = ["TopicCheck"]

_DELETED = "Remove it from `topics`; or recreate it and set `on_lost_position: earliest` on the source"
_SHOWN = 3


class TopicCheck:
    """Checks the topics at every look.

    Args:
        settings: The source's settings.
        topics: The entries of its `topics`.
        log: Logs each trouble once.

    Attributes:
        stopped: The topics of patterns that are not read, and why.
        forgotten: Deleted topics of patterns that were read completely: the next position is without them.
    """

    def __init__(self, settings: KafkaSettings, topics: ChosenTopics, log: Log) -> None:
        self._settings = settings
        self._topics = topics
        self._log = log
        self._ends: dict[str, dict[int, int]] = {}
        self._count = 0
        self.stopped: dict[str, str] = {}
        self.forgotten: frozenset[str] = frozenset()

    @property
    def condition(self) -> str:
        """How many topics a pattern has, and why some are stopped; empty without patterns."""
        if not self._topics.has_patterns:
            return ""
        reasons = listed([f"{name} ({why})" for name, why in sorted(self.stopped.items())], _SHOWN)
        return many(self._count, "topic") + (f"; not read: {reasons}" if reasons else "")

    def readable(
        self, topics: Mapping[str, Topic], refused: Mapping[str, str], position: Position | None
    ) -> Mapping[str, Topic]:
        """Return the topics that are read.

        Args:
            topics: The existing topics.
            refused: Topics that the brokers refuse, and why.
            position: How far the source has read.

        Raises:
            SourceError: A topic that is named does not exist, or lost records.
        """
        reached = positions.offsets(position or {})
        self._check_named(topics, reached)
        stopped, forgotten = dict(refused), set[str]()
        for name, offsets in reached.items():
            if name in topics or name in refused or self._topics.is_named(name) or not self._topics.of(name):
                continue
            if self._ends.get(name) == offsets or self._settings.on_lost_position == "earliest":
                forgotten.add(name)
            else:
                stopped[name] = "it was deleted before all of it was read"
        for name, error in positions.gone(position, topics):
            if self._topics.is_named(name) or self._settings.on_lost_position == "earliest":
                self._skip_lost(error)
            elif not (positions.is_recreated(name, position, topics[name]) and self._ends.get(name) == reached[name]):
                stopped[name] = error.message.rpartition(": ")[2]
        self._say(stopped, forgotten)
        self.stopped, self.forgotten, self._count = stopped, frozenset(forgotten), len(topics)
        kept = {name: topic for name, topic in topics.items() if name not in stopped}
        for name, topic in kept.items():
            if not positions.is_recreated(name, position, topic):
                self._ends[name] = {part: held.high for part, held in topic.partitions.items()}
        return kept

    def _check_named(self, topics: Mapping[str, Topic], reached: Mapping[str, object]) -> None:
        for index, entry in enumerate(self._settings.topics):
            if entry.name is None or entry.name in topics:
                continue
            if entry.name in reached:
                raise lost(f"the rest of topic {entry.name}", "it was deleted", _DELETED)
            hint = f"Create it, or correct `topics[{index}].name`"
            text = f"The topic {entry.name} does not exist at {self._settings.servers}"
            raise SourceError(text, step="read", target=entry.name, hint=hint)

    def _skip_lost(self, error: PositionLostError) -> None:
        if self._settings.on_lost_position == "fail":
            raise error
        self._log.warning_once(f"{error.message}; continuing at the oldest remaining record")

    def _say(self, stopped: Mapping[str, str], forgotten: set[str]) -> None:
        for name in forgotten - self.forgotten:
            self._log.info(f"the topic {name} was deleted")
        for name, why in stopped.items():
            hint = "to continue at its oldest record, set on_lost_position: earliest; `exclude` leaves it out"
            self._log.warning_once(f"the topic {name} is not read any more: {why}; the others are; {hint}")
        for name in self.stopped.keys() - stopped.keys():
            self._log.info(f"the topic {name} is read again")
