"""The key indexes of the tables that one pipeline commits to."""

from __future__ import annotations

from calve.commit.branch_keys import BranchKeys
from calve.commit.index_folder import IndexFolder
from calve.observe.log import Log
from calve.record.target import BranchRef
from calve.state.folder import StateFolder

__all__ = ["KeyIndexes"]


class KeyIndexes:
    """Opens the index of a branch when it is first asked for; each branch is committed by one thread at a time.

    Args:
        state: The state of the pipeline.
        log: The pipeline's.
    """

    def __init__(self, state: StateFolder, log: Log) -> None:
        self._state, self._log = state, log
        self._branches: dict[BranchRef, tuple[str, BranchKeys]] = {}

    def of(self, branch: BranchRef, uuid: str) -> BranchKeys:
        """Return what finds the rows of a branch by key.

        Args:
            branch: The branch.
            uuid: The table's UUID.
        """
        of_table, keys = self._branches.get(branch, ("", None))
        if keys is None or of_table != uuid:
            if keys:
                keys.close()
            keys = BranchKeys(IndexFolder(self._state, uuid, branch.branch), branch.table, self._log)
            self._branches[branch] = uuid, keys
        return keys

    def close(self) -> None:
        """Let another process use the indexes."""
        for _, keys in self._branches.values():
            keys.close()
