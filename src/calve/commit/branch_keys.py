"""Finds rows by key for the commits of one branch: by its key index where that is worth it, else by a scan.

A scan needs no state, and costs what the table has. An index costs what the commit has, once it has read the table: it
is begun when a commit would have to scan many rows, and used from then on. It may be removed at any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from calve.arrays import RowNumbers
from calve.commit.branch_files import BranchFile, BranchFiles, BranchPlan
from calve.commit.index_folder import FolderInUseError, IndexFolder
from calve.commit.key_bits import kind_of
from calve.commit.key_index import CommitNote, FileKeys, KeyIndex
from calve.commit.key_search import KeySearch, SearchedFile
from calve.commit.key_state import UnusableIndexError
from calve.compiled.key_runs import Bits, DamagedRunError
from calve.compiled.library import missing
from calve.errors import EngineError
from calve.observe.log import Log
from calve.observe.report import KeyIndexStats
from calve.state.durable import local_path

__all__ = ["BranchKeys"]

LOCAL_ROWS = 2_000_000
"""A commit that would scan so many rows begins an index: the scan takes about as much CPU as all the rest."""
STORE_ROWS = 100_000
"""The same for a table on an object store, where a scan downloads the columns of the key."""
AUDITED_ROWS = 5_000
"""How many rows of the table each commit compares with the index, on average: about 1 ms of CPU."""
_UNUSABLE = (UnusableIndexError, DamagedRunError)
_VECTORS = 3
"""The format version with deletion vectors."""


class BranchKeys:
    """The key index of one branch; for one commit at a time.

    Args:
        folder: Where the index is, or would be.
        name: The name of the table, for people.
        log: Is told when it begins, begins anew, or cannot be used.

    Attributes:
        stats: What is known of the index; None: it was not used yet.
    """

    def __init__(self, folder: IndexFolder, name: str, log: Log) -> None:
        self._folder, self._name, self._log = folder, name, log
        self._index: KeyIndex | None = None
        self._identity = ""
        self._is_off = False
        self._note: tuple[int | None, Bits] | None = None
        self._budget_rows, self._audited = 0, -1
        self.stats: KeyIndexStats | None = None

    def is_used(self) -> bool:
        """Return whether there is an index."""
        return not self._is_off and (self._index is not None or self._folder.has_index())

    def is_worth(self, search: KeySearch, rows: int) -> bool:
        """Return whether an index is begun instead of a scan of so many rows."""
        is_local = local_path(search.table.location) is not None
        return not self._is_off and rows >= (LOCAL_ROWS if is_local else STORE_ROWS)

    def find(self, search: KeySearch, plan: BranchPlan) -> list[tuple[str, RowNumbers]] | None:
        """Find the rows of keys in all data files of the branch; None: the index cannot be used.

        Args:
            search: The keys.
            plan: Of the attempt.

        Returns:
            Paths of data files, and numbers of rows.

        Raises:
            UnsearchableError: A file needs Spark.
            InvariantError: The index is wrong although it is intact.
            CalveError: A data file cannot be read.
        """
        self._note = None
        identity = f"{self._folder.name} {self._name_of(search)}"
        try:
            try:
                return self._found(self._open(identity), search, plan)
            except _UNUSABLE as error:
                self._rebuild(identity, str(error))
                return self._found(self._open(identity), search, plan)
        except (*_UNUSABLE, EngineError, OSError, FolderInUseError) as error:
            self._turn_off(error)
            return None

    @staticmethod
    def _name_of(search: KeySearch) -> str:
        return " ".join(f"{number}:{kind_of(kind)}" for number, kind in zip(search.ids, search.types, strict=True))

    def _open(self, identity: str) -> KeyIndex:
        """Return the index.

        Raises:
            EngineError: There is no compiled core.
            FolderInUseError: Another process has it.
            UnusableIndexError: It is damaged, or of another key.
            DamagedRunError: It is damaged.
            OSError: The disk refuses.
        """
        if self._index is None or self._identity != identity:
            if core := missing():
                raise core
            self._index = KeyIndex(self._folder.locked(), identity)
            self._identity = identity
            self.stats = self.stats or KeyIndexStats()
        return self._index

    def _rebuild(self, identity: str, reason: str) -> None:
        self._index = None
        self.stats = self.stats or KeyIndexStats()
        self.stats.rebuilt += 1
        self._log.info(f"{self._name}: the key index begins anew: {reason}", table=self._name)
        KeyIndex.reset(self._folder.locked(), identity)

    def close(self) -> None:
        """Let another process use the index."""
        self._index = None
        self._folder.unlock()

    def _turn_off(self, error: Exception) -> None:
        self._is_off, self._index = True, None
        reason = error.message if isinstance(error, EngineError) else error
        hint = error.hint if isinstance(error, EngineError) else "The next start tries the index again"
        message = f"{self._name}: commits search the table instead of a key index: {reason}"
        self._log.warning(message, table=self._name, hint=hint)

    def _found(self, index: KeyIndex, search: KeySearch, plan: BranchPlan) -> list[tuple[str, RowNumbers]]:
        branch, reader = plan.files(index.lines), _Reader(search, plan)
        if index.is_new:
            rows = sum(file.rows for file in branch.files.values())
            self._log.info(f"{self._name}: a key index of {rows:,} rows begins in {self._folder}", table=self._name)
        index.follow(branch, reader)
        self._audit(index, branch, reader)
        keys = index.bits(search.keys)
        hits = list(index.find(keys, branch))
        stats = self.stats = self.stats or KeyIndexStats()
        stats.rows, stats.size_bytes, stats.read_rows = index.rows, index.size_bytes, index.read_rows
        if search.table.format_version >= _VECTORS:
            self._note = branch.snapshot, keys
        return hits

    def committing(self, plan: BranchPlan, stale: int) -> None:
        """Note what the attempt will have done, if it used the index.

        Args:
            plan: Of the attempt, whose transaction has its snapshot.
            stale: How many of the rows that `find` returned were deleted already.
        """
        if self._index is None or self._note is None:
            return
        base, deleted = self._note
        snapshot, vectors = plan.staged()
        self._index.expect(CommitNote(base, snapshot, deleted, vectors))
        if self.stats:
            self.stats.stale += stale

    def _audit(self, index: KeyIndex, branch: BranchFiles, reader: _Reader) -> None:
        """Compare a data file with the index if there were enough commits since the last one.

        Raises:
            InvariantError: The index lacks a row.
        """
        self._budget_rows += AUDITED_ROWS
        numbers = index.numbers()
        number = min((number for number in numbers if number > self._audited), default=min(numbers, default=None))
        if number is None or branch.files[numbers[number]].rows > self._budget_rows:
            return
        path = numbers[number]
        self._budget_rows, self._audited = self._budget_rows - branch.files[path].rows, number
        hidden: set[int] | None = None
        for part in reader.keys({path: branch.files[path]}):
            lacking = index.lacking(part)
            if len(lacking):
                hidden = set(reader.deleted(path).tolist()) if hidden is None else hidden
                if live := set(lacking.tolist()) - hidden:
                    raise index.wrong(f"it lacks row {min(live)} of {path}")
        if self.stats:
            self.stats.audited_rows += branch.files[path].rows
            self.stats.last_audit = datetime.now(UTC)


@dataclass
class _Reader:
    """Reads data files of an attempt's branch."""

    search: KeySearch
    plan: BranchPlan

    def keys(self, files: Mapping[str, BranchFile]) -> Iterator[FileKeys]:
        searched = [SearchedFile(path, file.rows, {}, {}) for path, file in files.items()]
        for part in self.search.read(searched):
            yield FileKeys(part.file.path, part.start, part.columns)

    def deleted(self, path: str) -> RowNumbers:
        return self.plan.deleted(path)
