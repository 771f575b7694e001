"""Where the segments of a log are: files in a local folder, or a chain of objects (`store_chain`)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from calve.errors import PositionLostError, SourceError
from calve.observe.log import Log as LogLines
from calve.sources.log import segment, store_chain
from calve.sources.log.segment import IsEnd, Segment
from calve.sources.log.store_tail import StoreTail
from calve.sources.log.tail import Tail
from calve.sources.source import Split
from calve.state.folder import StateFolder
from calve.state.store_folder import StoreFolder

__all__ = ["SegmentFiles", "SegmentObjects", "lost", "storage_in"]

_FETCHES = 8
"""Objects that one task fetches at the same time."""


def lost(path: object) -> PositionLostError:
    """Return the error for a segment that is missing."""
    return PositionLostError(
        f"the log {path} is missing, and its events were not all read",
        step="start",
        target=str(path),
        hint="Restore it from a copy; if these events may be lost, start the pipeline with a new state",
    )


@dataclass(frozen=True)
class SegmentFiles:
    """The segments in a local folder, a file each."""

    folder: Path

    def load(self, at: tuple[int, int] | None, is_end: IsEnd) -> list[Segment]:
        """Read all segments.

        Args:
            at: A border (segment, offset) that becomes a mark.
            is_end: Whether a batch may end after a record.

        Raises:
            PositionLostError: A segment is missing.
            SourceError: One is damaged.
        """
        return list(self._segments(at, is_end))

    def _segments(self, at: tuple[int, int] | None, is_end: IsEnd) -> Iterator[Segment]:
        expected = 0
        paths = self._paths()
        for path in paths:
            border = at[1] if at and at[0] == int(path.stem) else 0
            loaded = segment.load(path, path == paths[-1], border, is_end)
            if loaded is None:
                path.unlink()
                continue
            if expected and expected != loaded.number:
                raise lost(self.folder / segment.name(expected))
            expected = loaded.number + 1
            yield loaded

    def end(self, lines: LogLines) -> Tail:
        """Return the end of the log, to be opened."""
        return Tail(self.folder)

    def read(self, split: Split) -> bytes:
        """Return the records of a split of `SegmentIndex.plan`; runs on executors.

        Raises:
            SourceError: They cannot be read.
        """
        path, start = self.folder / split.body["file"], split.body["start"]
        try:
            with path.open("rb") as file:
                file.seek(start)
                content: bytes = file.read(split.body["end"] - start)
                return content
        except OSError as error:
            raise SourceError(
                f"the log {path} cannot be read: {error.strerror}",
                step="read",
                target=str(path),
                hint="Executors read it: on a cluster the state folder must be one that all machines share",
            ) from error

    def clear(self) -> None:
        """Remove all records; may be repeated."""
        for path in self._paths():
            path.unlink()

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]" * 12 + ".log"))


@dataclass(frozen=True)
class SegmentObjects:
    """The same on an object store, a chain of objects; every method raises WriteError if the store does not answer."""

    folder: StoreFolder

    def load(self, at: tuple[int, int] | None, is_end: IsEnd) -> list[Segment]:
        """Take the log over, and read all segments."""
        return store_chain.take_over(self.folder, at or (0, 0), is_end)

    def end(self, lines: LogLines) -> StoreTail:
        """Return the end of the log, to be opened."""
        return StoreTail(self.folder, lines)

    def read(self, split: Split) -> bytes:
        """Return the records of a split of `SegmentIndex.plan`; runs on executors."""
        number, start, end = int(Path(split.body["file"]).stem), split.body["start"], split.body["end"]
        parts, log = split.body["parts"], store_chain.log_folder(self.folder)

        def fetch(part: int, stop: int) -> bytes:
            first = max(start, part)
            return log.get_range(store_chain.name(number, part), first - part, min(stop, end) - first)

        try:
            with ThreadPoolExecutor(_FETCHES) as pool:
                return b"".join(pool.map(fetch, parts, [*parts[1:], end]))
        except FileNotFoundError as error:
            raise SourceError(
                f"the log in {self.folder} lacks an object of events that were not read: {error}",
                step="read",
                target=str(self.folder),
                hint="Restore it; if its events may be lost, start the pipeline with a new state",
            ) from error

    def clear(self) -> None:
        """Remove all records, and keep other drivers out; may be repeated."""
        store_chain.clear(self.folder)


def storage_in(folder: StateFolder) -> SegmentFiles | SegmentObjects:
    """Return the segments in the folder of a source."""
    return SegmentObjects(folder) if isinstance(folder, StoreFolder) else SegmentFiles(Path(folder.location))
