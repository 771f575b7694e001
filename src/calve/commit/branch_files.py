"""The data files of a branch as an attempt has inspected it, for an index of their keys."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from calve.arrays import RowNumbers
from calve.catalog.attempt import Attempt
from calve.commit.key_search import UnsearchableError
from calve.engine.java.errors import called

__all__ = ["BranchFile", "BranchFiles", "BranchPlan"]

_MOST_ROWS = 1 << 32
"""An entry of an index has 32 bits for a position."""


class BranchFile(NamedTuple):
    """A data file.

    Attributes:
        rows: How many rows it has.
        deletes: The names of the deletes by position that apply to it; on version 2 none are known.
        deleted: How many rows these hide; None: only reading them would tell.
    """

    rows: int
    deletes: str
    deleted: int | None


class BranchFiles(NamedTuple):
    """The data files of a branch.

    Attributes:
        snapshot: Its snapshot; None: it has none.
        line: Which of the snapshots that were asked for are it or its ancestors.
        files: The data files, by path.
    """

    snapshot: int | None
    line: frozenset[int]
    files: Mapping[str, BranchFile]


class BranchPlan(NamedTuple):
    """Plans the files of a branch in one attempt.

    Attributes:
        java: A `Positions`.
        begun: The attempt.
        branch: The branch.
    """

    java: Any
    begun: Attempt
    branch: str

    def files(self, snapshots: Iterable[int]) -> BranchFiles:
        """Return all data files.

        Args:
            snapshots: For `BranchFiles.line`.

        Raises:
            UnsearchableError: One is encrypted, is not Parquet, or has too many rows.
        """
        asked = json.dumps(list(snapshots))
        planned = json.loads(called(self.java, "planAll", self.begun.transaction, self.branch, asked))
        if planned is None:
            raise UnsearchableError("a file is encrypted, or not Parquet")
        files = {path: BranchFile(*described) for path, *described in planned[2]}
        if any(file.rows >= _MOST_ROWS for file in files.values()):
            raise UnsearchableError("a file has more than 4 billion rows")
        return BranchFiles(planned[0], frozenset(planned[1]), files)

    def deleted(self, path: str) -> RowNumbers:
        """Return the rows of a file that deletes by position hide."""
        return np.frombuffer(called(self.java, "deleted", path), "<i8")

    def staged(self) -> tuple[int, dict[str, tuple[str, int]]]:
        """Return what the branch has if the attempt succeeds: its snapshot, and the new vector of each data file.

        Of a vector: its name as in `BranchFile.deletes`, and how many rows it hides.
        """
        snapshot, vectors = json.loads(called(self.java, "staged", self.begun.transaction, self.branch))
        return snapshot, {path: (name, deleted) for path, name, deleted in vectors}
