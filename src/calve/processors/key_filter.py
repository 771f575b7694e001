"""Finds events whose key was seen before: in the batch, or in earlier ones within a window. Runs in one task a batch.

A batch's keys are a function of the keys before it, its events and its time, which are all recorded before it runs. So
a task that is repeated lets the same events pass. Its keys go to a new file, which counts once the batch's staged
record names it: files never change, and a batch is checked against the files that the record before it names.

A file has keys (128-bit hashes) in order, and then the time of each (int64, tenths of a second). A new file takes over
the last ones as long as these are not much larger, so there are few files, and a key is written again few times.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from calve.arrays import Mask
from calve.compiled import events as core
from calve.errors import InvariantError
from calve.processors.fields import decode_event, encode
from calve.record.key_file import KeyFile
from calve.state.folder import StateFolder
from calve.stop_point import stop_at

__all__ = ["KEY_BYTES", "Hash", "KeyFilter", "KeyMemory"]

KEY_BYTES = 16
_KEY = np.dtype(f"S{KEY_BYTES}")
_TIME = np.dtype("<i8")
_ENTRY_BYTES = KEY_BYTES + _TIME.itemsize
_GROWTH = 2
"""A new file takes over an older one with at most so many times its keys."""
_OVERFLOW = 1.25
"""So many times the keys to remember may be there before the oldest are forgotten: all files are read for that."""
_Numbers = npt.NDArray[np.uint64]
Hash = Any
"""What `hashlib.blake2b` returns."""


@dataclass(frozen=True)
class KeyMemory:
    """The keys that a pipeline has seen before a batch; pickled into its task.

    Attributes:
        most_keys: How many keys are remembered; when there are a quarter more, the oldest are forgotten.
        longest_tenths: The longest window, in tenths of a second: older keys are forgotten.
        folder: The folder of the files; None: nothing is kept, in a dry run.
        files: The files, the oldest first.
    """

    most_keys: int
    longest_tenths: int
    folder: StateFolder | None = None
    files: tuple[KeyFile, ...] = ()


class _Keys(NamedTuple):
    """Different keys, ascending, and the last time at which each was seen."""

    keys: npt.NDArray[np.bytes_]
    times: npt.NDArray[np.int64]

    def newest_of(self, wanted: npt.NDArray[np.bytes_]) -> npt.NDArray[np.int64]:
        """Return the time of each wanted key, 0 for those that are not here, where there are some."""
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[at] == wanted, self.times[at], 0)

    def where(self, chosen: npt.NDArray[np.bool_]) -> _Keys:
        return _Keys(self.keys[chosen], self.times[chosen])


class KeyFilter:
    """Decides which events of one batch are new; asked for them in their order.

    Args:
        memory: The keys before the batch.
        now: The time of the batch, in tenths of a second since the epoch.

    Attributes:
        memory: As given.
        now: As given.
        duplicates: How many events were not new.
        forgotten: How many keys `files_after` has forgotten before the end of their window.
    """

    def __init__(self, memory: KeyMemory, now: int) -> None:
        self.duplicates = 0
        self.forgotten = 0
        self.memory = memory
        self.now = now
        self._new: set[bytes] = set()
        self._before: list[tuple[_Keys, _Numbers]] | None = None
        self._names: list[str] = []

    def hash_of(self, name: str) -> Hash:
        """Return the beginning of all hashes of one processor; equal processors of a pipeline differ by their order."""
        self._names.append(name)
        return blake2b(f"{self._names.count(name)} {name}\n".encode(), digest_size=KEY_BYTES)

    def are_new(self, keys: Sequence[bytes], window_tenths: int) -> list[bool]:
        """Return for each hash whether its event is new; it is remembered then."""
        different = {*keys}
        recent = self._recent(different - self._new, window_tenths)
        if len(different) == len(keys) and not recent and self._new.isdisjoint(different):
            self._new |= different
            return [True] * len(keys)
        new = []
        for key in keys:
            is_new = key not in self._new and key not in recent
            new.append(is_new)
            if is_new:
                self._new.add(key)
        self.duplicates += new.count(False)
        return new

    def repeated(
        self,
        events: pa.Array,
        fields: Sequence[str],
        hashes_of: Callable[[list[str]], list[bytes | None]],
        window_tenths: int,
    ) -> Mask | None:
        """Return which events are duplicates; None, and nothing is remembered, where that cannot be found out at once.

        Args:
            events: JSON objects in their order (string).
            fields: The fields that have their keys.
            hashes_of: Returns the hashes of keys, given these fields as JSON objects; None: there is no key.
            window_tenths: How long a key is remembered.
        """
        picked = core.pick(events, fields)
        if picked is None:
            return None
        numbers, texts = picked[0].to_numpy().copy(), picked[1].to_pylist()
        odd = np.flatnonzero(numbers < 0)
        numbers[odd] = np.arange(len(texts), len(texts) + len(odd))  # each has a text of its own
        try:
            for event in map(decode_event, events.take(pa.array(odd)).to_pylist()):
                texts.append(encode({name: event[name] for name in fields if name in event}).decode())
            hashes = hashes_of(texts)
        except Exception:  # a bug must not lose other events: event by event it is seen which one it is
            return None
        first = np.zeros(len(texts), np.int64)
        first[numbers[::-1]] = np.arange(len(numbers))[::-1]
        order = [number for number in np.argsort(first, kind="stable").tolist() if hashes[number] is not None]
        are_new = self.are_new([hashes[number] or b"" for number in order], window_tenths)
        duplicates: Mask = np.array([key is not None for key in hashes], bool)[numbers]
        duplicates[first[[*itertools.compress(order, are_new)]]] = False
        self.duplicates += int(np.count_nonzero(duplicates)) - are_new.count(False)
        return duplicates

    def files_after(self) -> list[KeyFile]:
        """Write the keys of the batch; return the files after it.

        Raises:
            WriteError: The state cannot be written.
        """
        memory, oldest = self.memory, max(self.now - self.memory.longest_tenths, 0)
        files = [file for file in memory.files if file.newest > oldest]
        if not self._new or memory.folder is None:
            return files
        keys = _Keys(_sorted(self._new), np.full(len(self._new), self.now, _TIME))
        is_full = sum(file.keys for file in files) + len(keys.keys) > memory.most_keys * _OVERFLOW
        while files and (is_full or files[-1].keys <= _GROWTH * len(keys.keys)):
            keys = _joined(_read(memory.folder, files.pop()), keys)
            keys = keys.where(keys.times > oldest)
        if is_full and len(keys.keys) > memory.most_keys:
            self.forgotten = len(keys.keys) - memory.most_keys
            kept = np.zeros(len(keys.keys), bool)
            kept[np.argsort(-keys.times, kind="stable")[: memory.most_keys]] = True
            keys = keys.where(kept)
        name = f"{self.now}-{uuid.uuid4().hex[:12]}"
        memory.folder.put(name, keys.keys.tobytes() + keys.times.tobytes())
        stop_at("task.after-keys")
        return [*files, KeyFile(name, len(keys.keys), int(keys.times.max()))]

    def _recent(self, keys: Set[bytes], window_tenths: int) -> set[bytes]:
        """Return the keys that earlier batches have seen within the window."""
        if self._before is None:
            folder = self.memory.folder
            files = [_read(folder, file) for file in self.memory.files if file.keys] if folder else []
            self._before = [(earlier, _beginnings(earlier.keys)) for earlier in files]
        if not self._before:
            return set()
        wanted = _sorted(keys)
        newest, first = np.zeros(len(wanted), _TIME), _beginnings(wanted)
        for earlier, beginnings in self._before:
            at = np.minimum(np.searchsorted(beginnings, first), len(beginnings) - 1)
            possible = np.flatnonzero(beginnings[at] == first)
            newest[possible] = np.maximum(newest[possible], earlier.newest_of(wanted[possible]))
        recent = wanted[newest > max(self.now - window_tenths, 0)]
        return {key.ljust(KEY_BYTES, b"\0") for key in recent.tolist()}


def _beginnings(keys: npt.NDArray[np.bytes_]) -> _Numbers:
    """Return the first half of each key as a number, in the order of the keys: numbers are compared faster."""
    return keys.view(">u8")[::2].astype(np.uint64)


def _sorted(keys: Set[bytes]) -> npt.NDArray[np.bytes_]:
    array = np.array([*keys], _KEY)
    beginnings = _beginnings(array)
    order = np.argsort(beginnings)
    are_different = np.diff(beginnings[order]).all()
    return array[order] if are_different else np.sort(array)


def _joined(older: _Keys, newer: _Keys) -> _Keys:
    """Join keys; of equal ones the newer counts."""
    keys, times = (np.concatenate(parts) for parts in zip(older, newer, strict=True))
    order = np.argsort(keys, kind="stable")
    keys, times = keys[order], times[order]
    is_last = np.append(keys[1:] != keys[:-1], True)
    return _Keys(keys[is_last], times[is_last])


def _read(folder: StateFolder, file: KeyFile) -> _Keys:
    """Read a file.

    Raises:
        InvariantError: It is missing or damaged.
        WriteError: The store does not answer.
    """
    size_bytes = file.keys * _ENTRY_BYTES
    try:
        content = folder.get_range(file.name, 0, size_bytes + 1)
    except FileNotFoundError:
        content = b""
    if len(content) != size_bytes:
        raise InvariantError(
            f"{folder.location}/{file.name}, which has the keys that deduplicate remembers, is missing or damaged",
            step="process",
            target=folder.location,
            hint="Bring it back from a backup. Or run once without the processors that remember keys, which forgets "
            "all keys: later duplicates of older events then pass",
        )
    border = file.keys * KEY_BYTES
    return _Keys(np.frombuffer(content[:border], _KEY), np.frombuffer(content[border:], _TIME))
