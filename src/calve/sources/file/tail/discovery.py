"""Finds the files to follow, and where the followed ones are now."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from calve.observe.log import Log
from calve.sources.file.codec import codec_of
from calve.sources.file.codec_settings import CodecSettings
from calve.sources.file.paths import local_path, portable, real_path, shown
from calve.sources.file.settings import FileSettings
from calve.sources.file.storage import HIDDEN, Storage, absolute
from calve.sources.file.tail.followed import FollowedFile

__all__ = ["Discovery", "codec_for"]

_ROTATED = re.compile(r"[.\-_]\d[\d.\-_:TZ]*$")
"""What rotation puts behind a name: `.1`, `-20261123`."""

Identity = tuple[int, int]


def codec_for(path: str, settings: FileSettings) -> CodecSettings | None:
    """Return the codec of a file that grows; None if it is unknown or does not read lines."""
    codec = codec_of(_ROTATED.sub("", path), settings)
    return None if codec is None or codec.json or codec.csv or codec.parquet else codec


class Discovery:
    """The files that match the patterns.

    Args:
        settings: The source's options.
        pipeline: The name of the pipeline, for messages.
    """

    def __init__(self, settings: FileSettings, pipeline: str) -> None:
        self._settings, self._log = settings, Log(pipeline)
        self._patterns = [absolute(pattern) for pattern in settings.patterns]

    def discover(self, followed: Iterable[FollowedFile]) -> list[FollowedFile]:
        """Find all files; note where the followed ones are, and return the new ones."""
        followed = list(followed)
        matches = self._matches({file.path for file in followed})
        _renumber(followed, matches)
        siblings = _siblings([file for file in followed if file.identity not in matches])
        for file in followed:
            file.is_matched = file.identity in matches
            file.now = matches.get(file.identity) or siblings.get(file.identity, "")
            if file.now:
                file.real, file.is_gone = real_path(file.now), False
        identities = {file.identity for file in followed}
        return [
            FollowedFile(path, *identity, now=path, real=real_path(path))
            for identity, path in matches.items()
            if identity not in identities and self._is_followable(path)
        ]

    def _skip(self, path: str, why: str) -> None:
        if why != HIDDEN:
            self._log.warning_once(f"{shown(path)} is not followed: it {why}")
        elif codec_for(path, self._settings) is not None:
            self._log.warning_once(f"{shown(path)} is not followed: it {why}", HIDDEN)

    def _matches(self, followed_paths: set[str]) -> dict[Identity, str]:
        """Return the path of each file that matches; of two paths the first."""
        matches: dict[Identity, str] = {}
        for pattern in self._patterns:
            if pattern in followed_paths and Path(pattern).is_dir():
                self._log.warning_once(f"{shown(pattern)} was a file and is a folder now; it is not followed")
                continue
            storage = Storage(follow_links=self._settings.follow_links)
            paths = sorted(file.path for file in storage.find(pattern, self._skip))
            if not paths:
                self._log.warning_once(f"Nothing matches {shown(pattern)} yet")
            for path in paths:
                try:
                    status = Path(local_path(path)).stat()
                except OSError:
                    continue  # deleted after it was listed
                matches.setdefault((status.st_dev, status.st_ino), path)
        return matches

    def _is_followable(self, path: str) -> bool:
        if codec_for(path, self._settings) is None:
            why = "`tail` reads lines; set `codec` to newline, ndjson or multiline"
            self._log.warning_once(f"{shown(path)} is not followed: {why}")
            return False
        return True


def _renumber(followed: list[FollowedFile], matches: dict[Identity, str]) -> None:
    """Find the files of an earlier run whose device has another number since, e.g. after a reboot."""
    identities = {file.identity for file in followed}
    devices = {inode: device for device, inode in matches if (device, inode) not in identities}
    for file in followed:
        device = devices.get(file.inode)
        if not file.known or file.identity in matches or device is None:
            continue
        if Path(matches[device, file.inode]).parent == Path(file.path).parent:
            file.device = device


def _siblings(moved: list[FollowedFile]) -> dict[Identity, str]:
    """Return where renamed files are, if they are still in the folder in which they were."""
    siblings: dict[Identity, str] = {}
    inodes = {file.inode for file in moved}
    for folder in {str(Path(path).parent) for file in moved for path in (file.path, file.real)}:
        try:
            with os.scandir(local_path(folder)) as entries:
                paths = [entry.path for entry in entries if entry.inode() in inodes]
            for path in paths:
                status = Path(path).lstat()
                siblings[status.st_dev, status.st_ino] = portable(path)
        except OSError:
            continue  # the folder, or a file in it, is gone
    return siblings
