"""Counts the dead letters of a pipeline that wait, for `calve status`, the dashboard, health and metrics."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from calve.dead_letters.letter_files import FOLDER, DeadLetter, entries, names
from calve.dead_letters.replay.replayed import ReplayedEntries, Span, Spans
from calve.errors import CalveError
from calve.observe.report import PipelineReport
from calve.observe.state_folder import Folder
from calve.observe.status_file import REPLAY_FOLDER, read_report
from calve.state.durable import local_path
from calve.state.location import state_folder_at

__all__ = ["Counts", "PendingInState", "PendingLetters"]

Counts = dict[str, dict[str, int]]
"""Numbers of dead letters by table (empty: none) and code (empty: not known)."""
_CHECK_SECONDS = 15.0
"""How long what was replayed is not read again: on an object store each time is a paid request."""


class _CountedFile(NamedTuple):
    """The entries of a file that waited when it had this size, and these of its entries were replayed."""

    size_bytes: int
    replayed: tuple[Span, ...]
    counts: Counter[tuple[str, str]]


class PendingLetters:
    """Counts what waits; a file is read again only if it has changed. Thread-safe.

    In local folders the files are counted, so that those that were moved away do not wait. For other places it is the
    number of rejected events less that of replayed ones: nothing is read.

    Args:
        folder: The pipeline's folder in the state.
        pipeline: The pipeline.
        check_seconds: How long what was replayed is not read again.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        folder: str,
        pipeline: str,
        check_seconds: float = _CHECK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._pipeline = folder.rstrip("/"), pipeline
        self._check_seconds, self._clock = check_seconds, clock
        self._next_check = float("-inf")
        self._spans: list[Span] = []
        self._rejected_again = 0
        self._files: dict[str, _CountedFile] = {}
        self._lock = threading.Lock()

    def count(self, report: PipelineReport) -> Counts | None:
        """Return what waits; None: it cannot be read now, and what was known before stands.

        Args:
            report: The pipeline's report: where its dead letters are, and how many events it rejected.
        """
        with self._lock:
            try:
                self._refresh()
                locations = report.dlq or [f"{self._folder}/{FOLDER}"]
                is_local = all(map(_is_local_folder, locations)) and not report.dead_letter_tables
                return self._in_files(locations) if is_local else self._rest(report)
            except (CalveError, OSError, ValueError):
                return None

    def _refresh(self) -> None:
        """Read what was replayed, and how many of them were rejected again."""
        if self._clock() < self._next_check:
            return
        self._spans = ReplayedEntries(state_folder_at(self._folder.removeprefix("file://")) / REPLAY_FOLDER).load()
        replays = read_report(self._folder, REPLAY_FOLDER) if self._spans else None
        self._rejected_again = sum(replays.rejects.values()) if replays else 0
        self._next_check = self._clock() + self._check_seconds

    def _rest(self, report: PipelineReport) -> Counts:
        if not self._spans:
            by_table = {name: dict(table.rejects) for name, table in report.tables.items() if table.rejects}
            homeless = report.rejects_without_table()
            return by_table | ({"": homeless} if homeless else {})
        replayed = sum(span.entries for span in self._spans)
        count = sum(report.rejects.values()) + self._rejected_again - replayed
        return {"": {"": count}} if count > 0 else {}

    def _in_files(self, locations: list[str]) -> Counts:
        replayed: dict[str, list[Span]] = {}
        for span in self._spans:
            replayed.setdefault(span.file, []).append(span)
        total: Counter[tuple[str, str]] = Counter()
        counted: dict[str, _CountedFile] = {}
        for folder in {folder.path: folder for folder in map(Folder.at, locations)}.values():
            sizes = {info.base_name: info.size or 0 for info in folder.file_infos()}
            for name in names(folder):
                path, spans = f"{folder.path}/{name}", tuple(replayed.get(name, ()))
                file = self._files.get(path)
                if file is None or (file.size_bytes, file.replayed) != (sizes.get(name, 0), spans):
                    file = _CountedFile(sizes.get(name, 0), spans, self._waiting_in(folder, name, spans))
                counted[path] = file
                total += file.counts
        self._files = counted
        by_table: Counts = {}
        for (table, code), count in total.items():
            by_table.setdefault(table, {})[code] = count
        return by_table

    def _waiting_in(self, folder: Folder, name: str, spans: tuple[Span, ...]) -> Counter[tuple[str, str]]:
        replayed = Spans(spans)
        counts: Counter[tuple[str, str]] = Counter()
        for entry in entries(folder, name):
            letter = entry.content
            if isinstance(letter, DeadLetter) and letter.is_of(self._pipeline) and not replayed.has(name, entry.start):
                counts[letter.table or "", letter.code] += letter.count
        return counts


def _is_local_folder(location: str) -> bool:
    """Return whether a location is a local folder, and not the outbox of a topic."""
    folder = local_path(location)
    return folder is not None and not any(folder.glob("topic.*.json"))


class PendingInState:
    """Completes reports that were read from a state folder: a replay may have ended since, or files been moved away.

    Args:
        state: The state folder.
    """

    def __init__(self, state: str) -> None:
        self._state = state.rstrip("/")
        self._counters: dict[str, PendingLetters] = {}

    def complete(self, report: PipelineReport) -> PipelineReport:
        """Set what waits now in a report, and return it; if that cannot be read, it stays as it was."""
        name = report.pipeline
        if name not in self._counters:
            self._counters[name] = PendingLetters(f"{self._state}/{name}", name, check_seconds=0.0)
        counts = self._counters[name].count(report)
        report.pending = report.pending if counts is None else counts
        return report
