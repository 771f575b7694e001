"""Names of write targets: a table of a sink, a stream of rows, a branch of a table in a catalog."""

from __future__ import annotations

import enum
from typing import Literal, NamedTuple

__all__ = [
    "COPY_ON_WRITE",
    "EQUALITY_DELETE",
    "MERGE_ON_READ",
    "BranchRef",
    "Role",
    "RowStream",
    "TableRef",
    "WriteMode",
    "apart",
    "beside",
]

WriteMode = Literal["equality-delete", "merge-on-read", "copy-on-write"]
"""How deletes are committed: as staged, by position, or by rewriting files."""
EQUALITY_DELETE: WriteMode = "equality-delete"
MERGE_ON_READ: WriteMode = "merge-on-read"
COPY_ON_WRITE: WriteMode = "copy-on-write"
_APART = "calve-compare"


def apart(pipeline: str, branch: str) -> str:
    """Return the branch into which a pipeline loads rows that are compared with those of another branch."""
    return f"{_APART}/{pipeline}/{branch}"


def beside(branch: str) -> str:
    """Return the branch that `apart` was called with; any other branch is returned as it is."""
    return branch.split("/", 2)[2] if branch.startswith(f"{_APART}/") and branch.count("/") > 1 else branch


class TableRef(NamedTuple):
    """A table, or an index, as the tasks of a pipeline know it.

    Attributes:
        sink: The number of the sink in the pipeline.
        table: The identifier; empty for events that have no table yet.
    """

    sink: int
    table: str


class Role(enum.StrEnum):
    """What the rows of a stream are. The last three are shuffled between tasks and never written."""

    ROWS = "rows"
    DELETES = "deletes"
    """Keys of rows to delete."""
    PARTIAL = "partial"
    """Updates that lack columns."""
    DEAD_LETTERS = "dead letters"
    CHANGED = "changed"
    """Net changes that leave a row."""
    GONE = "gone"
    """Keys of net changes that leave no row."""
    MISFIT = "misfit"
    """No rows: the sender's table must be created or evolved first."""


class RowStream(NamedTuple):
    """Rows that a task writes into files of their own, or shuffles.

    Attributes:
        sink: The number of the sink in the pipeline.
        table: The identifier of the table.
        role: What the rows are.
    """

    sink: int
    table: str
    role: Role = Role.ROWS

    @property
    def target(self) -> TableRef:
        """The table."""
        return TableRef(self.sink, self.table)


class BranchRef(NamedTuple):
    """A branch of a table, as the committer knows it.

    Attributes:
        catalog: The catalog's key.
        table: The table's identifier.
        branch: The branch.
    """

    catalog: str
    table: str
    branch: str
