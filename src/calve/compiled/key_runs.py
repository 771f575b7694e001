"""The runs of a key index, by the compiled core (`core/src/keys.rs`); only where `load` returns a library."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from calve.compiled.library import load
from calve.errors import InvariantError

__all__ = [
    "GONE",
    "REPLACES",
    "Bitmap",
    "Bits",
    "DamagedRunError",
    "Numbers",
    "OpenRun",
    "find_keys",
    "hash_values",
    "merge_runs",
    "permute_values",
    "write_run",
]

Bits = npt.NDArray[np.uint64]
"""128 bits for each key: an array of two columns."""
Numbers = npt.NDArray[np.uint32]
Bitmap = npt.NDArray[np.uint64]
"""A bit for each number, 64 in an item."""
GONE = 0x7FFF_FFFF
"""The file of an entry that only says that its key was deleted."""
REPLACES = 0x8000_0000
"""A flag of a file's number: all entries of this key in older runs are of deleted rows."""
_DAMAGED = -2
_REFUSED = -3
_ERROR_BYTES = 500


class DamagedRunError(Exception):
    """A run is not what was written."""


def permute_values(values: npt.NDArray[Any], secret: Bits) -> Bits:
    """Return the bits of values of at most 16 bytes: different for different values.

    Args:
        values: Integers, or rows of bytes.
        secret: Two numbers.
    """
    width = values.itemsize if values.ndim == 1 else values.itemsize * values.shape[1]
    bits = np.empty((len(values), 2), np.uint64)
    _call("calve_keys_permute", _at(values), width, len(values), _at(secret), _at(bits))
    return bits


def hash_values(ends: npt.NDArray[np.int64], data: bytes | memoryview, secret: Bits, before: Bits | None) -> Bits:
    """Return the bits of values of any length.

    Args:
        ends: Where each value begins in `data`, and where the last one ends.
        data: The bytes of all values.
        secret: Two numbers.
        before: The bits of the columns before this one; None for the first one. They are overwritten.
    """
    bits = np.empty((len(ends) - 1, 2), np.uint64) if before is None else before
    content = np.frombuffer(data, np.uint8)
    _call("calve_keys_hash", _at(ends), _at(content), len(bits), _at(secret), before is None, _at(bits))
    return bits


def write_run(path: Path, keys: Bits, files: Numbers, positions: Numbers) -> int:
    """Sort entries and write them as a run; return their number.

    Raises:
        OSError: The disk refuses.
    """
    text = str(path).encode()
    return _call("calve_keys_write", text, len(text), _at(keys), _at(files), _at(positions), len(keys))


class OpenRun:
    """A run that is mapped into memory.

    Args:
        path: The file; it is never written again, and may be removed.

    Raises:
        DamagedRunError: Its header or directory is damaged, or it is missing.
        OSError: It cannot be read.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise DamagedRunError(f"{path.name} is missing")
        library, text, code = _library(), str(path).encode(), ctypes.c_int64()
        library.calve_keys_open.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]
        library.calve_keys_open.restype = ctypes.c_void_p
        self.handle: int = library.calve_keys_open(text, len(text), ctypes.addressof(code)) or 0
        _checked("calve_keys_open", code.value)
        library.calve_keys_free.argtypes = [ctypes.c_void_p]
        weakref.finalize(self, library.calve_keys_free, self.handle)


def find_keys(runs: Sequence[OpenRun], keys: Bits, dead: Bitmap) -> Numbers:
    """Return all entries of keys as rows of the key's number, the file's number and the position.

    Args:
        runs: The runs, the newest first.
        keys: The keys.
        dead: The numbers of files whose entries are left out.

    Raises:
        DamagedRunError: A block is damaged.
    """
    handles, room = _handles(runs), len(keys) + 1024
    while True:
        hits = np.empty((room, 3), np.uint32)
        searched = _at(handles), len(handles), _at(keys), len(keys), _at(dead), len(dead)
        count = _call("calve_keys_find", *searched, _at(hits), room)
        if count <= room:
            return hits[:count]
        room = count


def merge_runs(runs: Sequence[OpenRun], path: Path, dead: Bitmap, is_last: bool) -> int:
    """Merge runs, the newest first, into a new one; return its number of entries.

    Args:
        runs: The runs.
        path: The new one.
        dead: The numbers of files whose entries are left out.
        is_last: Whether no older run exists.

    Raises:
        DamagedRunError: A run is damaged.
        OSError: The disk refuses.
    """
    handles, text = _handles(runs), str(path).encode()
    merged = _at(handles), len(handles), _at(dead), len(dead), is_last
    return _call("calve_keys_merge", *merged, text, len(text))


def _handles(runs: Sequence[OpenRun]) -> npt.NDArray[np.uint64]:
    return np.array([run.handle for run in runs], np.uint64)


def _library() -> ctypes.CDLL:
    library = load()
    assert library
    return library


def _call(function: str, *arguments: int | bytes | bool) -> int:
    called = _library()[function]
    called.restype = ctypes.c_int64
    called.argtypes = [_type(argument) for argument in arguments]
    return _checked(function, called(*arguments))


def _type(argument: int | bytes | bool) -> Any:
    return (
        ctypes.c_bool
        if isinstance(argument, bool)
        else ctypes.c_size_t
        if isinstance(argument, int)
        else ctypes.c_char_p
    )


def _checked(function: str, code: int) -> int:
    """Return the number of a call.

    Raises:
        DamagedRunError: A run is damaged.
        OSError: The operating system refuses.
        InvariantError: The core has failed.
    """
    if code >= 0:
        return code
    if code not in (_DAMAGED, _REFUSED):
        raise InvariantError(f"The compiled core failed in {function}", step="commit", hint="Set key_index: never")
    text = ctypes.create_string_buffer(_ERROR_BYTES)
    length = _library().calve_keys_error(text, _ERROR_BYTES)
    message = text.raw[:length].decode(errors="replace")
    raise DamagedRunError(message) if code == _DAMAGED else OSError(message)


def _at(array: npt.NDArray[Any]) -> int:
    """Return the address of an array's items."""
    assert array.flags.c_contiguous
    return int(array.ctypes.data)
