"""Positions of the kafka source: `{"topic": {"0": next offset, …}, "@ids": {"topic": id}}`.

A topic's name has no `@`, so there are no conflicts. The id distinguishes a recreated topic of the same name.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from calve.errors import PositionLostError, SettingsError
from calve.sources.kafka.client import lost
from calve.sources.kafka.cluster import OffsetRange, Topic
from calve.sources.kafka.consumer import Range
from calve.sources.source import Position

__all__ = ["advance", "between", "chosen", "cut", "gone", "is_recreated", "offsets", "part", "share", "waiting"]

IDS = "@ids"


def offsets(position: Position) -> dict[str, dict[int, int]]:
    """Return the next offset of each partition of each topic."""
    return {
        name: {int(partition): offset for partition, offset in given.items()}
        for name, given in position.items()
        if name != IDS
    }


def advance(
    position: Position | None, topics: Mapping[str, Topic], ranges: Iterable[Range], forgotten: Collection[str] = ()
) -> Position:
    """Return the position after ranges; other partitions and topics stay unchanged, but those that are forgotten."""
    ahead = {name: given for name, given in offsets(position or {}).items() if name not in forgotten}
    for name in [name for name in ahead if name in topics and not _same(name, position, topics[name])]:
        ahead[name] = {}  # the offsets of the deleted topic mean nothing for the one of the same name
    for span in ranges:
        ahead.setdefault(span.topic, {})[span.partition] = span.end
    ids = (position or {}).get(IDS, {}) | {name: topic.id for name, topic in topics.items()}
    written = {name: {str(number): given[number] for number in sorted(given)} for name, given in ahead.items() if given}
    return written | {IDS: {name: ids[name] for name in written if ids.get(name)}}


def gone(position: Position | None, topics: Mapping[str, Topic]) -> Iterator[tuple[str, PositionLostError]]:
    """Yield each topic with lost unread records, and an error for it or each such partition, with the offsets."""
    for name, given in offsets(position or {}).items():
        if name in topics and is_recreated(name, position, topics[name]):
            yield name, lost(f"the rest of topic {name}", "it was deleted and recreated since it was last read")
        elif name in topics:
            yield from ((name, error) for error in _gone_offsets(name, given, topics[name].partitions))


def is_recreated(name: str, position: Position | None, topic: Topic) -> bool:
    """Return whether a topic is another one than that which was read to a position."""
    return not _same(name, position, topic)


def waiting(position: Position | None, topics: Mapping[str, Topic], begin: dict[str, dict[int, int]]) -> list[Range]:
    """Return the unread ranges; a partition without a position starts as `begin` says, or at its oldest record.

    A position outside a partition's offsets starts at the oldest record too; `gone` reports it.
    """
    reached = offsets(position or {})
    spans: list[Range] = []
    for name, topic in topics.items():
        same = _same(name, position, topic)
        for partition, held in topic.partitions.items():
            start = reached.get(name, {}).get(partition) if same else held.low
            start = begin.get(name, {}).get(partition, held.low) if start is None else start
            start = start if held.low <= start <= held.high else held.low
            spans.append(Range(name, partition, start, held.high, topic.id))
    return [span for span in spans if span.end > span.start]


def between(start: Position | None, end: Position, topics: dict[str, Topic], is_latest: Collection[str]) -> list[Range]:
    """Return the ranges between two positions.

    Args:
        start: The first position; None: the pipeline's start.
        end: The second position.
        topics: The current topics.
        is_latest: The topics that were read only from the first start on.

    Raises:
        PositionLostError: Some records were deleted, or the start is unknown.
    """
    for _, error in itertools.chain(gone(start, topics), gone(end, topics)):
        raise error
    spans = []
    for name, partitions in offsets(end).items():
        if name not in topics:
            raise lost(f"topic {name}", "it was deleted")
        for partition, stop in partitions.items():
            begin = offsets(start or {}).get(name, {}).get(partition)
            low = topics[name].partitions[partition].low
            if begin is None and stop > low and (low > 0 or name in is_latest):
                raise lost(f"topic {name}, partition {partition}", "no table has the offset at which reading started")
            spans.append(Range(name, partition, low if begin is None else begin, stop))
    return [span for span in spans if span.end > span.start]


def share(ranges: list[Range], row_bytes: dict[str, int], max_bytes: int) -> list[Range]:
    """Take about `max_bytes` of ranges: of each topic as much, and of its partitions in proportion to their lengths.

    So quiet topics are read completely beside a hot one, and all partitions of a topic advance evenly.
    """
    sizes: dict[str, int] = {}
    for span in ranges:
        sizes[span.topic] = sizes.get(span.topic, 0) + (span.end - span.start) * row_bytes[span.topic]
    budget = _even(sizes, max_bytes)
    parts = {topic: min(1.0, budget / max(1, size)) for topic, size in sizes.items()}
    rows = [max(1, int((span.end - span.start) * parts[span.topic])) for span in ranges]
    return [replace(span, end=span.start + n) for span, n in zip(ranges, rows, strict=True)]


def _even(sizes: Mapping[str, int], total: int) -> float:
    """Return the largest amount that each topic may take, so that all together take about a total."""
    room = float(total)
    for count, size in zip(range(len(sizes), 0, -1), sorted(sizes.values()), strict=True):
        if size * count > room:
            return room / count
        room -= size
    return math.inf


def part(whole: Range, number: int, count: int) -> Range:
    """Return one of `count` even parts of a range; some parts of a short range are empty."""
    start, end = (whole.start + (whole.end - whole.start) * edge // count for edge in (number, number + 1))
    return replace(whole, start=start, end=end)


def chosen(given: Mapping[str, Mapping[int, int]], topics: Mapping[str, Topic]) -> dict[str, dict[int, int]]:
    """Check the offsets of a user.

    Raises:
        SettingsError: They are not one for each partition of each topic, or not in the partition.
    """
    for name in dict.fromkeys([*topics, *given]):
        held = topics[name].partitions if name in topics else {}
        if held.keys() != given.get(name, {}).keys():
            wanted = ", ".join(f'"{number}"' for number in sorted(held)) or "none: the pipeline does not read it"
            raise _refused(f"offsets of topic {name} must be set for these partitions: {wanted}")
        for number, offset in given[name].items():
            if not held[number].low <= offset <= held[number].high:
                where = f"topic {name}, partition {number}"
                raise _refused(f"{where} has offsets {held[number].low} to {held[number].high}, not {offset}")
    return {name: dict(offsets) for name, offsets in given.items()}


def _refused(text: str) -> SettingsError:
    hint = 'e.g. --start-offsets \'{"orders": {"0": 123, "1": 456}}\''
    return SettingsError(text, step="rebuild", target="--start-offsets", hint=hint)


def cut(wanted: Range, rows: int) -> list[Range]:
    """Divide a range into even parts of at least `rows` offsets."""
    length = wanted.end - wanted.start
    count = max(1, length // rows)
    edges = [wanted.start + length * index // count for index in range(count + 1)]
    return [replace(wanted, start=start, end=end) for start, end in itertools.pairwise(edges)]


def _same(name: str, position: Position | None, topic: Topic) -> bool:
    former_id = (position or {}).get(IDS, {}).get(name, "")
    return not (former_id and topic.id) or former_id == topic.id


def _gone_offsets(name: str, given: dict[int, int], partitions: dict[int, OffsetRange]) -> Iterator[PositionLostError]:
    for partition, offset in given.items():
        held = partitions.get(partition)
        where = f"topic {name}, partition {partition}, from offset {offset}"
        if held is None:
            yield lost(where, "the partition no longer exists")
        elif offset < held.low:
            count = held.low - offset
            yield lost(where, f"the oldest offset left is {held.low}; {count} were deleted before they were read")
        elif offset > held.high:
            yield lost(where, f"the partition ends at offset {held.high}; it was truncated or recreated")
