"""The small files of a source on an object store: objects, and a list of them that one driver can change.

    files.json                 the names of the files, and the object of each; changes by compare-and-swap alone
    files/<object>             a file
    posted/<name>.<unique>     what other processes have posted

An object is written first, under a name that nobody else uses, and is a file when the list has it. A driver takes the
files over by writing its own name into the list; the store refuses every later change by the one before.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from calve import structs
from calve.errors import OvertakenError, WriteError
from calve.state.folder import StateFolder

__all__ = ["StoreFiles"]

_LIST = "files.json"
_FILES, _POSTED = "files", "posted"
_ATTEMPTS = 5
_CHECK_SECONDS = 2.0
"""What others post is listed at most this often."""
_KEPT_BYTES = 1 << 16
"""Smaller files stay in the memory of the driver that owns them."""


class _List(msgspec.Struct, frozen=True):
    """The files.

    Attributes:
        owner: The driver that may change them; every driver has another name.
        version: Grows with each change, so that no two lists are equal.
        files: The object of each file.
    """

    owner: str = ""
    version: int = 0
    files: dict[str, str] = {}


class StoreFiles:
    """The same as `LocalFiles`, on an object store.

    The methods of the owner raise OvertakenError when another driver owns the files by now.

    Args:
        folder: `<state>/<pipeline>/<source>`.
    """

    def __init__(self, folder: StateFolder) -> None:
        self.folder = folder
        self._owner = ""
        self._list = _List()
        self._tag = ""
        self._lock = threading.RLock()
        self._kept: dict[str, bytes] = {}
        self._seen: list[str] = []
        self._contents: dict[str, bytes] = {}
        self._checked_at = float("-inf")

    def acquire(self) -> None:
        """See `LocalFiles`. May be repeated."""
        with self._lock:
            self._owner, self._kept, self._checked_at = uuid.uuid4().hex, {}, float("-inf")
            for _ in range(_ATTEMPTS):
                before, current = self._current()
                if current.owner == self._owner:
                    self._list, self._tag = current, before
                    return
                mine = replace(current, owner=self._owner, version=current.version + 1)
                content = msgspec.json.encode(mine)
                tag = self.folder.swap(_LIST, content, before) if before else self.folder.create(_LIST, content)
                if tag:
                    self._list, self._tag = mine, tag
                    return
        raise self._busy()

    def check(self) -> None:
        """Check that no other driver owns the files by now; this costs a write."""
        with self._lock:
            self._change(lambda files: files)

    def read(self, name: str) -> bytes | None:
        """See `LocalFiles`."""
        with self._lock:
            if not self._owner:
                return self._read_of_another(name)
            if name not in self._list.files:
                return None
            if name in self._kept:
                return self._kept[name]
            stored = (self.folder / _FILES).get(self._list.files[name])
            if stored is None:
                raise self._lost()
            self._keep(name, stored.content)
            return stored.content

    def names(self, folder: str = "") -> list[str]:
        """See `LocalFiles`."""
        with self._lock:
            files = self._list.files if self._owner else self._current()[1].files
        return sorted(name for name in files if not folder or name.startswith(f"{folder}/"))

    def write(self, name: str, content: bytes) -> None:
        """See `LocalFiles`."""
        new = f"{name.replace('/', '-')}.{uuid.uuid4().hex}"
        with self._lock:
            (self.folder / _FILES).put(new, content)
            before = self._list.files.get(name)
            self._change(lambda files: {**files, name: new})
            self._keep(name, content)
            if before:
                (self.folder / _FILES).remove([before])

    def append(self, name: str, content: bytes) -> None:
        """See `LocalFiles`."""
        with self._lock:
            self.write(name, (self.read(name) or b"") + content)

    def remove(self, names: Iterable[str]) -> None:
        """See `LocalFiles`."""
        with self._lock:
            gone = {name: self._list.files[name] for name in names if name in self._list.files}
            if gone:
                self._change(lambda files: {name: file for name, file in files.items() if name not in gone})
                (self.folder / _FILES).remove_all(list(gone.values()))

    def post(self, name: str, content: bytes) -> None:
        """See `LocalFiles`."""
        (self.folder / _POSTED).put(f"{name}.{uuid.uuid4().hex}", content)

    def posted(self, folder: str, now: bool = False) -> dict[str, bytes]:
        """See `LocalFiles`."""
        with self._lock:
            self._refresh(now)
            contents: dict[str, bytes] = {}
            for posted in self._seen:
                name = posted.rpartition(".")[0]
                if name.rpartition("/")[0] == folder and (content := self._content(posted)) is not None:
                    contents[name] = content
            return contents

    def unpost(self, names: Iterable[str]) -> None:
        """See `LocalFiles`. What is posted from now on stays, also if another driver owns the files by now."""
        with self._lock:
            self._refresh(now=True)
            wanted = set(names)
            gone = [posted for posted in self._seen if posted.rpartition(".")[0] in wanted]
            if gone:
                self.check()  # whoever does not own them has no say in it
                (self.folder / _POSTED).remove_all(gone)
                self._seen = [posted for posted in self._seen if posted not in gone]

    def _refresh(self, now: bool) -> None:
        if now or time.monotonic() >= self._checked_at + _CHECK_SECONDS:
            self._seen = (self.folder / _POSTED).names()
            self._contents = {name: self._contents[name] for name in self._seen if name in self._contents}
            self._checked_at = time.monotonic()

    def _content(self, posted: str) -> bytes | None:
        if posted not in self._contents:
            stored = (self.folder / _POSTED).get(posted)
            if stored is None:
                return None  # removed meanwhile
            self._contents[posted] = stored.content
        return self._contents[posted]

    def _keep(self, name: str, content: bytes) -> None:
        self._kept.pop(name, None)
        if len(content) <= _KEPT_BYTES:
            self._kept[name] = content

    def _read_of_another(self, name: str) -> bytes | None:
        """Return a file of a driver that may be changing it."""
        for _ in range(_ATTEMPTS):
            files = self._current()[1].files
            if name not in files:
                return None
            if stored := (self.folder / _FILES).get(files[name]):
                return stored.content
        raise self._busy()

    def _change(self, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
        """Change the list.

        Raises:
            OvertakenError: Another driver owns it: nothing was changed.
            WriteError: The store does not answer. The change counts as not made, and the next one replaces it.
        """
        wanted = replace(self._list, files=change(self._list.files))
        for _ in range(_ATTEMPTS):
            wanted = replace(wanted, version=wanted.version + 1)
            content = msgspec.json.encode(wanted)
            tag = self.folder.swap(_LIST, content, self._tag)
            if tag is None:
                now, current = self._current()
                if not self._owner or current.owner != self._owner:
                    raise self._lost()
                self._tag = now
                if current != wanted:
                    continue
                tag = now
            self._list, self._tag = wanted, tag
            return
        raise self._busy()

    def _current(self) -> tuple[str, _List]:
        stored = self.folder.get(_LIST)
        return (stored.tag, structs.decode(stored.content, _List)) if stored else ("", _List())

    def _lost(self) -> OvertakenError:
        return OvertakenError(
            "Another driver took over this pipeline: it has the files of the source",
            step="read",
            target=str(self.folder),
            hint="This one was paused or could not reach the state for too long. It writes nothing any more; "
            "`calve run --standby` lets it wait for its turn",
        )

    def _busy(self) -> WriteError:
        return WriteError(f"The files in {self.folder} changed on every attempt", step="read", target=str(self.folder))
