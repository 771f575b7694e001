"""Finds the paths that lead to a file which has another path too: symbolic and hard links."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from calve.sources.file.paths import local_path, real_path
from calve.sources.file.storage import FoundFile

__all__ = ["links_in"]


def links_in(files: Iterable[FoundFile], earlier: Mapping[str, FoundFile]) -> dict[str, str]:
    """Return the paths that are not read, each with the path under which the file is read.

    That is the path under which it has been read, else the one without symbolic links, else the first by name.

    Args:
        files: Listed files; objects of a store have no links.
        earlier: The files that have been read.
    """
    paths = defaultdict[tuple[int, int], list[FoundFile]](list)
    for file in files:
        if file.identity:
            paths[file.identity].append(file)
    links: dict[str, str] = {}
    for same in paths.values():
        if len(same) > 1:
            first = min(
                same, key=lambda file: (earlier.get(file.path) != file, real_path(file.path) != file.path, file.path)
            )
            others = [file for file in same if file is not first and file.path not in earlier]
            links |= {file.path: first.path for file in others if _are_one(file, first)}
    return links


def _are_one(file: FoundFile, other: FoundFile) -> bool:
    """Return whether two paths with the same inode are links to one file; some file systems repeat their numbers."""
    try:
        return real_path(file.path) == real_path(other.path) or Path(local_path(file.path)).stat().st_nlink > 1
    except OSError:
        return False  # one was removed since it was listed
