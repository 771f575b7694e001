"""Decides which snapshots of a branch expire: a pure function of the table's history.

The count is limited as well as the age, because each commit writes the metadata file, which lists all snapshots. What
others need stays, whatever the count:

- heads of branches and tags, and young snapshots, which readers may have open;
- snapshots from the tag of another Calve pipeline on, which that pipeline has not read yet (`calve-<pipeline>`); only
  the table's maximum age removes those, and then the pipeline compares the table with the tagged snapshot;
- snapshots that wait on a branch until they are published: their summaries have what was found of them;
- the last snapshot of each pipeline that has a mark: `calve state rebuild` finds the source's position there. The
  mark itself is a table property, which no expiry touches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from calve.table.limits import MaintenanceLimits

__all__ = ["FOLLOWER", "Expiry", "PastSnapshot", "SnapshotHistory", "expiry"]

FOLLOWER = "calve-"
"""The prefix of the tags with which pipelines protect what they still read."""
_DEFAULT_AGE_MS = 5 * 24 * 3600 * 1000
_HOUR_SECONDS = 3600.0


@dataclass(frozen=True)
class PastSnapshot:
    """One snapshot: its id, its time as epoch seconds, and the pipeline that committed it, if one did."""

    id: int
    at: float
    pipeline: str = ""


@dataclass(frozen=True)
class SnapshotHistory:
    """What a table keeps.

    Attributes:
        line: The snapshots of the branch, newest first.
        others: The snapshots that no branch or tag reaches.
        heads: The ids that branches and tags name; those of followers' tags are in `followed`, too.
        followed: By the name of a follower's tag, the id of its snapshot.
        pipelines: Those with a mark.
        main: The head of `main`; None: it has no snapshot.
        properties: The table's.
    """

    line: Sequence[PastSnapshot]
    others: Sequence[PastSnapshot] = ()
    heads: frozenset[int] = frozenset()
    followed: Mapping[str, int] = field(default_factory=dict)
    pipelines: frozenset[str] = frozenset()
    main: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """The number of snapshots, on the branch or on none."""
        return len(self.line) + len(self.others)

    @property
    def collects(self) -> bool:
        """Whether old files may be deleted: `gc.enabled` is false for tables that share files with others."""
        return self.properties.get("gc.enabled", "true").lower() != "false"


@dataclass(frozen=True)
class Expiry:
    """The snapshots that may go.

    Attributes:
        ids: Their ids.
        is_due: Whether they are enough for a commit.
        kept_for: The tag of a follower that keeps snapshots beyond the count.
    """

    ids: tuple[int, ...]
    is_due: bool
    kept_for: str = ""


def expiry(history: SnapshotHistory, limits: MaintenanceLimits, now: float, last: float = 0.0) -> Expiry:
    """Return the snapshots that may go now.

    Args:
        history: The table's.
        limits: Its limits.
        now: Epoch seconds.
        last: When snapshots expired last.
    """
    if not history.collects:
        return Expiry((), False)
    line, age = history.line, _age_seconds(history, limits)
    least = max(int(history.properties.get("history.expire.min-snapshots-to-keep", 1)), 1)
    kept = set(history.heads) | {snapshot.id for snapshot in line[:least]} | _last_of_pipelines(history)
    if limits.keeps_waiting:
        kept |= _waiting(history)
    most = limits.max_snapshots or len(line)
    tag, followed = _last_followed(history)
    old, surplus, held = [], [], False
    for place, snapshot in enumerate(line):
        if snapshot.id in kept or now - snapshot.at < limits.least_age.total_seconds():
            continue
        if now - snapshot.at >= age:
            old.append(snapshot.id)
        elif place >= most - most // 4:
            held |= place <= followed
            surplus += [snapshot.id] * (place > followed)
    old += [snapshot.id for snapshot in history.others if snapshot.id not in kept and now - snapshot.at >= age]
    is_full = len(line) > most
    ids = (*old, *(surplus if is_full else ()))
    enough = len(ids) >= most // 4 if is_full else False
    is_due = bool(ids) and (enough or now - last >= _HOUR_SECONDS)
    return Expiry(ids, is_due, tag if held and is_full else "")


def _age_seconds(history: SnapshotHistory, limits: MaintenanceLimits) -> float:
    if limits.snapshot_age is not None:
        return limits.snapshot_age.total_seconds()
    return int(history.properties.get("history.expire.max-snapshot-age-ms", _DEFAULT_AGE_MS)) / 1000


def _last_of_pipelines(history: SnapshotHistory) -> set[int]:
    """Return the newest snapshot of each pipeline that has a mark."""
    last: dict[str, int] = {}
    for newest in sorted((*history.line, *history.others), key=lambda snapshot: -snapshot.at):
        if newest.pipeline in history.pipelines:
            last.setdefault(newest.pipeline, newest.id)
    return set(last.values())


def _waiting(history: SnapshotHistory) -> set[int]:
    """Return what the branch has and `main` lacks, or all of the branch if `main` is elsewhere by now."""
    ids = [snapshot.id for snapshot in history.line]
    return set(ids[: ids.index(history.main)] if history.main in ids else ids)


def _last_followed(history: SnapshotHistory) -> tuple[str, int]:
    """Return the tag of the follower that is furthest behind, and its place in the line; -1: there is none."""
    places = {past.id: place for place, past in enumerate(history.line)}
    behind = [(places[snapshot], tag) for tag, snapshot in history.followed.items() if snapshot in places]
    place, tag = max(behind, default=(-1, ""))
    return tag, place
