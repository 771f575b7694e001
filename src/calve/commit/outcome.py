"""The result of a commit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from calve.catalog.attempt import Swapped
from calve.commit.full_row_deletes import NOT_FOUND
from calve.commit.publish import PublishOutcome
from calve.observe.report import BranchFileStats
from calve.record.content_file import ContentFile
from calve.table.loaded import Table

__all__ = ["Outcome", "joined", "outcome"]


@dataclass(frozen=True)
class Outcome:
    """The result of a commit; "already committed" is an outcome, not an error.

    Attributes:
        batches: Those that this call committed, in order; empty when the table had all of them.
        snapshot_id: The snapshot with them; None when there is none.
        files: How many files it added.
        rows: How many rows it added.
        equality_deletes: The rows in the equality deletes of the branch after the commit.
        delete_files: The delete files of all kinds of the branch after the commit.
        began: Whether the branch was empty: neither it nor the table had a snapshot.
        table: The table after this commit; None if nothing was committed.
        held: The files of the branch after the commit; None if nothing was committed.
        is_all: Whether the table now has all of the batches.
        not_found: How many rows of a table without a key should have been deleted, and were not there.
        publication: What became of a branch with a gate; None: it has none, or nothing was committed.
    """

    batches: tuple[int, ...] = ()
    snapshot_id: int | None = None
    files: int = 0
    rows: int = 0
    equality_deletes: int = 0
    delete_files: int = 0
    began: bool = False
    table: Table | None = None
    held: BranchFileStats | None = None
    is_all: bool = True
    not_found: int = 0
    publication: PublishOutcome | None = None

    @property
    def already(self) -> bool:
        """Whether the table had everything before."""
        return not self.batches


def outcome(batches: tuple[int, ...], added: Collection[ContentFile], swapped: Swapped, began: bool) -> Outcome:
    """Return the result of an attempt.

    Args:
        batches: Those that it committed.
        added: The files of these.
        swapped: The table after it.
        began: Whether the branch was empty.
    """
    held = _held(swapped)
    return Outcome(
        batches=batches,
        snapshot_id=swapped.snapshot_id,
        files=len(added),
        rows=sum(file.record_count for file in added if file.is_data),
        equality_deletes=swapped.total("equality-deletes"),
        delete_files=held.delete_files,
        began=began,
        table=swapped.table,
        held=held,
        not_found=int(swapped.summary.get(NOT_FOUND) or 0),
    )


def joined(done: Sequence[Outcome]) -> Outcome:
    """Return what several commits did together."""
    commits = [commit for commit in done if not commit.already]
    if len(commits) < 2:
        return commits[0] if commits else done[0]
    return replace(
        commits[-1],
        batches=tuple(batch for commit in commits for batch in commit.batches),
        files=sum(commit.files for commit in commits),
        rows=sum(commit.rows for commit in commits),
        began=commits[0].began,
        not_found=sum(commit.not_found for commit in commits),
    )


def _held(swapped: Swapped) -> BranchFileStats:
    """Return the files of a branch after its commit."""
    return BranchFileStats(
        data_files=swapped.total("data-files"),
        size_bytes=swapped.total("files-size"),
        delete_files=swapped.total("delete-files"),
        delete_rows=swapped.total("position-deletes") + swapped.total("equality-deletes"),
        snapshots=swapped.snapshots,
        manifests=sum(int(swapped.summary.get(f"manifests-{kind}") or 0) for kind in ("kept", "created")),
        manifest_list_bytes=swapped.manifest_list_bytes,
        last_maintenance=datetime.fromtimestamp(swapped.replaced_ms // 1000, UTC) if swapped.replaced_ms else None,
    )
