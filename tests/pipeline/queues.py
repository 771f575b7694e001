"""What the tests of the commit queue share: tables, failures, and staged files."""

from __future__ import annotations

from calve.errors import CommitError, SinkUnavailableError
from calve.record.target import BranchRef
from calve.record.written import StagedFiles

HOUR, SIZE = 3600.0, 1000
A, B, C = (BranchRef("c", name, "main") for name in "abc")
AWAY, HELD = SinkUnavailableError("no answer", step="commit"), CommitError("dropped", step="commit")
LONGEST = 15.0
"""Seconds that a table waits at most after a failure."""


def entry(table: BranchRef, size: int = 1, rows: int = 1) -> StagedFiles:
    return StagedFiles(*table[:2], "", [], rows, size, table.branch)
