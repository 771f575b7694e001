"""Cuts ranges of offsets into splits: long ones into parts, many short ones into one."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, astuple
from heapq import nlargest

from calve.sources.kafka import position as positions
from calve.sources.kafka.consumer import Range, messages
from calve.sources.kafka.reader import RANGES, KafkaReader
from calve.sources.kafka.topics import ChosenTopics
from calve.sources.source import READ_ROWS, Split

__all__ = ["RowSizes", "packed", "splits_of"]

_SPLIT_BYTES = 32 << 20
_SAMPLE_ROWS = 200
_SAMPLE_SECONDS = 60.0
_GUESS_BYTES = 512
_MOST_SAMPLES = 8
"""So many topics are sampled for a batch, those with most records; the others count as these on average."""
_ALONE = 64
"""With more ranges than this, short ones share splits: each costs a task some round trips to the brokers."""
_SHORT_BYTES = 256 << 10
_PACK_BYTES = 4 << 20
_PACK_RANGES = 200


class RowSizes:
    """The approximate bytes of a record of each topic, sampled from time to time.

    Args:
        reader: Reads the samples.
    """

    def __init__(self, reader: KafkaReader) -> None:
        self._reader = reader
        self._row_bytes: dict[str, tuple[int, float]] = {}

    def of(self, waiting: Sequence[Range]) -> dict[str, int]:
        """Return the bytes of a record of each topic with waiting ranges."""
        longest: dict[str, Range] = {}
        for span in waiting:
            if span.topic not in longest or span.end - span.start > longest[span.topic].end - longest[span.topic].start:
                longest[span.topic] = span
        now = time.monotonic()
        sampled_at = {name: at for name, (_, at) in self._row_bytes.items()}
        unknown = [span for name, span in longest.items() if now - sampled_at.get(name, -math.inf) > _SAMPLE_SECONDS]
        for span in nlargest(_MOST_SAMPLES, unknown, key=lambda span: span.end - span.start):
            self._row_bytes[span.topic] = (self._sample(span), time.monotonic())
        sizes = [size for size, _ in self._row_bytes.values()]
        average = max(1, sum(sizes) // len(sizes)) if sizes else _GUESS_BYTES
        return {name: self._row_bytes.get(name, (average, 0.0))[0] for name in longest}

    def _sample(self, some: Range) -> int:
        some = Range(some.topic, some.partition, some.start, min(some.end, some.start + _SAMPLE_ROWS))
        blocks = messages(self._reader.client(some.topic), some)
        lengths = [len(message) for block in blocks for message in block]
        return max(1, sum(lengths) // len(lengths)) if lengths else _GUESS_BYTES


def splits_of(span: Range, row_bytes: int) -> list[Split]:
    """Return the splits of one range."""
    rows = max(1, min(READ_ROWS, _SPLIT_BYTES // row_bytes))
    return [Split(asdict(part), (part.end - part.start) * row_bytes) for part in positions.cut(span, rows)]


def packed(spans: Sequence[Range], row_bytes: Mapping[str, int], topics: ChosenTopics) -> list[Split]:
    """Return the splits of ranges; many short ranges of one entry of `topics` share splits."""
    sizes = [(span.end - span.start) * row_bytes[span.topic] for span in spans]
    is_short = [len(spans) > _ALONE and size < _SHORT_BYTES for size in sizes]
    short = [(span, size) for span, size, packs in zip(spans, sizes, is_short, strict=True) if packs]
    long = [span for span, packs in zip(spans, is_short, strict=True) if not packs]
    return [split for span in long for split in splits_of(span, row_bytes[span.topic])] + list(_packs(short, topics))


def _packs(spans: Sequence[tuple[Range, int]], topics: ChosenTopics) -> Iterator[Split]:
    by_entry: dict[str, list[tuple[Range, int]]] = {}
    for span, size in spans:
        entry = topics.of(span.topic)
        by_entry.setdefault(entry.title if entry else "", []).append((span, size))
    for waiting in by_entry.values():
        pack: list[Range] = []
        pack_bytes = 0
        for span, size in waiting:
            if pack and (len(pack) == _PACK_RANGES or pack_bytes + size > _PACK_BYTES):
                yield Split({RANGES: list(map(astuple, pack))}, pack_bytes)
                pack, pack_bytes = [], 0
            pack.append(span)
            pack_bytes += size
        yield Split({RANGES: list(map(astuple, pack))}, pack_bytes)
