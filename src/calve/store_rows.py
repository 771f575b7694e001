"""A set of rows on an object store that only grows: one object for each addition, joined level by level.

Each object is named after its content, so an addition may be repeated. Objects are removed only after an object with
all of their rows exists; a reader that misses one lists them again.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from typing import Any

import msgspec

from calve.errors import InvariantError
from calve.object_store import StoreFolder

__all__ = ["StoreRows"]

_JOINED = 32
"""The objects of one level that are joined into one of the next."""
_SUFFIX = ".rows.json"
_ATTEMPTS = 10

Row = tuple[Any, ...]


class StoreRows:
    """The set of rows under a prefix; used from several threads.

    Args:
        folder: The prefix; other objects in it are left alone.
        name: The beginning of the objects' names.
    """

    def __init__(self, folder: StoreFolder, name: str) -> None:
        self._folder = folder
        self._name = name
        self._lock = threading.Lock()
        self._levels: dict[int, list[str]] = {}

    def load(self) -> list[Row]:
        """Return all rows, in no order.

        Raises:
            WriteError: The store does not answer.
        """
        with self._lock:
            for _ in range(_ATTEMPTS):
                self._levels = {}
                for name in self._names():
                    self._levels.setdefault(_level(name), []).append(name)
                found = [self._read(name) for names in self._levels.values() for name in names]
                if None not in found:
                    return list({row for rows in found for row in rows or ()})
        raise InvariantError(f"The objects in {self._folder} disappear while they are read", step="read")

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows durably; may be repeated.

        Raises:
            WriteError: The store does not answer; try again.
        """
        with self._lock:
            self._write(0, sorted(set(rows)))

    def clear(self) -> None:
        """Remove all rows.

        Raises:
            WriteError: The store does not answer; try again.
        """
        with self._lock:
            self._folder.remove(self._names())
            self._levels = {}

    def _write(self, level: int, rows: list[Row]) -> None:
        content = msgspec.json.encode(rows)
        name = f"{self._name}-{level}-{hashlib.sha256(content).hexdigest()[:40]}{_SUFFIX}"
        self._folder.put(name, content)
        names = self._levels.setdefault(level, [])
        if name not in names:
            names.append(name)
        if len(names) >= _JOINED:
            found = [self._read(one) for one in names]
            self._write(level + 1, sorted({row for rows in found for row in rows or ()}))
            self._folder.remove(names)
            names.clear()

    def _names(self) -> list[str]:
        return [name for name in self._folder.names() if name.startswith(f"{self._name}-") and name.endswith(_SUFFIX)]

    def _read(self, name: str) -> list[Row] | None:
        found = self._folder.get(name)
        return None if found is None else [tuple(row) for row in msgspec.json.decode(found.content)]


def _level(name: str) -> int:
    return int(name.removesuffix(_SUFFIX).rsplit("-", 2)[1])
