"""The driver's side of the file source: finds files that are new, complete and not yet read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import pyarrow as pa

from calve.sources.file.codec import FilePart
from calve.sources.file.listing import Listing
from calve.sources.file.reader import FileReader
from calve.sources.file.settings import FileSettings
from calve.sources.file.storage import FoundFile, Storage
from calve.sources.file.tail.source import TailSource
from calve.sources.file.whole_files import FileKind, WholeFiles
from calve.sources.source import ALONE, Backlog, Planned, Position, SourceContext, StartPosition
from calve.state.folder import StateFolder

__all__ = ["FileSource", "check_start", "open"]


def open(
    settings: FileSettings, folder: StateFolder, pipeline: str, context: SourceContext = ALONE
) -> FileSource | TailSource:
    """Create the source of a pipeline; it reads nothing before `start`."""
    return (TailSource if settings.tail else FileSource)(settings, folder, pipeline)


def check_start(settings: FileSettings, pipeline: str, once: bool, is_new: bool) -> None:
    """Check that a first run with `once` has something to read.

    Raises:
        SourceError: A file without a pattern does not exist.
    """
    if once and is_new and not settings.s3:
        Listing(settings, pipeline).require()


class FileSource:
    """Plans files in the order of their names, each path once (see `WholeFiles`).

    Args:
        settings: The source's options.
        folder: The folder with the list of files that have been read.
        pipeline: The name of the pipeline, for messages.
    """

    def __init__(self, settings: FileSettings, folder: StateFolder, pipeline: str) -> None:
        self.reader = FileReader(settings)
        kind = FileKind[FoundFile]("file", "files", lambda file: file, partial(_opened, settings), _body, _file_of)
        self._files = WholeFiles(kind, settings, folder, pipeline)
        self._listing = Listing(settings, pipeline)
        self._once = False

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Load the list of read files; with `once`, also fix the files to read.

        Raises:
            SourceError: A file without a pattern does not exist (with `once`, at the first start).
            SourceUnavailableError: The storage does not answer.
        """
        self._once = once
        self._files.load(pending)
        if once and not position:
            self._listing.require()
        self._listing.refresh(self._files.read, once)

    @property
    def nothing_found(self) -> str:
        """See `FindsFiles`."""
        return self._listing.nothing_found

    def backlog(self, position: Position | None) -> Backlog:
        """Return how much waits; search for new files every `poll_interval`."""
        return self._files.backlog(position, self._ready(position))

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Return complete files up to `max_bytes`, at least one.

        Raises:
            PositionLostError: Files have been read, but the list of them is lost.
        """
        return self._files.plan(position, lambda: self._ready(position), max_bytes)

    def begin_at(self, beginning: StartPosition) -> Position:
        """Return the position of a beginning: older files count as read from now on.

        Raises:
            SettingsError: It has offsets, which files do not have.
            SourceUnavailableError: The storage does not answer.
        """
        return self._files.begin_at(beginning, self._listed)

    def acknowledge(self, planned: Planned) -> None:
        """Record the files of a committed batch as read; may be repeated.

        Raises:
            WriteError: The disk refused.
        """
        self._files.acknowledge(planned)

    def _listed(self) -> list[FoundFile]:
        self._listing.refresh({}, once=True)
        return self._listing.ready({}, once=True)

    def _ready(self, position: Position | None) -> list[FoundFile]:
        self._files.require_list(position)
        return self._listing.ready(self._files.read, self._once)


def _opened(settings: FileSettings, file: FoundFile) -> pa.NativeFile:
    return Storage(settings.s3).open(file.path)


def _body(file: FoundFile, start: int, end: int) -> dict[str, Any]:
    return asdict(FilePart(file.path, start, end, file.size_bytes, file.modified))


def _file_of(body: dict[str, Any]) -> FoundFile:
    part = FilePart(**body)
    return FoundFile(part.path, part.size, part.modified)
