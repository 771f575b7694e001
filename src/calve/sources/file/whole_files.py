"""Plans whole files, for the sources of files and of objects.

Files that were read are in two lists: those of uncommitted batches in the ledger, those of acknowledged batches in the
source's folder. The same position always has the same plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa

from calve.errors import PositionLostError, SettingsError
from calve.sources.bounds import first_up_to
from calve.sources.file.codec import codec_of, divisible, ranges
from calve.sources.file.csv_check import HeaderCheck
from calve.sources.file.processed_files import ProcessedFiles
from calve.sources.file.settings import FileSettings
from calve.sources.file.storage import FoundFile
from calve.sources.file.stream import compression_of
from calve.sources.source import Backlog, Planned, Position, Split, StartPosition
from calve.state.folder import StateFolder

__all__ = ["PART_BYTES", "FileKind", "WholeFiles"]

PART_BYTES = 64 << 20
"""Larger files are divided, if their codec allows it, so that several tasks read them."""


class _File(Protocol):
    @property
    def path(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def modified(self) -> int: ...


File = TypeVar("File", bound=_File)


@dataclass(frozen=True)
class FileKind(Generic[File]):
    """What a source calls its files, and how it finds them again.

    Attributes:
        source: The kind of the source.
        plural: Their name in positions and messages.
        entry: What is remembered of one that was read, under the name that only this content has.
        opened: Opens one for reading.
        body: The body of the split with a part of one, from its first byte to its end, exclusive.
        file_of: The file of such a body.
    """

    source: str
    plural: str
    entry: Callable[[File], FoundFile]
    opened: Callable[[File], pa.NativeFile]
    body: Callable[[File, int, int], dict[str, Any]]
    file_of: Callable[[dict[str, Any]], File]


class WholeFiles(Generic[File]):
    """The files that a source has read or is reading, and its batches that are not acknowledged.

    Args:
        kind: The files of the source.
        settings: How they are read.
        folder: The folder with the list of files that have been read.
        pipeline: The name of the pipeline, for messages.

    Attributes:
        read: The files that must not be read again, by name.
    """

    def __init__(self, kind: FileKind[File], settings: FileSettings, folder: StateFolder, pipeline: str) -> None:
        self._kind, self._settings, self._folder, self._pipeline = kind, settings, folder, pipeline
        self._finished = ProcessedFiles(folder)
        self._headers = HeaderCheck(settings, pipeline)
        self._planned: dict[int, Planned] = {}
        self.read: dict[str, FoundFile] = {}

    def load(self, pending: Sequence[Planned]) -> list[File]:
        """Load the list of read files, and return the files of uncommitted batches, which count as read."""
        self.read = {file.path: file for file in self._finished.load()}
        self._planned |= {self.count(planned.position) - len(self.files(planned)): planned for planned in pending}
        under_way = [file for planned in pending for file in self.files(planned)]
        self.skip(under_way)
        return under_way

    def backlog(self, position: Position | None, ready: Iterable[File]) -> Backlog:
        """Return how much waits: the files that are ready, and the batches after the position."""
        handed_out = [planned for start, planned in list(self._planned.items()) if start >= self.count(position)]
        sizes = [file.size_bytes for file in ready]
        sizes += [split.size_bytes for planned in handed_out for split in planned.splits]
        return Backlog.of(sizes)

    def require_list(self, position: Position | None) -> None:
        """Check that the list of read files is not lost.

        Raises:
            PositionLostError: Files have been read that it does not have.
        """
        count = self.count(position)
        if count > len(self.read):
            plural = self._kind.plural
            raise PositionLostError(
                f"{plural.capitalize()} read: {count:,}, but the list of them in {self._folder} is missing or old",
                step="read",
                target=self._pipeline,
                hint=f"Restore the folder; or use a new --state, and move the {plural} that were read away",
            )

    def plan(self, position: Position | None, ready: Callable[[], Sequence[File]], max_bytes: int) -> Planned | None:
        """Return the batch after a position: the one that is planned, or the first ready files up to `max_bytes`."""
        count = self.count(position)
        if count in self._planned:
            return self._planned[count]
        files = ready()
        chosen = first_up_to(max_bytes, files, lambda file: file.size_bytes)
        if not chosen:
            return None
        for file in chosen:
            self._headers.check(file.path, partial(self._kind.opened, file))
        splits = [split for file in chosen for split in self._split(file)]
        self.skip(chosen)
        waiting = tuple(file.path for file in files[len(chosen) :][:1])
        self._planned[count] = Planned(splits, {self._kind.plural: count + len(chosen)}, waiting)
        return self._planned[count]

    def begin_at(self, beginning: StartPosition, listed: Callable[[], Sequence[File]]) -> Position:
        """Return the position of a beginning: files before it count as read from now on.

        Args:
            beginning: Where to begin.
            listed: Returns all files.

        Raises:
            SettingsError: It has offsets, which files do not have.
        """
        if beginning.offsets is not None or beginning.at == "group":
            text = f"{self._kind.plural.capitalize()} have no offsets"
            hint = "Choose with --start-timestamp which of them count as read, by the time they were written"
            raise SettingsError(text, step="rebuild", target=self._kind.source, hint=hint)
        files = [] if beginning.at == "earliest" else listed()
        if beginning.timestamp_ms is not None:
            files = [file for file in files if file.modified < beginning.timestamp_ms * 1_000_000]
        self._finished.add(map(self._kind.entry, files))
        return {self._kind.plural: len(files)}

    def acknowledge(self, planned: Planned) -> None:
        """Record the files of a committed batch as read; may be repeated.

        Raises:
            WriteError: The disk or the store refused.
        """
        files = self.files(planned)
        self._finished.add(map(self._kind.entry, files))
        self._planned.pop(self.count(planned.position) - len(files), None)

    def forget(self, before: int) -> None:
        """Forget files that were written before a time, in nanoseconds since 1970, except those under way."""
        self._finished.forget(before)
        under_way = {
            self._kind.entry(file).path for planned in list(self._planned.values()) for file in self.files(planned)
        }
        self.read = {name: file for name, file in self.read.items() if file.modified >= before or name in under_way}

    def skip(self, files: Iterable[File]) -> None:
        """Do not read files from now on, until the next start."""
        self.read |= {entry.path: entry for entry in map(self._kind.entry, files)}

    def count(self, position: Position | None) -> int:
        """Return how many files are before a position."""
        return int((position or {}).get(self._kind.plural, 0))

    def files(self, planned: Planned) -> list[File]:
        """Return the files of a batch."""
        return [self._kind.file_of(split.body) for split in planned.splits if split.body["start"] == 0]

    def _split(self, file: File) -> list[Split]:
        """Divide a file; the parts are the same in every plan."""
        parts = [(0, file.size_bytes)]
        codec = codec_of(file.path, self._settings)
        if file.size_bytes > PART_BYTES and codec and divisible(codec, self._compression(file)):
            parts = ranges(file.size_bytes, PART_BYTES)
        return [Split(self._kind.body(file, start, end), end - start) for start, end in parts]

    def _compression(self, file: File) -> str:
        def magic() -> bytes:
            try:
                with self._kind.opened(file) as stream:
                    return bytes(stream.read(4))
            except OSError:
                return b""  # the reader has the same error, and reports it

        return compression_of(file.path, self._settings.compression, magic)
