"""Plain text in which an event has several lines, such as a stack trace.

Whether a line begins an event depends on this line alone. So a task finds the events of its part by itself: an event
belongs to the part in which its first line begins, and its task reads on until the next event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from calve.arrays import pack_texts
from calve.sources.file.codec_settings import line_beginning
from calve.sources.file.lines import BOM, LINE_BYTES
from calve.sources.file.rows import FileBatches
from calve.sources.file.stream import BlockStream

__all__ = ["AHEAD_BYTES", "EVENT_BYTES", "EventJoiner", "beginnings", "read_events"]

EVENT_BYTES = LINE_BYTES
"""The longest event, to bound memory if no line matches; a longer one is rejected."""
MATCH_BYTES = 64 << 10
"""How much of a line the pattern sees: the rest of a long line may be still unread."""
AHEAD_BYTES = 1 << 20
"""How much is read at once after the end of a part."""


def read_events(stream: BlockStream, following: BlockStream | None, events: EventJoiner) -> Iterator[pa.RecordBatch]:
    """Yield the events that begin in a part, as texts without their last line end.

    Args:
        stream: The lines of the part.
        following: The lines of the file after it, if there are any.
        events: Joins the lines.
    """
    for block in stream:
        yield from events.add(block)
    broken = stream.broken
    if not broken:
        yield from events.end_part()
    if following and not broken and not events.skipping:
        for block in following:
            yield from events.add(block)
            if events.skipping:
                break
        broken = following.broken
    yield from events.close(broken)


class EventJoiner:
    """Joins lines to events.

    A line belongs to the event before it unless the pattern matches it; blank lines too. An event of blank lines alone,
    which only a file can begin with, is left out.

    Attributes:
        skipping: Whether lines are skipped until the next event begins: they belong to an event of another part, or
            to one that is too long.
    """

    def __init__(self, rows: FileBatches, begins_with: str, is_first: bool) -> None:
        self.skipping = not is_first
        self._ending = False  # whether only the event that has begun continues
        self._rows, self._regex, self._is_first = rows, line_beginning(begins_with), is_first
        self._at_start = is_first
        self._held, self._held_row = b"", 1  # the complete lines of the event that has begun
        self._line = b""  # a line without its end
        self._line_known = False  # whether it is decided to which event this line belongs
        self._lines = 0

    def add(self, block: bytes) -> Iterator[pa.RecordBatch]:
        """Yield the events that end in a block."""
        text = self._line + block
        if self._at_start:
            text, self._at_start = text.removeprefix(BOM), False
        end = text.rfind(b"\n") + 1
        self._line = text[end:]
        if end:
            yield from self._add_lines(text[:end].replace(b"\r\n", b"\n"))
        if not self._line_known and len(self._line) > MATCH_BYTES:
            self._line_known = True
            if _matches(pa.array([self._line[:MATCH_BYTES]], pa.binary()), self._regex)[0]:
                yield from self._begin(b"", [], b"", self._lines + 1)
        yield from self._bound()

    def end_part(self) -> Iterator[pa.RecordBatch]:
        """Let only the event that has begun continue; a line without its end is the last one of the file."""
        if self._line:
            yield from self.add(b"\n")
        self._ending = True

    def close(self, broken: str) -> Iterator[pa.RecordBatch]:
        """Yield the last event, or the reason why the file ends early with what there is of it."""
        if broken:
            rest = b"" if self.skipping else self._held + self._line
            yield from self._rows.broken(broken, rest)
            return
        if self._line:
            yield from self.add(b"\n")
        if not self.skipping:
            yield from self._batches([self._held], [self._held_row])

    def _add_lines(self, text: bytes) -> Iterator[pa.RecordBatch]:
        """Add complete lines."""
        starts, begins = beginnings(text, self._regex)
        if self._line_known:
            begins[0], self._line_known = False, False
        rows = np.flatnonzero(begins)
        cuts = starts[rows].tolist()
        if cuts:
            texts = [text[start:end] for start, end in pairwise(cuts)]
            numbers = (rows + self._lines + 1).tolist()
            yield from self._begin(
                text[: cuts[0]], list(zip(texts, numbers, strict=False)), text[cuts[-1] :], numbers[-1]
            )
        elif not self.skipping:
            self._held += text
        self._lines += len(starts)

    def _begin(
        self, rest: bytes, whole: Sequence[tuple[bytes, int]], held: bytes, row: int
    ) -> Iterator[pa.RecordBatch]:
        """End the event that has begun, and begin another.

        Args:
            rest: The last lines of the event that has begun.
            whole: Complete events after it, each with the number of its first line.
            held: The first lines of the event that begins.
            row: The number of its first line.
        """
        before = [] if self.skipping else [(self._held + rest, self._held_row)]
        done = before if self._ending else [*before, *whole]
        self.skipping, self._held, self._held_row = self._ending, held, row
        yield from self._batches([text for text, _ in done], [number for _, number in done])

    def _bound(self) -> Iterator[pa.RecordBatch]:
        """Give up an event that is certainly too long, and forget what is skipped."""
        line = self._line if self._line_known else b""
        if not self.skipping and len(self._held) + len(line) - len(b"\r\n") > EVENT_BYTES:
            if line or self._held.strip(b"\n"):
                self.skipping = True
                yield from self._too_long([(self._held + line, self._held_row)])
            else:  # blank lines alone are no event, however many; with a line after them they are too long
                self._held = self._held[: EVENT_BYTES + len(b"\r\n") + 1]
        if self.skipping:
            self._held, self._line = b"", self._line[:MATCH_BYTES]

    def _batches(self, texts: list[bytes], numbers: list[int]) -> Iterator[pa.RecordBatch]:
        """Yield events, but reject those that are too long."""
        numbered = [
            (text.removesuffix(b"\n"), row) for text, row in zip(texts, numbers, strict=True) if text.strip(b"\n")
        ]
        events = [(text, row) for text, row in numbered if len(text) <= EVENT_BYTES]
        rows = pa.array([row for _, row in events], pa.int64()) if self._is_first else None
        yield from self._rows.batches(pa.array([text for text, _ in events], pa.binary()), rows)
        yield from self._too_long([(text, row) for text, row in numbered if len(text) > EVENT_BYTES])

    def _too_long(self, events: list[tuple[bytes, int]]) -> Iterator[pa.RecordBatch]:
        reason = f"The event has more than {EVENT_BYTES >> 20} MiB; check that `begins_with` matches the file"
        yield from self._rows.rejects([(text, reason, row if self._is_first else None) for text, row in events])


def beginnings(text: bytes, regex: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    r"""Return where each of some complete lines begins, and whether an event begins with it.

    Args:
        text: The lines, each with its `\n`.
        regex: Of `line_beginning`.
    """
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
    starts = np.append(0, ends[:-1] + 1)
    if np.max(ends - starts) > MATCH_BYTES:
        pairs = zip(starts.tolist(), np.minimum(ends, starts + MATCH_BYTES).tolist(), strict=True)
        lines = pa.array([text[start:end] for start, end in pairs], pa.binary())
    else:
        offsets = np.append(0, ends - np.arange(len(ends))).astype(np.int32)
        lines = pack_texts(offsets, text.replace(b"\n", b""))
    return starts, _matches(lines, regex)


def _matches(lines: pa.Array, regex: str) -> np.ndarray[Any, Any]:
    """Return for each line whether it begins an event; bytes that are not UTF-8 count as U+FFFD."""
    try:
        texts = lines.cast(pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([line.decode(errors="replace") for line in lines.to_pylist()], pa.string())
    flags: np.ndarray[Any, Any] = pc.match_substring_regex(texts, regex).to_numpy(zero_copy_only=False)
    return flags.copy()
