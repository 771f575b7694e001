"""What a key index knows of itself: one small file, which is replaced in one step after each change.

Nothing is forced to disk: a crash of the machine may damage the file or a run, their checksums show it, and the index
begins anew.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

import msgspec

from calve import structs
from calve.files.private import private

__all__ = [
    "FILE",
    "LOCK",
    "IndexState",
    "KnownFile",
    "RunFile",
    "UnusableIndexError",
    "load",
    "new_state",
    "save",
    "sweep",
]

FILE = "index"
"""The state of an index, in its folder."""
LOCK = "lock"
"""The file that a process locks while it uses an index."""
_FORMAT = 1
_PART = f"{FILE}.part"


class UnusableIndexError(Exception):
    """The index in a folder cannot be used; the message has the reason."""


class KnownFile(msgspec.Struct, frozen=True, array_like=True):
    """A data file whose rows have entries.

    Attributes:
        number: Its number in entries; it is never used again.
        deletes: The names of the deletes by position that applied to it.
        deleted: How many rows they hide; None: only reading them would tell.
    """

    number: int
    deletes: str
    deleted: int | None


class RunFile(msgspec.Struct, frozen=True, array_like=True):
    """A run: its name, and its number of entries."""

    name: str
    rows: int


class IndexState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an index.

    Attributes:
        identity: Of what it is an index. Bits depend on it.
        secret: Of the bits.
        snapshot: Every row that is live in this snapshot has an entry; None: there was no snapshot.
        next_number: The number of the next file.
        files: The data files of the snapshot.
        shards: The runs of each part of the keys, by their first bits, the oldest first. One part so far.
        format: Of this file and of the runs.
    """

    identity: str
    secret: bytes
    snapshot: int | None = None
    next_number: int = 0
    files: dict[str, KnownFile] = {}
    shards: tuple[tuple[RunFile, ...]] = ((),)
    format: int = _FORMAT


def new_state(identity: str) -> IndexState:
    """Return the state of an empty index."""
    return IndexState(identity=identity, secret=secrets.token_bytes(16))


def load(folder: Path, identity: str) -> IndexState:
    """Read the state of an index.

    Raises:
        UnusableIndexError: It is damaged, of another key or in another format.
        FileNotFoundError: There is none.
        OSError: It cannot be read.
    """
    digest, _, content = (folder / FILE).read_bytes().partition(b"\n")
    if digest != _digest(content):
        raise UnusableIndexError("its state is damaged")
    if msgspec.json.decode(content).get("format") != _FORMAT:
        raise UnusableIndexError("it has the format of another version of Calve")
    state = structs.decode(content, IndexState)
    if state.identity != identity:
        raise UnusableIndexError("the key of the table has changed")
    return state


def save(folder: Path, state: IndexState) -> None:
    """Replace the state of an index; the runs that it names are complete.

    Raises:
        OSError: The disk refuses.
    """
    content = msgspec.json.encode(state)
    with open(folder / _PART, "wb", opener=private) as file:
        file.write(_digest(content) + b"\n" + content)
    (folder / _PART).replace(folder / FILE)


def sweep(folder: Path, state: IndexState) -> None:
    """Remove runs that were merged, and what a killed process left.

    Raises:
        OSError: The disk refuses.
    """
    kept = {FILE, LOCK, *(run.name for runs in state.shards for run in runs)}
    for path in folder.iterdir():
        if path.name not in kept:
            path.unlink()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).hexdigest().encode()
