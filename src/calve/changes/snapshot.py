"""Finds the snapshots of a table after a position and up to an end, if they are still retained.

This module needs no JVM: a `History` has all that it needs to know of a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from calve.errors import NoTargetError, PositionLostError, SettingsError

__all__ = ["REPLACE", "History", "Snapshot", "SnapshotStep", "difference", "joined", "steps"]

REPLACE = "replace"
"""The operation of snapshots that change files and no rows: compaction."""
_STEP = "changes"


@dataclass(frozen=True)
class Snapshot:
    """The metadata of a snapshot.

    Attributes:
        size_bytes: The size of added and removed data files, by its summary; 0 if unknown.
    """

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    committed_ms: int
    operation: str
    size_bytes: int = 0

    @property
    def committed_at(self) -> str:
        """When it was committed: ISO 8601, UTC, milliseconds."""
        committed = datetime.fromtimestamp(self.committed_ms / 1000, UTC)
        return committed.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class History:
    """The retained snapshots of a branch at one time.

    Attributes:
        table: The table's name.
        uuid: The table's UUID; a recreated table of the same name has another one.
        branch: The branch's name.
        line: The branch's retained snapshots, oldest first; each is the parent of the next.
        others: All other retained snapshots of the table, by id.
    """

    table: str
    uuid: str
    branch: str
    line: Sequence[Snapshot]
    others: Mapping[int, Snapshot] = field(default_factory=dict)

    def snapshot(self, number: int) -> Snapshot | None:
        """Return a retained snapshot, on the line or not (a tag keeps it)."""
        return next((snapshot for snapshot in self.line if snapshot.snapshot_id == number), self.others.get(number))


@dataclass(frozen=True)
class SnapshotStep:
    """One snapshot whose changes are read.

    Attributes:
        is_full: All rows of the snapshot are new, because no earlier snapshot is retained.
        base: The retained snapshot that it is compared with, if not its parent: the snapshots between them are joined
            with it, or have expired.
    """

    snapshot: Snapshot
    is_full: bool = False
    base: int | None = None

    @property
    def changes_rows(self) -> bool:
        """Whether rows may have changed: compaction changes only files."""
        return self.is_full or self.base is not None or self.snapshot.operation != REPLACE


def steps(history: History, after: int | None = None, until: int | None = None) -> list[SnapshotStep]:
    """Return the snapshots after `after` (None: from the beginning) up to `until` (None: the branch's head), in order.

    From the beginning means: all rows of the oldest retained snapshot, then the changes of each later one. So the
    changes of all steps, applied to an empty table, produce the table. If `after` is retained (by a tag), but its
    successors have expired, the oldest retained snapshot is compared with it.

    Raises:
        PositionLostError: `after` has expired, or is no longer on the branch.
        NoTargetError: `until` does not exist.
        SettingsError: `until` is not after `after`.
    """
    indexes = {snapshot.snapshot_id: index for index, snapshot in enumerate(history.line)}
    leaps = after is not None and _leaps(history, indexes, after)
    first = 0 if after is None or leaps else _index_after(history, indexes, after)
    last = len(history.line) - 1 if until is None else _index_of_end(history, indexes, until)
    if until is not None and last < first - 1:
        raise SettingsError(
            f"The snapshot {until} of {history.table} comes before {after}",
            step=_STEP,
            target=history.table,
            hint="Changes are read forwards: swap start and end",
        )
    chosen = [
        SnapshotStep(history.line[index], is_full=after is None and index == 0) for index in range(first, last + 1)
    ]
    return [replace(chosen[0], base=after), *chosen[1:]] if leaps and chosen else chosen


def difference(history: History, after: int) -> list[SnapshotStep] | None:
    """Compare the branch with a retained snapshot that is not on it; None if that is impossible."""
    if after not in history.others or not history.line:
        return None
    return [SnapshotStep(history.line[-1], base=after)]


def joined(history: History, steps: Sequence[SnapshotStep], least: int, most_bytes: int) -> list[SnapshotStep]:
    """Join several small snapshots: their net changes count as changes of the last one.

    Compaction is not joined: reading its files would find no changes.

    Args:
        history: The branch.
        steps: The result of `steps` for it.
        least: Fewer consecutive snapshots are not joined, because a comparison lists all files of the table.
        most_bytes: The most bytes of files of joined snapshots.
    """
    result: list[SnapshotStep] = []
    run: list[SnapshotStep] = []
    size_bytes = 0
    retained = {snapshot.snapshot_id for snapshot in history.line} | history.others.keys()
    for step in steps:
        size_bytes += step.snapshot.size_bytes
        may = step.changes_rows and not step.is_full and (step.base or step.snapshot.parent_id) in retained
        if not may or size_bytes > most_bytes:
            result += _join(run, least)
            run, size_bytes = [], step.snapshot.size_bytes
        (run if may else result).append(step)
    return result + _join(run, least)


def _join(run: list[SnapshotStep], least: int) -> list[SnapshotStep]:
    if len(run) < least:
        return run
    first = run[0]
    return [SnapshotStep(run[-1].snapshot, base=first.snapshot.parent_id if first.base is None else first.base)]


def _leaps(history: History, indexes: Mapping[int, int], after: int) -> bool:
    """Return whether `after` is retained, but the snapshots between it and the line are not."""
    if after in indexes or after not in history.others or not history.line:
        return False
    return history.line[0].parent_id not in (None, after) and _common(history, indexes, after) is None


def _common(history: History, indexes: Mapping[int, int], after: int) -> int | None:
    """Return the nearest ancestor on the branch."""
    common: int | None = after
    while common is not None and common not in indexes:
        common = history.others[common].parent_id if common in history.others else None
    return common


def _index_after(history: History, indexes: Mapping[int, int], after: int) -> int:
    if after in indexes:
        return indexes[after] + 1
    if history.line and history.line[0].parent_id == after:
        return 0  # it has expired, but its child has not: nothing between them is lost
    raise _lost(history, indexes, after)


def _lost(history: History, indexes: Mapping[int, int], after: int) -> PositionLostError:
    all_retained = "omit the start to read all retained snapshots"
    if after not in history.others:
        oldest = f", whose oldest snapshot is {history.line[0].snapshot_id}" if history.line else ""
        return PositionLostError(
            f"The table {history.table} has no snapshot {after}: it has expired, or the table was recreated",
            step=_STEP,
            target=history.table,
            hint=f"The changes after it are no longer known; {all_retained} ({history.branch}{oldest})",
        )
    common = _common(history, indexes, after)
    from_common = f"start at {common}, the last snapshot that both have, or " if common is not None else ""
    why = _departure(history, common, after)
    return PositionLostError(
        f"The snapshot {after} of {history.table} is not on the branch {history.branch}: {why}",
        step=_STEP,
        target=history.table,
        hint=f"Its changes may have been undone; {from_common}{all_retained}",
    )


def _departure(history: History, common: int | None, after: int) -> str:
    """Return what happened to a branch that has left a snapshot, as far as the retained snapshots tell."""
    if common is not None and history.line[-1].snapshot_id == common:
        return f"the table was rolled back to the snapshot {common}"
    if common is not None:
        return f"the table was rolled back to the snapshot {common} and written again, or the branch was moved"
    if _root(history, after) and history.line and history.line[0].parent_id is None:
        return f"the table was replaced (CREATE OR REPLACE TABLE) at {history.line[0].committed_at}"
    return "the table was replaced or rolled back, or the snapshot belongs to another branch"


def _root(history: History, number: int) -> bool:
    """Return whether all ancestors of a snapshot are retained, down to one without a parent."""
    snapshot = history.snapshot(number)
    while snapshot is not None and snapshot.parent_id is not None:
        snapshot = history.snapshot(snapshot.parent_id)
    return snapshot is not None


def _index_of_end(history: History, indexes: Mapping[int, int], until: int) -> int:
    if until in indexes:
        return indexes[until]
    where = f"is not on the branch {history.branch}" if until in history.others else "does not exist, or has expired"
    raise NoTargetError(
        f"The snapshot {until} of {history.table} {where}",
        step=_STEP,
        target=history.table,
        hint="Omit the end to read all snapshots, or set another one",
    )
