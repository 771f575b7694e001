"""The driver's side of the file source: finds files that are new, complete and not yet read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from calve.errors import PositionLostError, SettingsError
from calve.sources.file.codec import Part, codec_of, divisible, ranges
from calve.sources.file.csv_check import HeaderCheck
from calve.sources.file.listing import Listing
from calve.sources.file.processed_files import ProcessedFiles
from calve.sources.file.reader import FileReader
from calve.sources.file.settings import FileSettings
from calve.sources.file.storage import Found, Storage
from calve.sources.file.stream import compression_of
from calve.sources.file.tail.source import TailSource
from calve.sources.source import ALONE, Backlog, Beginning, Planned, Position, SourceContext, Split
from calve.sources.try_start import try_first_event
from calve.state.folder import StateFolder

__all__ = ["PART_BYTES", "FileSource", "open", "probe"]

PART_BYTES = 64 << 20
"""Larger files are divided, if their codec allows it, so that several tasks read them."""


def open(
    settings: FileSettings, folder: StateFolder, pipeline: str, context: SourceContext = ALONE
) -> FileSource | TailSource:
    """Create the source of a pipeline; it reads nothing before `start`."""
    return (TailSource if settings.tail else FileSource)(settings, folder, pipeline)


def probe(settings: FileSettings, folder: StateFolder, pipeline: str, context: SourceContext) -> None:
    """Check that there are files, and read the start of the first.

    Raises:
        SourceError: It cannot be read.
    """
    try_first_event(open(settings, folder, pipeline))


class FileSource:
    """Plans files in the order of their names, each path once.

    Files that were read are in two lists: those of uncommitted batches in the ledger, those of acknowledged batches in
    a file of the source's folder. The same position always has the same plan.

    Args:
        settings: The source's options.
        folder: The folder with the list of files that have been read.
        pipeline: The name of the pipeline, for messages.
    """

    def __init__(self, settings: FileSettings, folder: StateFolder, pipeline: str) -> None:
        self.reader = FileReader(settings)
        self._settings, self._folder, self._pipeline = settings, folder, pipeline
        self._finished = ProcessedFiles(folder)
        self._listing = Listing(settings, pipeline)
        self._headers = HeaderCheck(settings, pipeline)
        self._once = False
        self._taken: dict[str, Found] = {}
        self._planned: dict[int, Planned] = {}

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Load the list of read files; with `once`, also fix the files to read.

        Raises:
            SourceError: A file without a pattern does not exist (with `once`, at the first start).
            SourceUnavailableError: The storage does not answer.
        """
        self._once = once
        self._taken = {file.path: file for file in self._finished.load()}
        for planned in pending:
            files = _files(planned)
            self._taken |= {file.path: file for file in files}
            self._planned[_count(planned.position) - len(files)] = planned
        if once and not position:
            self._listing.require()
        self._listing.look(self._taken, once)

    @property
    def nothing_found(self) -> str:
        """See `FindsFiles`."""
        return self._listing.nothing_found

    def backlog(self, position: Position | None) -> Backlog:
        """Return how much waits; search for new files every `poll_interval`."""
        waiting = [file.size_bytes for file in self._ready(position)]
        handed_out = [planned for start, planned in list(self._planned.items()) if start >= _count(position)]
        waiting += [split.size_bytes for planned in handed_out for split in planned.splits]
        return Backlog(-1, sum(waiting)) if waiting else Backlog()

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Return complete files up to `max_bytes`, at least one.

        Raises:
            PositionLostError: Files have been read, but the list of them is lost.
        """
        count = _count(position)
        if count in self._planned:
            return self._planned[count]
        chosen: list[Found] = []
        bytes_left = max_bytes
        ready = self._ready(position)
        for file in ready:
            bytes_left -= file.size_bytes
            if chosen and bytes_left < 0:
                break
            chosen.append(file)
        if not chosen:
            return None
        for file in chosen:
            self._headers.check(file.path, partial(Storage(self._settings.s3).open, file.path))
        splits = [split for file in chosen for split in self._split(file)]
        self._taken |= {file.path: file for file in chosen}
        next_one = tuple(file.path for file in ready[len(chosen) :][:1])
        self._planned[count] = Planned(splits, {"files": count + len(chosen)}, next_one)
        return self._planned[count]

    def begin_at(self, beginning: Beginning) -> Position:
        """Return the position of a beginning: older files count as read from now on.

        Raises:
            SettingsError: It has offsets, which files do not have.
            SourceUnavailableError: The storage does not answer.
        """
        if beginning.offsets is not None or beginning.at == "group":
            text = "Files have no offsets"
            hint = "Choose with --start-timestamp which of them count as read, by the time they were written"
            raise SettingsError(text, step="rebuild", target="file", hint=hint)
        self._listing.look({}, once=True)
        files = [] if beginning.at == "earliest" else self._listing.ready({}, once=True)
        if beginning.timestamp_ms is not None:
            files = [file for file in files if file.modified < beginning.timestamp_ms * 1_000_000]
        self._finished.add(files)
        return {"files": len(files)}

    def acknowledge(self, planned: Planned) -> None:
        """Record the files of a committed batch as read; may be repeated.

        Raises:
            SourceError: The disk refused.
        """
        files = _files(planned)
        self._finished.add(files)
        self._planned.pop(_count(planned.position) - len(files), None)

    def stop(self) -> None:
        """Do nothing: nothing stays open."""

    def _ready(self, position: Position | None) -> list[Found]:
        if _count(position) > len(self._taken):
            raise PositionLostError(
                f"Files read: {_count(position):,}, but the list of them in {self._folder} is missing or old",
                step="read",
                target=self._pipeline,
                hint="Restore the folder; or use a new --state, and move the files that were read away",
            )
        return self._listing.ready(self._taken, self._once)

    def _split(self, file: Found) -> list[Split]:
        """Divide a file; the parts are the same in every plan."""
        extents = [(0, file.size_bytes)]
        codec = codec_of(file.path, self._settings)
        if file.size_bytes > PART_BYTES and codec and divisible(codec, self._compression(file)):
            extents = ranges(file.size_bytes, PART_BYTES)
        parts = [Part(file.path, start, end, file.size_bytes, file.modified) for start, end in extents]
        return [Split(asdict(part), part.end - part.start) for part in parts]

    def _compression(self, file: Found) -> str:
        def magic() -> bytes:
            try:
                with Storage(self._settings.s3).open(file.path) as opened:
                    return bytes(opened.read(4))
            except OSError:
                return b""  # the reader has the same error, and reports it

        return compression_of(file.path, self._settings.compression, magic)


def _count(position: Position | None) -> int:
    return int((position or {}).get("files", 0))


def _files(planned: Planned) -> list[Found]:
    parts = [Part(**split.body) for split in planned.splits]
    return [Found(part.path, part.size, part.modified) for part in parts if part.start == 0]
