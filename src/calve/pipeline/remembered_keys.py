"""The driver's part of processors that remember keys: which files a batch needs, and which nobody needs any more."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from calve.errors import WriteError
from calve.ledger.ledger import Ledger
from calve.observe.log import Log
from calve.processors.key_filter import KeyMemory
from calve.record.key_file import FOLDER
from calve.record.staged import StagedBatch

__all__ = ["RememberedKeys"]


class RememberedKeys:
    """The files with the keys that a pipeline has seen.

    Args:
        ledger: Names the files.
        memory: What is remembered; None: nothing.
        log: Gets a warning when keys are forgotten.
    """

    def __init__(self, ledger: Ledger, memory: KeyMemory | None, log: Log) -> None:
        self._ledger = ledger
        self._memory = memory
        self._log = log
        self._folder = ledger.folder.parent / FOLDER
        self._files: set[str] = set()
        self._has_warned = False
        if memory or ledger.key_files:
            # Now, before a batch is staged: a driver that continues after it may have files later.
            with contextlib.suppress(WriteError):
                self._files = {*self._folder.names()}

    def before(self, batch: int) -> KeyMemory | None:
        """Return the keys that were seen before an uncommitted batch."""
        if self._memory is None:
            return None
        return replace(self._memory, folder=self._folder, files=tuple(self._ledger.key_files_before(batch)))

    def staged(self, record: StagedBatch) -> None:
        """Remove the files that no record names, and log if keys were forgotten too early."""
        if record.forgotten_keys and self._memory and not self._has_warned:
            self._has_warned = True
            self._log.warning(
                f"batch {record.batch}: {record.forgotten_keys:,} keys were forgotten before their window ended, "
                f"because {self._memory.most_keys:,} are remembered; later duplicates of their events pass",
                hint="Set max_keys higher, or a shorter window; calve_forgotten_keys_total counts them",
            )
        named = {file.name for file in self._ledger.key_files}
        with contextlib.suppress(WriteError):  # they go later
            if unnamed := self._files - named:
                self._folder.remove(unnamed)
            self._files = named
