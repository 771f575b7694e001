"""The storage of files: the local disk or S3, with the same few methods."""

from __future__ import annotations

import functools
import glob
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from calve.errors import SourceError
from calve.sources.file.glob_paths import local_paths, regex_of
from calve.sources.file.paths import local_path, portable
from calve.sources.file.settings import S3Settings

__all__ = ["HIDDEN", "FoundFile", "Storage", "absolute"]

_S3 = re.compile(r"s3a?://")
HIDDEN = "is hidden, as each file whose name begins with _ or . is; name it without * or rename it"
Skipped = Callable[[str, str], None]
_CONNECT_SECONDS = 5.0
_REQUEST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A listed file; a changed file has another size or time.

    Attributes:
        path: An absolute local path (`paths.portable`) or `s3://bucket/key`.
        size_bytes: Its length.
        modified: When it was written, in nanoseconds since 1970.
        identity: Device and inode of a local file: two paths may lead to one file.
    """

    path: str
    size_bytes: int
    modified: int
    identity: tuple[int, int] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Storage:
    """Lists and opens files; has only settings, so it pickles.

    Attributes:
        s3: The store of `s3://` paths.
        follow_links: Whether links may lead out of the folder in which a glob searches.
    """

    s3: S3Settings | None = None
    follow_links: bool = False

    def find(self, pattern: str, skipped: Skipped = lambda path, why: None) -> Iterator[FoundFile]:
        """Return the files that match an absolute pattern, unordered; hidden ones (`_…`, `.…`) only if named in full.

        Args:
            pattern: The pattern.
            skipped: Gets the path of what matches and is no file, and what it is.

        Raises:
            OSError: The storage does not answer.
        """
        if _S3.match(pattern):
            return self._find_remote(pattern, skipped)
        return _find_local(pattern, self.follow_links, skipped)

    def open(self, path: str) -> pa.NativeFile:
        """Open a file for reading at any position.

        Raises:
            OSError: It does not exist, cannot be read, or the storage does not answer.
        """
        if not _S3.match(path):
            return fs.LocalFileSystem().open_input_file(os.fsencode(local_path(path)))
        return _remote(self.s3).open_input_file(_S3.sub("", path))

    def _find_remote(self, pattern: str, skipped: Skipped) -> Iterator[FoundFile]:
        store, key = _remote(self.s3), _S3.sub("", pattern)
        if not glob.has_magic(key):
            exact = store.get_file_info(key.rstrip("/"))
            if exact.type is fs.FileType.File:
                yield _found(exact)
                return
            key = f"{key.rstrip('/')}/**"
        root = _root(key)
        if not root:
            raise SourceError(f"{pattern} has no bucket", step="read", target=pattern, hint="Write s3://bucket/path")
        matches = re.compile(regex_of(key)).fullmatch
        for info in store.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True)):
            if info.type is fs.FileType.File and matches(info.path):
                if not _hidden(info.path[len(root) :]):
                    yield _found(info)
                elif not _hidden(info.path[len(root) :].rpartition("/")[0]):
                    skipped(f"s3://{info.path}", HIDDEN)


def absolute(pattern: str) -> str:
    """Return a pattern that is independent of the working directory and the executor."""
    if _S3.match(pattern):
        return _S3.sub("s3://", pattern)
    return os.path.abspath(Path(pattern.removeprefix("file://")).expanduser())  # noqa: PTH100 - keeps symbolic links


def _find_local(pattern: str, follow_links: bool, skipped: Skipped) -> Iterator[FoundFile]:
    if os.path.lexists(pattern) and not Path(pattern).is_dir():
        paths, root = iter([pattern]), None
    elif glob.has_magic(pattern) and not Path(pattern).is_dir():
        paths, root = local_paths(pattern), _root(pattern)
    else:
        paths, root = local_paths(f"{glob.escape(pattern)}/**"), pattern
    leaves = _outside(root) if root is not None and not follow_links else lambda path: False
    for path in paths:
        if root is not None and _hidden(below := path[len(root) :]):
            if not _hidden(below.rpartition("/")[0]) and Path(path).is_file():
                skipped(portable(path), HIDDEN)
            continue
        try:
            status = os.stat(path)  # noqa: PTH116 - once for each of thousands of files
        except OSError:
            if Path(path).is_symlink() and not Path(os.path.realpath(path)).exists():  # else it was deleted meanwhile
                skipped(portable(path), "is a link that leads to no file")
            continue
        if stat.S_ISREG(status.st_mode) and leaves(path):
            skipped(portable(path), f"is behind a link out of {root}; set follow_links: true to read it")
        elif stat.S_ISREG(status.st_mode):
            identity = (status.st_dev, status.st_ino)
            yield FoundFile(portable(path), status.st_size, status.st_mtime_ns, identity)
        elif not stat.S_ISDIR(status.st_mode):
            skipped(portable(path), "is not a regular file")


def _outside(root: str) -> Callable[[str], bool]:
    """Return what says whether a path below a folder leads out of it, by symbolic links."""
    top = f"{os.path.realpath(root or '/').rstrip('/')}/"
    folder_of = functools.lru_cache(maxsize=1024)(os.path.realpath)

    def leaves(path: str) -> bool:
        folder, _, name = path.rpartition("/")
        real = os.path.realpath(path) if Path(path).is_symlink() else f"{folder_of(folder or '/').rstrip('/')}/{name}"
        return not real.startswith(top)

    return leaves


def _root(pattern: str) -> str:
    """Return the folder in which a glob searches."""
    plain = re.split(r"[*?[]", pattern, maxsplit=1)[0]
    return plain.rpartition("/")[0]


def _hidden(path: str) -> bool:
    return any(part.startswith(("_", ".")) for part in path.split("/"))


def _found(info: Any) -> FoundFile:
    return FoundFile(f"s3://{info.path}", info.size, info.mtime_ns or 0)


@functools.lru_cache(maxsize=4)
def _remote(s3: S3Settings | None) -> fs.S3FileSystem:
    """Connect to S3 once per process; timeouts bound every request."""
    given = s3 or S3Settings()
    options: dict[str, Any] = {"access_key": given.access_key_id, "secret_key": given.secret_access_key}
    endpoint = given.endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = given.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if endpoint:
        parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        options |= {"endpoint_override": parts.netloc, "scheme": parts.scheme}
    if region:
        options["region"] = region
    return fs.S3FileSystem(connect_timeout=_CONNECT_SECONDS, request_timeout=_REQUEST_SECONDS, **options)
