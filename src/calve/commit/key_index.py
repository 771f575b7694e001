"""Finds the rows of keys in one branch of a table by an index that is derived from it, and never trusted more than it.

The one law: every live row of the snapshot `IndexState.snapshot` has an entry, or is in a file that `follow` will read.
An entry too many does no harm: its file is not in the table, and it is skipped, or its row is deleted already, and then
deleting it again changes nothing. So nothing must ever be removed, and there is one path for the first build, a
restart, a kill, other writers, compaction and a rollback: compare the data files, and read the keys of the new ones.

An entry may say that all older ones of its key are dead (`REPLACES`); a search ends there, and merges drop them. It
says so only after a commit of ours has deleted their rows by deletion vectors. Where such a row may have come back,
because its file's vector is smaller than before, or another one after a rollback, the file is read again as if it were
new. For the same reason rows that a vector hides when a file is read need no entry. Nothing of this kind is said on
format version 2, whose data files have no deletes of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import pyarrow as pa

from calve.arrays import RowNumbers
from calve.commit.branch_files import BranchFile, BranchFiles
from calve.commit.key_bits import bits_of
from calve.commit.key_levels import RunLevels
from calve.commit.key_state import IndexState, KnownFile, load, new_state, save, sweep
from calve.compiled.key_runs import GONE, REPLACES, Bitmap, Bits
from calve.errors import InvariantError
from calve.stop_point import stop_at

__all__ = ["CommitNote", "FileKeys", "KeyIndex", "KeyReader"]

_POSITION = 0xFFFF_FFFF
RUN_ROWS = 1_000_000
"""So many entries are in memory at once: about 100 MB."""


class CommitNote(NamedTuple):
    """What a commit of ours has done by deletion vectors, if its snapshot is in the branch. It only saves work.

    Attributes:
        base: The snapshot before it.
        snapshot: Its snapshot.
        deleted: The keys all of whose older rows it deletes.
        vectors: Its vectors, by data file: their names, and how many rows each hides.
    """

    base: int | None
    snapshot: int
    deleted: Bits
    vectors: Mapping[str, tuple[str, int]]


class FileKeys(NamedTuple):
    """Rows of a data file: its path, the number of the first row, and the columns of the key."""

    path: str
    start: int
    columns: pa.Table


class KeyReader(Protocol):
    """Reads data files; runs on the driver."""

    def keys(self, files: Mapping[str, BranchFile]) -> Iterable[FileKeys]:
        """Read the columns of their keys.

        Raises:
            CalveError: A file cannot be read.
        """
        ...

    def deleted(self, path: str) -> RowNumbers:
        """Return the rows that deletes by position hide."""
        ...


class KeyIndex:
    """The index in a folder that no other process uses.

    Args:
        folder: The folder; it exists.
        identity: Of what it is an index.

    Attributes:
        read_rows: The rows whose keys were read, since the start of the process.

    Raises:
        UnusableIndexError: The index there is damaged, of another key or in another format: call `reset`.
        DamagedRunError: A run is damaged: call `reset`.
        OSError: The disk refuses.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self._folder, self._identity = folder, identity
        self.read_rows = 0
        self._note: CommitNote | None = None
        self._use(new_state(identity))
        try:
            self._use(load(folder, identity))
        except FileNotFoundError:
            return
        sweep(folder, self._state)

    def _use(self, state: IndexState) -> None:
        self._levels = RunLevels(self._folder, state.shards[0])
        self._state = state
        self._secret = np.frombuffer(state.secret, np.uint64)
        self._dead = _dead(state)

    @staticmethod
    def reset(folder: Path, identity: str) -> None:
        """Begin anew: an empty index, which reads all files when it follows.

        Raises:
            OSError: The disk refuses.
        """
        state = new_state(identity)
        save(folder, state)
        sweep(folder, state)

    @property
    def is_new(self) -> bool:
        """Whether it has never followed."""
        return not self._state.next_number

    @property
    def rows(self) -> int:
        """The number of entries."""
        return self._levels.rows

    @property
    def size_bytes(self) -> int:
        """The size of its files.

        Raises:
            OSError: The disk refuses.
        """
        return sum(path.stat().st_size for path in self._folder.iterdir())

    def expect(self, note: CommitNote | None) -> None:
        """Keep what a commit will have done; the next `follow` uses it if that is what the branch has."""
        self._note = note

    def follow(self, branch: BranchFiles, reader: KeyReader) -> None:
        """Come to a snapshot, whatever led to it. A failure changes nothing.

        Args:
            branch: All data files of the snapshot.
            reader: Reads those that are new.

        Raises:
            DamagedRunError: A run is damaged.
            OSError: The disk refuses.
            CalveError: A data file cannot be read.
        """
        if branch.snapshot == self._state.snapshot and not self.is_new:
            return
        note = self._note if self._note and self._is_noted(branch) else None
        before = self._after(note) if note else self._state
        files, fresh = _compared(before, branch)
        numbers = {path: before.next_number + at for at, path in enumerate(fresh)}
        files |= {path: _known(numbers[path], file) for path, file in fresh.items()}
        state = msgspec.structs.replace(
            before, snapshot=branch.snapshot, next_number=before.next_number + len(fresh), files=files
        )
        entries = _NewEntries(self._levels.copy(), _dead(state))
        if note:
            entries.add_gone(note.deleted)
        hidden = {path: reader.deleted(path) for path, file in fresh.items() if file.deletes and file.deleted}
        for part in reader.keys(fresh):
            keys = bits_of(part.columns, self._secret)
            entries.add(keys.bits, numbers[part.path], keys.rows + part.start, hidden.get(part.path))
            self.read_rows += len(part.columns)
        levels = entries.finish(sum(file.rows for file in branch.files.values()))
        state = msgspec.structs.replace(state, shards=(levels.files,))
        save(self._folder, state)
        stop_at("index.after-save")
        self._state, self._levels, self._dead, self._note = state, levels, _dead(state), None
        sweep(self._folder, state)

    def _is_noted(self, branch: BranchFiles) -> bool:
        """Return whether the noted commit is the one after the index's snapshot, and in the line of the branch."""
        note = self._note
        return note is not None and note.base == self._state.snapshot and note.snapshot in branch.line

    def _after(self, note: CommitNote) -> IndexState:
        """Return the state after a commit of ours, but for its own data files."""
        files = self._state.files
        changed = {
            path: KnownFile(files[path].number, *vector) for path, vector in note.vectors.items() if path in files
        }
        return msgspec.structs.replace(self._state, snapshot=note.snapshot, files={**files, **changed})

    @property
    def lines(self) -> list[int]:
        """The snapshots whose place in the history `follow` needs to know (`BranchFiles.line`)."""
        noted = self._note.snapshot if self._note else None
        return [snapshot for snapshot in (self._state.snapshot, noted) if snapshot is not None]

    def bits(self, columns: pa.Table) -> Bits:
        """Return the bits of keys without nulls."""
        return bits_of(columns, self._secret).bits

    def find(self, keys: Bits, branch: BranchFiles) -> Iterator[tuple[str, RowNumbers]]:
        """Yield the rows that keys may have; it changes nothing.

        Args:
            keys: From `bits`.
            branch: What it has followed to.

        Yields:
            The path of a data file, and numbers of its rows, ascending.

        Raises:
            DamagedRunError: A block is damaged.
            InvariantError: The index is wrong although it is intact.
        """
        hits = self._levels.find(keys, self._dead)
        paths = self.numbers()
        places = np.unique(hits[:, 1].astype(np.uint64) << 32 | hits[:, 2])
        numbers, firsts = np.unique(places >> 32, return_index=True)
        for number, rows in zip(numbers.tolist(), np.split(places & _POSITION, firsts[1:]), strict=False):
            path = paths.get(number)
            if path is None or int(rows.max()) >= branch.files[path].rows:
                raise self.wrong(f"it has row {int(rows.max())} of {path or f'an unknown file ({number})'}")
            yield path, rows.astype(np.int64)

    def numbers(self) -> dict[int, str]:
        """Return the data files that it has followed to, by their numbers."""
        return {file.number: path for path, file in self._state.files.items()}

    def lacking(self, part: FileKeys) -> RowNumbers:
        """Return the rows of a part of a data file that it cannot find: all of them must be deleted.

        Raises:
            DamagedRunError: A block is damaged.
        """
        keys, number = bits_of(part.columns, self._secret), self._state.files[part.path].number
        hits = self._levels.find(keys.bits, self._dead)
        rows = keys.rows + part.start
        is_own = (hits[:, 1] == number) & (rows[hits[:, 0]] == hits[:, 2])
        return np.setdiff1d(rows, hits[is_own, 2])

    def wrong(self, what: str) -> InvariantError:
        """Return the error of an index that is intact and does not fit its table."""
        return InvariantError(
            f"The key index in {self._folder} is wrong: {what}",
            step="commit",
            hint="This is a bug in Calve; please report it. Remove this folder and start again, or set "
            "key_index: never; and look for keys with several rows in the table",
        )


