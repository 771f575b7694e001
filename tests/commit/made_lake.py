"""A table in memory with snapshots, that a pipeline changes by means of a key index, and others in any way."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from calve.arrays import RowNumbers
from calve.commit import key_index, key_levels
from calve.commit.branch_files import BranchFile, BranchFiles
from calve.commit.key_index import CommitNote, FileKeys, KeyIndex
from calve.commit.key_state import UnusableIndexError
from calve.compiled.key_runs import DamagedRunError
from commit.test_key_search import KINDS

KEYS = 30
PART_ROWS = 3
TYPES = {
    "int": pa.int32(),
    "long": pa.int64(),
    "string": pa.string(),
    "uuid": pa.binary(16),
    "decimal(38, 3)": pa.decimal128(38, 3),
}
"""The types of keys, as a search compares them."""


class KilledError(Exception):
    """The process has ended."""


@dataclass(frozen=True)
class Snapshot:
    """A snapshot: its parent, and of each data file the deleted rows with the name of their vector."""

    parent: int | None
    files: Mapping[str, tuple[str, frozenset[int]]]


class Lake:
    """A table, and the index of a pipeline. Its keys have one or more columns; here each is a number.

    Args:
        kinds: The types of the columns.

    Attributes:
        stale: Rows that the index has found although they were deleted already.
        found: Damage that was noticed.
    """

    def __init__(self, folder: Path, seed: int, version: int, kinds: Sequence[str] = ("long",)) -> None:
        self.random, self.version, self.folder = random.Random(seed), version, folder / "index"
        self.kinds = kinds
        self.keys: dict[str, list[int | None]] = {}
        self.snapshots: dict[int, Snapshot] = {0: Snapshot(None, {})}
        self.expired: set[int] = set()
        self.head, self.number = 0, 0
        self.stale = self.found = 0
        self.folder.mkdir(parents=True)
        self.index = KeyIndex(self.folder, "t")

    def next(self) -> int:
        self.number += 1
        return self.number

    @property
    def files(self) -> dict[str, tuple[str, frozenset[int]]]:
        return dict(self.snapshots[self.head].files)

    def live(self, path: str) -> list[int]:
        """Return the live rows of a file."""
        return [row for row in range(len(self.keys[path])) if row not in self.files[path][1]]

    def write(self, keys: list[int | None]) -> str:
        path = f"file-{self.next()}"
        self.keys[path] = keys
        return path

    def publish(self, files: Mapping[str, tuple[str, frozenset[int]]]) -> int:
        number = self.next()
        self.snapshots[number] = Snapshot(self.head, dict(files))
        self.head = number
        return number

    def deleted_rows(self, rows: Mapping[str, set[int]]) -> dict[str, tuple[str, frozenset[int]]]:
        """Return the files with more rows deleted."""
        files = self.files
        for path, more in rows.items():
            before = files[path][1] if path in files else frozenset()
            files[path] = (f"vector-{self.next()}", before | more)
        return files

    # What an index sees of it

    def columns(self, keys: Sequence[int | None]) -> pa.Table:
        """Return the columns of keys; the last one has half of the values that the key has."""
        values = [
            [None if key is None else KINDS[kind](key // 2 if at else key) for key in keys]
            for at, kind in enumerate(self.kinds)
        ]
        columns = [pa.chunked_array([pa.array(one, TYPES[kind])]) for one, kind in zip(values, self.kinds, strict=True)]
        return pa.table(columns, [f"k{at}" for at in range(len(columns))])

    def keys_of(self, files: Mapping[str, BranchFile]) -> Iterator[FileKeys]:
        for path in files:
            for start in range(0, len(self.keys[path]), PART_ROWS):
                yield FileKeys(path, start, self.columns(self.keys[path][start : start + PART_ROWS]))

    def deleted(self, path: str) -> RowNumbers:
        return np.array(sorted(self.files[path][1]), np.int64)

    def branch(self) -> BranchFiles:
        line, snapshot = set[int](), self.head
        while snapshot not in self.expired or snapshot == self.head:
            line.add(snapshot)
            snapshot = self.snapshots[snapshot].parent or 0
            if snapshot in line:
                break
        files = {
            path: BranchFile(
                len(self.keys[path]), vector if self.version > 2 else "", len(rows) if self.version > 2 else 0
            )
            for path, (vector, rows) in self.files.items()
        }
        return BranchFiles(self.head, frozenset(line), files)

    def follow(self) -> BranchFiles:
        """Let the index follow, and compare it with every live row."""
        for _ in range(2):
            try:
                branch = self.branch()
                self.index.follow(branch, _Reader(self))
                for path in branch.files:
                    lacking = self.index.lacking(FileKeys(path, 0, self.columns(self.keys[path])))
                    assert set(lacking.tolist()) <= self.files[path][1], path
                return branch
            except DamagedRunError:
                self.found += 1
                KeyIndex.reset(self.folder, "t")
                self.index = KeyIndex(self.folder, "t")
        raise AssertionError("damage does not end")

    # What happens to it

    def commits(self, is_refused: bool = False) -> None:
        """Commit batches by means of the index: older rows of their keys go, new ones come."""
        branch = self.follow()
        deletes: dict[str, set[int]] = {}
        wanted, added = set[int](), list[str]()
        for _ in range(self.random.randint(1, 2)):
            keys = self.random.sample(range(KEYS), self.random.randint(0, 6))
            for path in added:
                rows = {row for row, key in enumerate(self.keys[path]) if key in keys}
                deletes[path] = deletes.get(path, set()) | rows
            kept = keys[self.random.randint(0, len(keys)) :]
            others = [key for key in self.random.sample(range(KEYS), 2) if key not in keys]  # INSERT
            added.append(self.write([*kept, *others]))
            wanted |= set(keys)
        bits = self.index.bits(self.columns(sorted(wanted)))
        for path, numbers in self.index.find(bits, branch):
            hits = set(numbers.tolist())
            self.stale += len(hits & self.files[path][1])
            deletes[path] = deletes.get(path, set()) | hits
        expected = {path: {row for row in self.live(path) if self.keys[path][row] in wanted} for path in self.files}
        assert all(rows <= deletes.get(path, set()) for path, rows in expected.items()), "an older row stays"
        assert all(self.keys[path][row] in wanted for path, rows in deletes.items() for row in rows), (
            "a row of another key goes"
        )
        before = self.head
        new = {path: ("", frozenset[int]()) for path in added}
        snapshot = self.publish({**new, **self.deleted_rows({p: rows for p, rows in deletes.items() if rows})})
        if self.version > 2:
            vectors = {path: (name, len(rows)) for path, (name, rows) in self.files.items() if deletes.get(path)}
            self.index.expect(CommitNote(before, snapshot, bits, vectors))
        if is_refused:
            self.head = before

    def is_refused(self) -> None:
        self.commits(is_refused=True)

    def adds(self) -> None:
        keys = [self.random.choice([None, *range(KEYS)]) for _ in range(self.random.randint(1, 12))]
        self.publish({**self.files, self.write(keys): ("", frozenset())})

    def deletes(self) -> None:
        chosen = {path: set(self.random.sample(self.live(path), min(2, len(self.live(path))))) for path in self.files}
        self.publish(self.deleted_rows({path: rows for path, rows in chosen.items() if rows}))

    def rewrites(self) -> None:
        """Compact some files: their live rows are in a new one."""
        chosen = self.random.sample(sorted(self.files), min(3, len(self.files)))
        path = self.write([self.keys[old][row] for old in chosen for row in self.live(old)])
        left = {path: file for path, file in self.files.items() if path not in chosen}
        self.publish({**left, path: ("", frozenset())})

    def overwrites(self) -> None:
        self.publish({self.write([self.random.randrange(KEYS) for _ in range(9)]): ("", frozenset())})

    def goes_back(self) -> None:
        self.head = self.random.choice([number for number in self.snapshots if number not in self.expired])

    def goes_back_two(self) -> None:
        """Undo two commits of the pipeline."""
        before = self.head
        self.commits()
        self.commits()
        self.follow()
        self.head = before

    def brings_back(self) -> None:
        """A writer removes deletes."""
        files = self.files
        for path in self.random.sample(sorted(files), min(2, len(files))):
            rows = frozenset(row for row in files[path][1] if self.random.random() < 0.4)
            if len(rows) < len(files[path][1]):
                files[path] = (f"vector-{self.next()}" if rows else "", rows)
        self.publish(files)

    def expires(self) -> None:
        self.expired |= set(self.snapshots) - {self.head}

    def restarts(self) -> None:
        try:
            self.index = KeyIndex(self.folder, "t")
        except (UnusableIndexError, DamagedRunError):
            self.found += 1
            KeyIndex.reset(self.folder, "t")
            self.index = KeyIndex(self.folder, "t")

    def dies(self) -> None:
        """The process is killed in the middle of following."""
        point = self.random.choice(("index.after-run", "index.after-merge", "index.after-save"))
        times = Counter({point: self.random.randint(1, 2)})

        def stop_at(point: str) -> None:
            times[point] -= 1
            if not times[point]:
                raise KilledError

        with pytest.MonkeyPatch.context() as patch:
            for module in (key_index, key_levels):
                patch.setattr(module, "stop_at", stop_at)
            try:
                self.follow()
            except KilledError:
                self.restarts()

    def loses(self) -> None:
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        self.restarts()

    def keeps(self) -> None:
        shutil.rmtree(self.folder.with_name("copy"), ignore_errors=True)
        shutil.copytree(self.folder, self.folder.with_name("copy"))

    def restores(self) -> None:
        if self.folder.with_name("copy").exists():
            shutil.rmtree(self.folder)
            shutil.copytree(self.folder.with_name("copy"), self.folder)
            self.restarts()

    def damages(self) -> None:
        """Flip a bit, or cut or remove a file."""
        if files := [path for path in self.folder.iterdir() if path.stat().st_size]:
            file = self.random.choice(sorted(files))
            content = bytearray(file.read_bytes())
            at = self.random.randrange(len(content))
            content[at] ^= 1 << self.random.randrange(8)
            file.unlink()
            if self.random.random() < 0.8:
                file.write_bytes(content[: self.random.choice((at, len(content), len(content)))])
            self.restarts()

    def fails(self) -> None:
        """A data file cannot be read in the middle of following."""
        files = list(self.branch().files)
        reader = _Reader(self, files[len(files) // 2 :][:1])
        try:
            self.index.follow(self.branch(), reader)
        except ConnectionError:
            return


@dataclass
class _Reader:
    lake: Lake
    unreadable: list[str] | tuple[()] = ()

    def keys(self, files: Mapping[str, BranchFile]) -> Iterator[FileKeys]:
        for part in self.lake.keys_of(files):
            if part.path in self.unreadable:
                raise ConnectionError
            yield part

    def deleted(self, path: str) -> RowNumbers:
        return self.lake.deleted(path)
