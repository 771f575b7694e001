"""Positions of the kafka source: `{"topic": {"0": next offset, …}, "@ids": {"topic": id}}`, and what follows from them.

A topic's name has no `@`, so nothing collides. The id tells a topic from one that was made again under its name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from calve.errors import PositionLostError
from calve.sources.kafka.client import lost
from calve.sources.kafka.cluster import Held, Topic
from calve.sources.kafka.consumer import Range
from calve.sources.source import Position

__all__ = ["advance", "cut", "gone", "offsets", "share", "waiting"]

IDS = "@ids"


def offsets(position: Position) -> dict[str, dict[int, int]]:
    """Give the next offset of each partition of each topic."""
    return {
        name: {int(partition): offset for partition, offset in given.items()}
        for name, given in position.items()
        if name != IDS
    }


def advance(position: Position | None, topics: dict[str, Topic], ranges: Iterable[Range]) -> Position:
    """Give the position behind ranges; what it says of other partitions and topics stays."""
    ahead = offsets(position or {})
    for each in ranges:
        ahead.setdefault(each.topic, {})[each.partition] = each.end
    ids = (position or {}).get(IDS, {}) | {name: topic.id for name, topic in topics.items()}
    written = {name: {str(each): given[each] for each in sorted(given)} for name, given in ahead.items()}
    return written | {IDS: {name: ids[name] for name in written if ids.get(name)}}


def gone(position: Position | None, topics: dict[str, Topic]) -> Iterator[PositionLostError]:
    """Give an error for each topic or partition of which something unread is gone, with its offsets."""
    for name, given in offsets(position or {}).items():
        if name in topics and not _same(name, position, topics[name]):
            yield lost(f"the rest of topic {name}", "it was deleted and made again since it was last read")
        elif name in topics:
            yield from _gone_offsets(name, given, topics[name].partitions)


def waiting(position: Position | None, topics: dict[str, Topic], begin: dict[str, dict[int, int]]) -> list[Range]:
    """Give what is there and not read yet; a partition without a position begins where `begin` says, or at its oldest.

    A position outside of what a partition holds begins at the oldest record too; `gone` tells of it.
    """
    known = offsets(position or {})
    found: list[Range] = []
    for name, topic in topics.items():
        same = _same(name, position, topic)
        for partition, held in topic.partitions.items():
            start = known.get(name, {}).get(partition) if same else held.low
            start = begin.get(name, {}).get(partition, held.low) if start is None else start
            start = start if held.low <= start <= held.high else held.low
            found.append(Range(name, partition, start, held.high))
    return [each for each in found if each.end > each.start]


def share(ranges: list[Range], row_bytes: dict[str, int], max_bytes: int) -> list[Range]:
    """Take about `max_bytes` of ranges, of each in proportion to its length, so that all partitions keep pace."""
    total = sum((each.end - each.start) * row_bytes[each.topic] for each in ranges)
    if total <= max_bytes:
        return ranges
    part = max_bytes / total
    rows = [max(1, int((each.end - each.start) * part)) for each in ranges]
    return [Range(each.topic, each.partition, each.start, each.start + n) for each, n in zip(ranges, rows, strict=True)]


def cut(wanted: Range, rows: int) -> list[Range]:
    """Divide a range into even pieces of at least `rows` offsets."""
    length = wanted.end - wanted.start
    count = max(1, length // rows)
    edges = [wanted.start + length * each // count for each in range(count + 1)]
    return [Range(wanted.topic, wanted.partition, start, end) for start, end in itertools.pairwise(edges)]


def _same(name: str, position: Position | None, topic: Topic) -> bool:
    known = (position or {}).get(IDS, {}).get(name, "")
    return not (known and topic.id) or known == topic.id


def _gone_offsets(name: str, given: dict[int, int], partitions: dict[int, Held]) -> Iterator[PositionLostError]:
    for partition, offset in given.items():
        held = partitions.get(partition)
        where = f"topic {name}, partition {partition}, from offset {offset}"
        if held is None:
            yield lost(where, "the partition does not exist any more")
        elif offset < held.low:
            count = held.low - offset
            yield lost(where, f"the oldest offset left is {held.low}; {count} were deleted before they were read")
        elif offset > held.high:
            yield lost(where, f"the partition ends at offset {held.high}; it was truncated, or made again")