class _NewEntries:
    """Collects entries, and adds a run whenever there are many."""

    def __init__(self, levels: RunLevels, dead: Bitmap) -> None:
        self._levels, self._dead = levels, dead
        self._parts: list[tuple[Bits, RowNumbers, RowNumbers]] = []
        self._rows = 0

    def add_gone(self, keys: Bits) -> None:
        """Add that all older entries of keys are dead; comes before entries of new rows."""
        self._add(keys, np.full(len(keys), GONE | REPLACES), np.zeros(len(keys), np.int64))

    def add(self, keys: Bits, number: int, positions: RowNumbers, hidden: RowNumbers | None) -> None:
        """Add rows of a file, but those that are hidden already."""
        if hidden is not None:
            is_live = np.isin(positions, hidden, invert=True)
            keys, positions = np.ascontiguousarray(keys[is_live]), positions[is_live]
        self._add(keys, np.full(len(keys), number), positions)

    def _add(self, keys: Bits, files: RowNumbers, positions: RowNumbers) -> None:
        self._parts.append((keys, files, positions))
        self._rows += len(keys)
        if self._rows >= RUN_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            keys, files, positions = map(np.concatenate, zip(*self._parts, strict=True))
            self._levels.add(keys, files.astype(np.uint32), positions.astype(np.uint32), self._dead)
        self._parts, self._rows = [], 0

    def finish(self, rows: int) -> RunLevels:
        """Return all runs; they have at most about twice as many entries as the branch has rows."""
        self._flush()
        if self._levels.rows > 2 * rows + RUN_ROWS:
            self._levels.merge(0, self._dead)
        return self._levels


