"""Which snapshots of a table come after one and up to another one, and whether that can still be told.

Only names and numbers here: what the JVM knows of a table comes in as a `History`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from calve.errors import NoTargetError, PositionLostError, SettingsError

__all__ = ["REPLACE", "History", "Snapshot", "Step", "steps"]

REPLACE = "replace"
"""The operation of snapshots that change files and no rows: compaction."""
_STEP = "changes"


@dataclass(frozen=True)
class Snapshot:
    """What is told of a snapshot with each of its changes."""

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    committed_ms: int
    operation: str

    @property
    def committed_at(self) -> str:
        """When it was committed: ISO 8601, UTC, milliseconds."""
        moment = datetime.fromtimestamp(self.committed_ms / 1000, UTC)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class History:
    """A branch of a table at one moment.

    Attributes:
        table: The table's name.
        uuid: The table's own identity, which a table of the same name made later does not have.
        branch: The branch's name.
        line: The branch's retained snapshots, oldest first; each is the parent of the next.
        others: Parents of all retained snapshots of the table that are not on the line, by their ids.
    """

    table: str
    uuid: str
    branch: str
    line: Sequence[Snapshot]
    others: Mapping[int, int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """One snapshot to tell of.

    Attributes:
        whole: Everything that the snapshot holds is new, because nothing before it is retained.
    """

    snapshot: Snapshot
    whole: bool = False

    @property
    def changes_rows(self) -> bool:
        """Whether rows may have changed: compaction only changes files."""
        return self.whole or self.snapshot.operation != REPLACE


def steps(history: History, after: int | None = None, until: int | None = None) -> list[Step]:
    """Give the snapshots after one (None: from the beginning) up to another one (None: the branch's head), in order.

    From the beginning means: the oldest retained snapshot whole, and then what each next one changed; so the changes
    of all steps, applied to nothing, give the table.

    Raises:
        PositionLostError: `after` is gone, or no longer on the branch.
        NoTargetError: `until` is not there.
        SettingsError: `until` is not after `after`.
    """
    places = {each.snapshot_id: place for place, each in enumerate(history.line)}
    first = 0 if after is None else _place_after(history, places, after)
    last = len(history.line) - 1 if until is None else _place_of_end(history, places, until)
    if until is not None and last < first - 1:
        raise SettingsError(
            f"The snapshot {until} of {history.table} comes before {after}",
            step=_STEP,
            target=history.table,
            hint="Changes are told forwards: swap the two",
        )
    return [Step(history.line[place], whole=after is None and place == 0) for place in range(first, last + 1)]


def _place_after(history: History, places: Mapping[int, int], after: int) -> int:
    if after in places:
        return places[after] + 1
    if history.line and history.line[0].parent_id == after:
        return 0  # it has expired, and its child has not: nothing between them is lost
    raise _lost(history, places, after)


def _lost(history: History, places: Mapping[int, int], after: int) -> PositionLostError:
    whole = "leave the start out for all that is retained"
    if after not in history.others:
        oldest = f", whose oldest snapshot is {history.line[0].snapshot_id}" if history.line else ""
        return PositionLostError(
            f"The table {history.table} has no snapshot {after}: it has expired, or the table was made anew",
            step=_STEP,
            target=history.table,
            hint=f"What came after it is no longer known; {whole} ({history.branch}{oldest})",
        )
    common: int | None = after
    while common is not None and common not in places:
        common = history.others.get(common)
    way = f"start at {common}, the last one that both have, or " if common is not None else ""
    return PositionLostError(
        f"The snapshot {after} of {history.table} is not on the branch {history.branch}: the table was rolled back, "
        "or the snapshot is another branch's",
        step=_STEP,
        target=history.table,
        hint=f"What was told of it may be undone; {way}{whole}",
    )


def _place_of_end(history: History, places: Mapping[int, int], until: int) -> int:
    if until in places:
        return places[until]
    where = f"is not on the branch {history.branch}" if until in history.others else "does not exist, or has expired"
    raise NoTargetError(
        f"The snapshot {until} of {history.table} {where}",
        step=_STEP,
        target=history.table,
        hint="Leave the end out for all that there is, or name another one",
    )
