"""The transactions that are durable here, by their GTIDs: after them reading goes on at a server that took over."""

from __future__ import annotations

import bisect
import re
import struct
import time
import uuid

from calve.sources.source_files import FilesAt, files_in, read_json
from calve.sources.source_files import encoded as as_json

__all__ = ["DurableGtids", "GtidSet", "encoded"]

_FILE = "gtids.json"
_SAVE_SECONDS = 1.0
_PLAIN = re.compile(r"[0-9a-fA-F-]{36}(:\d+(-\d+)?)+")


class GtidSet:
    """A set of MySQL (`uuid:1-5:7,…`), or a position of MariaDB (`domain-server-number,…`), which has all before it.

    Args:
        text: As the server writes it.

    Raises:
        ValueError: It has tags (MySQL 8.3 or later), which are not read.
    """

    def __init__(self, text: str = "") -> None:
        self._intervals: dict[str, list[list[int]]] = {}
        self._last: dict[str, str] = {}
        for part in re.sub(r"\s", "", text).split(","):
            if ":" in part:
                self._add_intervals(part)
            elif part:
                self.add(part)

    def add(self, gtid: str) -> None:
        """Add a transaction; in MariaDB it is the last one of its domain."""
        source, colon, number = gtid.partition(":")
        if not colon:
            self._last[gtid.split("-")[0]] = gtid
            return
        self._put(source.lower(), int(number), int(number))

    def __contains__(self, gtid: str) -> bool:
        source, colon, number = gtid.partition(":")
        if not colon:
            last = self._last.get(gtid.split("-")[0])
            return last is not None and int(gtid.split("-")[2]) <= int(last.split("-")[2])
        return any(first <= int(number) <= last for first, last in self._intervals.get(source.lower(), ()))

    def __str__(self) -> str:
        sets = [
            f"{source}:{':'.join(str(first) if first == last else f'{first}-{last}' for first, last in intervals)}"
            for source, intervals in sorted(self._intervals.items())
        ]
        return ",".join(sets + [self._last[domain] for domain in sorted(self._last, key=int)])

    def _add_intervals(self, part: str) -> None:
        if not _PLAIN.fullmatch(part):
            raise ValueError(f"a GTID with a tag: {part}")
        source, *intervals = part.split(":")
        for first, _, last in (interval.partition("-") for interval in intervals):
            self._put(source.lower(), int(first), int(last or first))

    def _put(self, source: str, first: int, last: int) -> None:
        """Add an interval, and join it with those that it touches."""
        intervals = self._intervals.setdefault(source, [])
        if intervals and intervals[-1][1] + 1 == first:
            intervals[-1][1] = last
            return
        at = bisect.bisect_left(intervals, [first, last])
        intervals.insert(at, [first, last])
        joined: list[list[int]] = []
        for interval in intervals:
            if joined and interval[0] <= joined[-1][1] + 1:
                joined[-1][1] = max(joined[-1][1], interval[1])
            else:
                joined.append(interval)
        self._intervals[source] = joined


def encoded(gtids: str) -> bytes | None:
    """Return a set as the protocol of MySQL has it; None if it has tags."""
    parts = [part for part in re.sub(r"\s", "", gtids).split(",") if part]
    if not all(_PLAIN.fullmatch(part) for part in parts):
        return None
    data = struct.pack("<Q", len(parts))
    for part in parts:
        server, *intervals = part.split(":")
        data += uuid.UUID(server).bytes + struct.pack("<Q", len(intervals))
        for first, _, last in (interval.partition("-") for interval in intervals):
            data += struct.pack("<QQ", int(first), int(last or first) + 1)
    return data


class DurableGtids:
    """The transactions that are durable here; the file may lag behind, by a second.

    Args:
        folder: The source's files.

    Attributes:
        known: They; None: they are not known, e.g. because the server has no GTIDs.
        at: All transactions before this position are among them; what follows is read again to find the others.
    """

    def __init__(self, folder: FilesAt) -> None:
        self._files = files_in(folder)
        kept = read_json(self._files, _FILE)
        text: str | None = kept[0] if kept else None
        self.at: int = kept[1] if kept else 0
        self.known: GtidSet | None = None if text is None else GtidSet(text)
        self._written = kept
        self._ended: list[str] = []
        self._saved = time.monotonic()

    def begin(self, text: str, at: int) -> None:
        """Begin with all transactions before a position, unless they are known."""
        if self.known is None and encoded(text if ":" in text else "") is not None:
            self.known, self.at = GtidSet(text), at
            self._ended.clear()

    def forget(self) -> None:
        """Forget what was noted: an earlier try of a start may have noted other transactions."""
        self.known = None
        self._ended.clear()

    def end(self, gtid: str) -> None:
        """Note that all changes of a transaction were read; without a GTID nothing is known any more."""
        if not gtid:
            self.known = None
        elif self.known is not None:
            self._ended.append(gtid)

    def settle(self, at: int) -> None:
        """Note that everything that was read, before a position, is durable; write it down from time to time."""
        self.at = max(self.at, at)
        if self.known is not None:
            for gtid in self._ended:
                self.known.add(gtid)
        self._ended.clear()
        if time.monotonic() - self._saved > _SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Write them down, if they changed."""
        self._saved = time.monotonic()
        now = None if self.known is None else [str(self.known), self.at]
        if now == self._written:
            return
        if now is None:
            self._files.remove([_FILE])
        else:
            self._files.write(_FILE, as_json(now))
        self._written = now