def _compared(state: IndexState, branch: BranchFiles) -> tuple[dict[str, KnownFile], dict[str, BranchFile]]:
    """Return the files whose rows have entries already, and those that must be read."""
    indexed: dict[str, KnownFile] = {}
    fresh: dict[str, BranchFile] = {}
    follows = state.snapshot in branch.line
    for path, file in branch.files.items():
        before = state.files.get(path)
        if before is None or _may_show_more(before, file, follows):
            fresh[path] = file
        else:
            indexed[path] = _known(before.number, file)
    return indexed, fresh


def _may_show_more(before: KnownFile, file: BranchFile, follows: bool) -> bool:
    """Return whether a row of a file may be live that was deleted before.

    Within one line of snapshots a vector has all positions of the one that it replaces (specification, "Deletion
    Vectors"), unless a writer brings rows back.
    """
    if file.deletes == before.deletes:
        return False
    return not follows or before.deleted is None or file.deleted is None or file.deleted < before.deleted


def _known(number: int, file: BranchFile) -> KnownFile:
    return KnownFile(number, file.deletes, file.deleted)


def _dead(state: IndexState) -> Bitmap:
    """Return the numbers of files that are not in the table."""
    is_dead = np.ones(state.next_number // 64 * 64 + 64, np.uint8)
    is_dead[[file.number for file in state.files.values()]] = 0
    return np.packbits(is_dead, bitorder="little").view(np.uint64)
