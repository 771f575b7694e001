"""Removes the staged files of a table from a state: after the table is dropped they can never be committed."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType

from msgspec.structs import replace

from calve.ledger.ledger import Ledger
from calve.observe.status_file import REPLAY_FOLDER
from calve.pipeline.pipeline_parts import replay_name
from calve.record.staged import StagedBatch
from calve.record.written import Entries
from calve.state.folder import StateFolder

__all__ = ["FilesOfTable"]


class FilesOfTable:
    """The staged files of one table, of all its branches, in the state of a pipeline and of its replays.

    A context manager: it owns the state until it is closed, so that no run commits the files meanwhile.

    Args:
        folder: `<state>/<pipeline>`.
        table: The table's identifier.

    Raises:
        OvertakenError: The pipeline runs.
    """

    def __init__(self, folder: StateFolder, table: str) -> None:
        self._table = table
        self._found: list[tuple[Ledger, StagedBatch]] = []
        self._stack = ExitStack()
        try:
            self._inspect(folder / "ledger", folder.name)
            self._inspect(folder / REPLAY_FOLDER / "ledger", replay_name(folder.name))
        except BaseException:
            self._stack.close()
            raise

    @property
    def batches(self) -> int:
        """The number of batches with files of the table."""
        return len(self._found)

    @property
    def rows(self) -> int:
        """The number of rows that the files add."""
        return sum(entry.rows for _, staged in self._found for entry in self._entries(staged))

    @property
    def paths(self) -> list[str]:
        """The paths of the files."""
        return [file.file_path for _, staged in self._found for entry in self._entries(staged) for file in entry.files]

    def forget(self) -> None:
        """Remove the files from the staged batches, so that no run commits them; they stay in their storage.

        Raises:
            WriteError: The state cannot be written; the call may be repeated.
        """
        for ledger, staged in self._found:
            remaining = [entry for entry in staged.tables if entry.table != self._table]
            ledger.stage_again(staged.batch, replace(staged, tables=remaining))

    def __enter__(self) -> FilesOfTable:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _inspect(self, folder: StateFolder, pipeline: str) -> None:
        if folder.exists():
            ledger = Ledger.open(folder, pipeline)
            self._stack.callback(ledger.close)
            staged = [batch.staged for batch in ledger.pending() if batch.staged]
            self._found += [(ledger, batch) for batch in staged if self._entries(batch)]

    def _entries(self, staged: StagedBatch) -> Entries:
        return [entry for entry in staged.tables if entry.table == self._table]
