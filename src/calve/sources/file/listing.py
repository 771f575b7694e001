"""Lists files, and finds those that are new, complete and readable."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Mapping
from pathlib import Path

from calve.errors import SourceError, SourceUnavailableError
from calve.observe.humanize import listed, many
from calve.observe.log import Log
from calve.sources.file.codec import why_unread
from calve.sources.file.links import links_in
from calve.sources.file.paths import local_path, shown
from calve.sources.file.settings import FileSettings
from calve.sources.file.storage import HIDDEN, FoundFile, Storage, absolute

__all__ = ["Listing"]

_LASTING = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "NO_SUCH_BUCKET")
"""Answers of object stores, as Arrow names them, that a retry does not change."""
_SHOWN = 3


class Listing:
    """The files that match the patterns, listed every `poll_interval`.

    Attributes:
        nothing_found: Why there is no file now that was read or can be; empty: there is one.

    Args:
        settings: The source's options.
        pipeline: The name of the pipeline, for messages.
    """

    def __init__(self, settings: FileSettings, pipeline: str) -> None:
        self._settings, self._log = settings, Log(pipeline)
        self._patterns = [absolute(pattern) for pattern in settings.patterns]
        self._storage = Storage(settings.s3, settings.follow_links)
        self._since: dict[str, tuple[FoundFile, float]] = {}
        self._next_check = 0.0
        self._has_hidden = False
        self._ready: list[FoundFile] = []
        self.nothing_found = ""

    def refresh(self, earlier: Mapping[str, FoundFile], once: bool) -> None:
        """List all files now.

        Args:
            earlier: The files that must not be read again.
            once: Whether a file is read immediately, even if it may still change.

        Raises:
            SourceUnavailableError: The storage does not answer.
        """
        self._next_check = time.monotonic() + self._settings.poll_interval.total_seconds()
        matched: dict[str, FoundFile] = {}
        for pattern in self._patterns:
            matches = self._find(pattern)
            if not matches:
                self._log.warning_once(f"Nothing matches {pattern}{'' if once else ' yet'}", pattern)
            matched |= {file.path: file for file in sorted(matches, key=lambda file: file.path)}
        files = [file for file in matched.values() if file.path in earlier or self._is_readable(file)]
        self.nothing_found = "" if files else self._why_nothing(len(matched))
        links = links_in(files, earlier)
        for link, path in list(links.items())[:1]:
            others = f"; {len(links) - 1:,} more links like this" if len(links) > 1 else ""
            self._log.warning_once(
                f"{shown(link)} is another path of {shown(path)}, which is read once{others}", "links"
            )
        self._ready = [file for file in files if file.path not in links and self._is_new(file, earlier)]
        if not once:
            self._ready = self._settled(self._ready)

    def ready(self, earlier: Mapping[str, FoundFile], once: bool) -> list[FoundFile]:
        """Return the new, complete, readable files in the order of the patterns, then by name."""
        if not once and time.monotonic() >= self._next_check:
            self.refresh(earlier, once)
        self._ready = [file for file in self._ready if file.path not in earlier]
        return self._ready

    def require(self) -> None:
        """Refuse a missing file whose path has no pattern.

        Raises:
            SourceError: It has the file's name.
        """
        for pattern in self._patterns:
            if not glob.has_magic(pattern) and not self._find(pattern) and not Path(pattern).is_dir():
                why = "is not a regular file" if os.path.lexists(pattern) else "does not exist"
                hint = "Check `path`; a relative path starts at the folder in which calve was started"
                raise SourceError(f"The file {pattern} {why}", step="read", target=pattern, hint=hint)

    def _why_nothing(self, count: int) -> str:
        patterns = listed([shown(pattern) for pattern in self._patterns], _SHOWN)
        if count:
            return f"{many(count, 'file')} at {patterns}, none with a known extension that this user may read"
        return f"no file matches {patterns}{', but hidden ones' * self._has_hidden}"

    def _find(self, pattern: str) -> list[FoundFile]:
        try:
            return list(self._storage.find(pattern, self._skip))
        except OSError as error:
            kind = SourceError if any(code in str(error) for code in _LASTING) else SourceUnavailableError
            raise kind(
                f"{pattern} cannot be listed: {error}",
                step="read",
                target=pattern,
                hint="Check `s3` (endpoint, region, keys), and that the store answers",
            ) from error

    def _skip(self, path: str, why: str) -> None:
        if why != HIDDEN:
            self._log.warning_once(f"{shown(path)} is not read: it {why}")
        elif not why_unread(path, self._settings):
            self._has_hidden = True
            self._log.warning_once(f"{shown(path)} is not read: it {why}", HIDDEN)

    def _is_new(self, file: FoundFile, earlier: Mapping[str, FoundFile]) -> bool:
        former = earlier.get(file.path)
        if former is not None and former != file:
            text = f"{shown(file.path)} has changed since it was read and is not read again; use a new name"
            self._log.warning_once(text, file)
        return former is None

    def _is_readable(self, file: FoundFile) -> bool:
        if why := why_unread(file.path, self._settings):
            self._log.warning_once(f"{shown(file.path)} is not read: {why}")
            return False
        if file.identity and not os.access(local_path(file.path), os.R_OK):
            text = f"{shown(file.path)} is not readable for this user; Calve reads it as soon as it is"
            self._log.warning_once(text)
            return False
        return True

    def _settled(self, files: list[FoundFile]) -> list[FoundFile]:
        now, settle = time.monotonic(), self._settings.settle.total_seconds()
        since = {}
        for file in files:
            before = self._since.get(file.path)
            since[file.path] = before if before and before[0] == file else (file, now)
        self._since = since
        return [file for file in files if file.path.startswith("s3://") or now - since[file.path][1] >= settle]
