"""Which entry of `topics` a topic of the brokers belongs to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calve.sources.kafka.settings import TopicSettings

__all__ = ["ChosenTopics"]

_INTERNAL = "__"
"""How the names of Kafka's own topics begin; no pattern takes them."""


class ChosenTopics:
    """The entries of `topics`, by the topics that belong to them; can be pickled.

    Args:
        entries: The entries.

    Attributes:
        names: The topics that are named, in order.
        has_patterns: Whether an entry is a pattern.
    """

    def __init__(self, entries: Sequence[TopicSettings]) -> None:
        self._entries = list(entries)
        self._by_name = {entry.name: entry for entry in entries if entry.name}
        self._patterns = [entry for entry in entries if entry.pattern]
        self._of_patterns: dict[str, TopicSettings | None] = {}
        self.names = list(self._by_name)
        self.has_patterns = bool(self._patterns)

    def of(self, topic: str) -> TopicSettings | None:
        """Return the entry that a topic belongs to: that with its name, else the first matching pattern; or None."""
        if topic not in self._by_name and topic not in self._of_patterns:
            matches = (entry for entry in self._patterns if _matches(entry, topic))
            self._of_patterns[topic] = None if topic.startswith(_INTERNAL) else next(matches, None)
        return self._by_name.get(topic) or self._of_patterns.get(topic)

    def is_named(self, topic: str) -> bool:
        """Return whether a topic is named, so that it must exist."""
        return topic in self._by_name


def _matches(entry: TopicSettings, topic: str) -> bool:
    return bool(re.fullmatch(entry.pattern or "", topic)) and not any(
        re.fullmatch(text, topic) for text in entry.exclude
    )
