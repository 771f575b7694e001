"""Which snapshots of a table come after one and up to another one, and whether that can still be told.

Only names and numbers here: what the JVM knows of a table comes in as a `History`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from calve.errors import NoTargetError, PositionLostError, SettingsError

__all__ = ["REPLACE", "History", "Snapshot", "Step", "difference", "joined", "steps"]

REPLACE = "replace"
"""The operation of snapshots that change files and no rows: compaction."""
_STEP = "changes"


@dataclass(frozen=True)
class Snapshot:
    """What is told of a snapshot with each of its changes.

    Attributes:
        size_bytes: The data files that came and went, as its summary has it; 0 where that says nothing.
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
        others: All retained snapshots of the table that are not on the line, by their ids.
    """

    table: str
    uuid: str
    branch: str
    line: Sequence[Snapshot]
    others: Mapping[int, Snapshot] = field(default_factory=dict)

    def snapshot(self, number: int) -> Snapshot | None:
        """Return a retained snapshot, on the line or not (a tag keeps it)."""
        return next((each for each in self.line if each.snapshot_id == number), self.others.get(number))


@dataclass(frozen=True)
class Step:
    """One snapshot to tell of.

    Attributes:
        whole: Everything that the snapshot holds is new, because nothing before it is retained.
        base: The retained snapshot that it is compared with, where that is not its parent: those between them are told
            with it, or are gone.
    """

    snapshot: Snapshot
    whole: bool = False
    base: int | None = None

    @property
    def changes_rows(self) -> bool:
        """Whether rows may have changed: compaction only changes files."""
        return self.whole or self.base is not None or self.snapshot.operation != REPLACE


def steps(history: History, after: int | None = None, until: int | None = None) -> list[Step]:
    """Return the snapshots after one (None: from the beginning) up to another one (None: the branch's head), in order.

    From the beginning means: the oldest retained snapshot whole, and then what each next one changed; so the changes
    of all steps, applied to nothing, give the table. Where `after` is retained (a tag keeps it) and those that followed
    it have expired, the oldest that is left is compared with it.

    Raises:
        PositionLostError: `after` is gone, or no longer on the branch.
        NoTargetError: `until` is not there.
        SettingsError: `until` is not after `after`.
    """
    places = {each.snapshot_id: place for place, each in enumerate(history.line)}
    leaps = after is not None and _leaps(history, places, after)
    first = 0 if after is None or leaps else _place_after(history, places, after)
    last = len(history.line) - 1 if until is None else _place_of_end(history, places, until)
    if until is not None and last < first - 1:
        raise SettingsError(
            f"The snapshot {until} of {history.table} comes before {after}",
            step=_STEP,
            target=history.table,
            hint="Changes are told forwards: swap the two",
        )
    found = [Step(history.line[place], whole=after is None and place == 0) for place in range(first, last + 1)]
    return [replace(found[0], base=after), *found[1:]] if leaps and found else found


def difference(history: History, after: int) -> list[Step] | None:
    """Compare the branch with a snapshot that is retained, whatever lies between them; None where that cannot be."""
    if after not in history.others or not history.line:
        return None
    return [Step(history.line[-1], base=after)]


def joined(history: History, found: Sequence[Step], least: int, most_bytes: int) -> list[Step]:
    """Join several small snapshots: what is left of their changes gets the last one's name.

    Compaction is not joined: its files would be read and be found to change nothing.

    Args:
        history: The branch.
        found: What `steps` gives for it.
        least: Fewer in a row stay as they are: comparing any two snapshots lists the whole table's files.
        most_bytes: Files of those that are joined, at most.
    """
    result: list[Step] = []
    run: list[Step] = []
    size_bytes = 0
    retained = {each.snapshot_id for each in history.line} | history.others.keys()
    for step in found:
        size_bytes += step.snapshot.size_bytes
        may = step.changes_rows and not step.whole and (step.base or step.snapshot.parent_id) in retained
        if not may or size_bytes > most_bytes:
            result += _join(run, least)
            run, size_bytes = [], step.snapshot.size_bytes
        (run if may else result).append(step)
    return result + _join(run, least)


def _join(run: list[Step], least: int) -> list[Step]:
    if len(run) < least:
        return run
    first = run[0]
    return [Step(run[-1].snapshot, base=first.snapshot.parent_id if first.base is None else first.base)]


def _leaps(history: History, places: Mapping[int, int], after: int) -> bool:
    """Whether `after` is retained, and the line that may have led to it is not."""
    if after in places or after not in history.others or not history.line:
        return False
    return history.line[0].parent_id not in (None, after) and _common(history, places, after) is None


def _common(history: History, places: Mapping[int, int], after: int) -> int | None:
    """The nearest ancestor that is on the branch."""
    common: int | None = after
    while common is not None and common not in places:
        common = history.others[common].parent_id if common in history.others else None
    return common


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
    common = _common(history, places, after)
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
