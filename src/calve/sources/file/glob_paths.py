"""Finds the local paths that match a pattern, without going round in circles of symbolic links."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator

__all__ = ["local_paths", "regex_of"]

_DEEP = re.compile(r"/\*\*(?=/|\Z)")
_Identity = tuple[int, int]


def local_paths(pattern: str) -> Iterator[str]:
    """Yield the paths that match a glob; `**` leads into no folder again below itself."""
    deep = _DEEP.search(pattern)
    if not deep:
        yield from glob.iglob(pattern)  # noqa: PTH207 - Path.glob is slower
        return
    matches = re.compile(regex_of(pattern[deep.start() + 1 :])).fullmatch
    for folder in glob.iglob(pattern[: deep.start()] or "/"):  # noqa: PTH207
        top = f"{folder.rstrip('/')}/"
        yield from (path for path in _files_below(top) if matches(path[len(top) :]))


def regex_of(pattern: str) -> str:
    """Return the regular expression of a glob, in which only `**` matches several folders."""
    out = []
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[!?\]?[^]]*\]|.", pattern, re.DOTALL):
        if token in ("**/", "**", "*", "?"):
            out.append({"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}[token])
        elif len(token) > 1:
            inside = token[1:-1].replace("\\", r"\\")
            out.append(f"[{'^' + inside[1:] if inside.startswith('!') else inside}]")
        else:
            out.append(re.escape(token))
    return "(?s:" + "".join(out) + ")"


def _files_below(top: str) -> Iterator[str]:
    folders: list[tuple[str, frozenset[_Identity]]] = [(top, frozenset())]
    while folders:
        folder, above = folders.pop()
        try:
            status = os.stat(folder)  # noqa: PTH116 - once for each of thousands of folders
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError:
            continue  # removed meanwhile, or not to be read
        identity = (status.st_dev, status.st_ino)
        if identity in above:
            continue
        for entry in entries:
            if _is_folder(entry):
                folders.append((entry.path, above | {identity}))
            else:
                yield entry.path


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False  # a link to itself
