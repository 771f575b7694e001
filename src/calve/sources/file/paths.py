"""Paths of local files as text: bytes of a name that are not UTF-8 are marked, so that JSON and Arrow can hold it."""

from __future__ import annotations

import os
import re

from calve.observe.humanize import harmless
from calve.sources.file.encoding import MARKED, marked, marked_byte, unmarked

__all__ = ["local_path", "portable", "readable", "real_path", "shown"]


def portable(path: str) -> str:
    """Return a path of this machine as text; whatever has a plain name stays as it is."""
    return path if path.isascii() else marked(os.fsencode(path)).decode()


def local_path(path: str) -> str:
    """Return the path of this machine that `portable` made a text of."""
    return path if path.isascii() else os.fsdecode(unmarked(path))


def real_path(path: str) -> str:
    """Return a path of `portable` without symbolic links."""
    return portable(os.path.realpath(local_path(path)))


def readable(path: str) -> str:
    r"""Return a path of `portable` with `\xe9` for each byte that is not UTF-8."""
    return path if path.isascii() else re.sub(MARKED, lambda mark: f"\\x{marked_byte(mark[0]):02x}", path)


def shown(path: str) -> str:
    """Return a path for a log: without characters that control a terminal."""
    return harmless(readable(path))
