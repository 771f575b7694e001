"""The driver's side of files that are followed: plans the lines that were appended since the last batch.

The bytes of a batch are copied into the state folder before the ledger records it: its file may be cut, compressed or
removed before the batch is committed (decision 35).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from calve.errors import SettingsError, SourceUnavailableError
from calve.observe.humanize import size
from calve.observe.log import Log
from calve.sources.file.listing import Listing
from calve.sources.file.paths import shown
from calve.sources.file.processed_files import ProcessedFiles
from calve.sources.file.settings import FileSettings
from calve.sources.file.tail.cut import Cutter
from calve.sources.file.tail.discovery import Discovery, codec_for
from calve.sources.file.tail.followed import FollowedFile, Read, TailPiece
from calve.sources.file.tail.reader import TailReader
from calve.sources.file.tail.spool import Spool
from calve.sources.source import Backlog, Planned, Position, Split, StartPosition
from calve.state.folder import StateFolder
from calve.stop_point import stop_at

__all__ = ["TailSource"]

_OPEN_FILES = 256
"""Files that are kept open, so that what is written to them is read even after they are removed."""
_GONE_FILES = 50
"""Removed files that are remembered: a folder may be there again after it was not mounted."""


class TailSource:
    """Plans complete lines of growing files, the file that was written longest ago first.

    Args:
        settings: The source's options.
        folder: The source's folder of the state.
        pipeline: The name of the pipeline, for messages.
    """

    def __init__(self, settings: FileSettings, folder: StateFolder, pipeline: str) -> None:
        self._spool = Spool(folder.absolute() / "tail")
        self.reader = TailReader(settings, self._spool)
        self._finished = ProcessedFiles(folder)
        self._settings, self._pipeline = settings, pipeline
        self._log = Log(pipeline)
        self._discovery = Discovery(settings, pipeline)
        self._files: list[FollowedFile] = []
        self._planned: dict[int, Planned] = {}
        self._once = False
        self._next_check = 0.0

    def start(self, position: Position | None, once: bool, pending: Sequence[Planned] = ()) -> None:
        """Find the files of the position again, and new ones; with `once`, also fix where to end.

        Raises:
            SourceError: A file without a pattern does not exist (with `once`, at the first start).
            WriteError: The state cannot be written.
        """
        self.stop()
        if once and not position:
            Listing(self._settings, self._pipeline).require()
        if position and isinstance(position["files"], int):  # of this source without `tail`
            position = {"files": self._read_before()}
        if position is None and self._settings.start_position == "end":
            position = {"files": self._spool.begun(lambda: self._skipped(lambda file: True))}
        self._files = [FollowedFile.of(entry) for entry in (position or {}).get("files", [])]
        for planned in pending:
            self._planned[_batch(planned.position) - 1] = planned
        self._spool.keep_only({split.body["spool"] for planned in pending for split in planned.splits})
        self._find()
        self._refresh()
        self._once = once
        for file in self._files if once else ():
            file.limit = file.size

    @property
    def nothing_found(self) -> str:
        """See `FindsFiles`."""
        return "" if self._files else f"no file that can be followed matches {', '.join(self._settings.patterns)}"

    def backlog(self, position: Position | None) -> Backlog:
        """Return the bytes that are not read, except lines and events that are not complete yet."""
        if not self._once and time.monotonic() >= self._next_check:
            self._find()
        self._refresh()
        waiting = [file.unread for file in self._files if file.is_ready(self._cutter(file))]
        handed_out = [planned for start, planned in list(self._planned.items()) if start >= _batch(position)]
        waiting += [split.size_bytes for planned in handed_out for split in planned.splits]
        return Backlog.of(waiting)

    def plan(self, position: Position | None, max_bytes: int) -> Planned | None:
        """Set the next complete events aside, about `max_bytes`, and return them.

        Raises:
            SourceUnavailableError: A file cannot be read.
            WriteError: The state cannot be written.
        """
        batch = _batch(position)
        if batch in self._planned:
            return self._planned[batch]
        name = self._spool.new_name(batch + 1)
        with self._spool.writing(name) as (write, publish):
            advanced, splits, is_more = list[tuple[FollowedFile, Read]](), list[Split](), False
            for file in sorted(self._files, key=lambda file: (file.modified, file.path)):
                cutter = self._cutter(file)
                if not file.is_ready(cutter):
                    continue
                bytes_left = max_bytes - sum(split.size_bytes for split in splits)
                if splits and bytes_left <= 0:
                    is_more = True
                    break
                pieces, read = self._write_next(file, cutter, bytes_left, write)
                advanced.append((file, read))
                splits += _splits(name, sum(split.size_bytes for split in splits), pieces)
                is_more |= read.offset < file.read.offset + file.unread
            if not splits:
                return None
            publish()
        stop_at("tail.after-spool")
        for file, read in advanced:
            file.read = read
        self._planned[batch] = Planned(splits, self._position(batch + 1), ("files",) if is_more else ())
        return self._planned[batch]

    def acknowledge(self, planned: Planned) -> None:
        """Remove what was set aside for a committed batch; may be repeated."""
        self._spool.remove({split.body["spool"] for split in planned.splits})
        self._planned.pop(_batch(planned.position) - 1, None)

    def begin_at(self, beginning: StartPosition) -> Position:
        """Return the position of a beginning; older files count as read to their end.

        Raises:
            SettingsError: It has offsets by topic, which files do not have.
        """
        if beginning.offsets is not None or beginning.at == "group":
            text = "Files have no offsets of topics"
            hint = "Choose with --from or --start-timestamp which of them count as read, by the time they were written"
            raise SettingsError(text, step="rebuild", target="file", hint=hint)
        since = beginning.timestamp_ms
        if since is not None:
            return {"batch": 0, "files": self._skipped(lambda file: file.modified < since * 1_000_000)}
        return {"batch": 0, "files": [] if beginning.at == "earliest" else self._skipped(lambda file: True)}

    def stop(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()

    def _read_before(self) -> list[Any]:
        """Return the entries of the files that were read without `tail`, each to the size that it had then."""
        sizes = {file.path: file.size_bytes for file in self._finished.load()}
        entries = []
        for file in self._discovery.discover([]):
            if file.path in sizes and self._opens(file):
                file.skip_to(sizes[file.path])
                entries.append(file.entry)
            file.close()
        return entries

    def _skipped(self, is_read: Callable[[FollowedFile], bool]) -> list[Any]:
        """Return the entries of the files that are there, with all their lines read, if they count as read."""
        entries = []
        for file in self._discovery.discover([]):
            if self._opens(file) and is_read(file):
                file.skip_to_end()
                entries.append(file.entry)
            file.close()
        return entries

    def _find(self) -> None:
        self._next_check = time.monotonic() + self._settings.poll_interval.total_seconds()
        self._files += self._discovery.discover(self._files)
        gone = [file for file in self._files if file.is_gone][:-_GONE_FILES]
        self._files = [file for file in self._files if file not in gone]
        for file in self._files:
            if not file.is_open and file.now:
                self._opens(file)
        for file in sorted(self._files, key=lambda file: file.modified, reverse=True)[_OPEN_FILES:]:
            if file.unread <= 0:
                file.close()

    def _refresh(self) -> None:
        """Look at all open files, and leave those that are removed and read to their end."""
        for file in self._files:
            if file.is_open:
                self._refresh_file(file)
            if not file.now and not file.is_gone:
                self._leave(file)

    def _refresh_file(self, file: FollowedFile) -> None:
        try:
            file.refresh()
            if file.is_changed:
                self._check(file)
        except OSError as error:  # a stale handle of a network, a disk that fails: it is opened again
            self._log.warning_once(f"{shown(file.path)} cannot be read: {error.strerror}")
            file.close()

    def _opens(self, file: FollowedFile) -> bool:
        """Open a file that has changed; return whether it is open and compared with what was read."""
        try:
            file.refresh()
            if file.is_changed:
                file.open()
                self._check(file)
        except PermissionError:
            self._log.warning_once(f"{shown(file.now)} is not readable for this user; Calve reads it as soon as it is")
        except OSError:
            return False  # it was removed or renamed since it was listed
        return file.is_open

    def _check(self, file: FollowedFile) -> None:
        lost = file.check(self._settings.compression)
        if lost is not None:
            if not file.is_matched:  # another file has its number
                file.close()
                file.now, file.is_gone = "", True
                return
            file.path = file.now or file.path
            unread = f"; {size(lost)} of it had not been read" if lost else ""
            self._log.warning(f"{shown(file.path)} was cut or replaced, and is read from its start{unread}")
        if file.is_compressed:
            what = "is compressed and is not followed; read it with a pipeline without `tail`"
            self._log.warning_once(f"{shown(file.path)} {what}")

    def _leave(self, file: FollowedFile) -> None:
        """Leave a file that has no path any more, once it is read to its end."""
        if file.is_open and (file.unread > 0 or not file.idle_for(self._settings.rotate_wait.total_seconds())):
            return
        if not file.is_open and (file.known or file.unread > 0):
            where = f"after byte {file.entry[3]:,}"
            self._log.warning(f"{shown(file.path)} is gone; what was written to it {where} is not read")
        file.close()
        file.is_gone = True

    def _cutter(self, file: FollowedFile) -> Cutter:
        codec = codec_for(file.path, self._settings)
        begins_with = codec.multiline.begins_with if codec and codec.multiline else None
        is_ended = file.now != file.path and file.idle_for(self._settings.rotate_wait.total_seconds())
        is_flushed = begins_with is not None and file.idle_for(self._settings.flush_after.total_seconds())
        return Cutter(begins_with, is_ended, is_flushed)

    def _write_next(
        self, file: FollowedFile, cutter: Cutter, most: int, write: Callable[[bytes], object]
    ) -> tuple[list[TailPiece], Read]:
        try:
            pieces, read = file.write_next(cutter, most, write)
        except OSError as error:
            raise SourceUnavailableError(
                f"{file.path} cannot be read: {error.strerror or error}",
                step="read",
                target=file.path,
                hint="Calve tries again; check the disk of the file",
            ) from error
        if not pieces:
            file.waits(cutter)
        return pieces, read

    def _position(self, batch: int) -> Position:
        return {"batch": batch, "files": [file.entry for file in self._files if file.known or file.read.offset]}


def _batch(position: Position | None) -> int:
    return int((position or {}).get("batch", 0))


def _splits(spool: str, start: int, pieces: Sequence[TailPiece]) -> list[Split]:
    splits = []
    for piece in pieces:
        body = {"spool": spool, "start": start, "path": piece.path, "lines": piece.lines}
        splits.append(Split(body, piece.size_bytes))
        start += piece.size_bytes
    return splits
