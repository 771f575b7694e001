"""Maintenance by need: what one branch of a table needs now, and one bounded round of it; runs on the driver."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from calve.maintenance.branch_state import BranchInspector, BranchState
from calve.maintenance.compact import rewrite_deletes
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.join import SORTED_BYTES, join
from calve.maintenance.old_snapshots import Expiry, expiry
from calve.maintenance.retention import OldRows, Retention
from calve.maintenance.rewrite import ANY_DELETE, NO_SIZE, RewrittenFiles, maintaining, rewrite
from calve.maintenance.small_files import Compaction, compaction
from calve.observe.humanize import many
from calve.record.target import EQUALITY_DELETE, MERGE_ON_READ
from calve.table.limits import MaintenanceLimits

__all__ = ["BOUNDS_METADATA", "MERGES_MANIFESTS", "MOST_MANIFESTS", "Need", "Round", "Rounds"]

BOUNDS_METADATA = "write.metadata.delete-after-commit.enabled"
"""The property with which a commit deletes the metadata file that falls out of the table's log."""
MERGES_MANIFESTS = "commit.manifest.min-count-to-merge"
"""The property with the number of manifests that a commit merges."""
_MERGED_MANIFESTS = "20"
"""A commit by position reads all manifests: a fifth of Iceberg's 100 takes a third of the JVM's work from it."""
MOST_MANIFESTS = 200
"""Of data files; a table with very many files may have more."""
_FULL_MANIFEST = 2_000
"""Files of a manifest that is not worth a rewrite."""
_DELETED = 0.3
"""Files with a greater share of deleted rows are rewritten (Iceberg's `delete-ratio-threshold`)."""
_CALM_SECONDS = 60.0
"""A MERGE that comes more often would have to be repeated because of a rewrite, or the other way round."""
_RECENT = 10


@dataclass(frozen=True)
class Need:
    """What a branch needs.

    Attributes:
        branch: The state that it was decided on.
        compaction: The partitions to compact next.
        expiry: The snapshots that may go.
        deletes: Whether many rows are deleted by position, so that readers waste time on them.
        manifests: Whether there are too many.
        properties: Those of the table that nobody has set, and that keep its commits cheap.
        old: The files whose rows are older than the retention.
    """

    branch: BranchState
    compaction: Compaction | None
    expiry: Expiry
    deletes: bool
    manifests: bool
    properties: Mapping[str, str]
    old: OldRows | None

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        upkeep = self.compaction or self.expiry.is_due or self.deletes or self.manifests or self.properties
        return bool(upkeep or self.old)


@dataclass(frozen=True)
class Round:
    """What a round did.

    Attributes:
        done: Each step, for people; none: there was nothing to do.
        seconds: How long it took.
        is_done: Whether nothing was left that is due.
        one_task: Whether it used one core; else all.
        collects: Whether the table lets anybody delete its old files (`gc.enabled`).
        small_files: The small data files before it.
    """

    done: tuple[str, ...]
    seconds: float
    is_done: bool
    one_task: bool = True
    collects: bool = True
    small_files: int = 0


class Rounds:
    """The rounds of one branch; remembers its manifests from one round to the next.

    Beside a MERGE, and beside deletes by position where rows cannot be copied, what is written now is left alone:
    one of both would have to begin again. The target says how the pipeline deletes rows.

    Args:
        context: The table and its branch.
        limits: When it needs maintenance.
    """

    def __init__(self, context: MaintenanceContext, limits: MaintenanceLimits) -> None:
        self._context = context
        self._limits = limits
        self._write_mode = context.target.write_mode
        self._is_left = False
        self._inspector = BranchInspector(context)
        self._retention = Retention(context, limits)
        self._expired = 0.0
        self._cleaned = 0.0

    def need(self, now: float | None = None) -> Need:
        """Look at the branch; return what it needs. Reads metadata only, and of that only what is new.

        Args:
            now: Epoch seconds, if not the present.

        Raises:
            MaintenanceError: The catalog or the storage does not answer.
            NoTargetError: There is no such table.
        """
        with maintaining("look at the table", self._context):
            branch, at = self._inspector.inspect(self._limits), time.time() if now is None else now
            old = self._retention.find(branch.table, at)
        files = sum(partition.files for partition in branch.partitions)
        return Need(
            branch,
            self._compaction(branch, at),
            expiry(branch.history, self._limits, at, self._expired),
            self._has_deletes(branch, at),
            self._context.is_main and branch.manifests > max(MOST_MANIFESTS, files // _FULL_MANIFEST),
            self._unset_properties(branch),
            old,
        )

    def _unset_properties(self, branch: BranchState) -> dict[str, str]:
        wanted = {BOUNDS_METADATA: "true"}
        if self._write_mode == MERGE_ON_READ:
            wanted[MERGES_MANIFESTS] = _MERGED_MANIFESTS
        is_used = bool(branch.history.count)
        return {name: wanted[name] for name in wanted if is_used and name not in branch.history.properties}

    def _compaction(self, branch: BranchState, now: float) -> Compaction | None:
        """Return what is compacted next: small files of a sorted table are sorted in memory."""
        files, target_bytes, limits = branch.partitions, branch.target_bytes, self._limits
        if self._may_disturb(branch):
            return compaction(files, target_bytes, limits, now)
        busy = None
        if self._write_mode == MERGE_ON_READ:
            busy = compaction(files, target_bytes, limits, now, group_bytes=SORTED_BYTES)
        return busy or compaction(files, target_bytes, limits, now, only_quiet=True)

    def _has_deletes(self, branch: BranchState, now: float) -> bool:
        """Return whether deleted rows are worth a rewrite, more than what the last one had to leave."""
        if branch.deleted_share <= max(_DELETED, self._cleaned):
            return False
        return self._may_disturb(branch) or self._is_calm(branch, now)

    def _may_disturb(self, branch: BranchState) -> bool:
        """Return whether files may be rewritten that are written now."""
        copies = self._write_mode == MERGE_ON_READ and not branch.table.sortOrder().isSorted()
        return copies or self._write_mode == EQUALITY_DELETE

    def _is_calm(self, branch: BranchState, now: float) -> bool:
        recent = [snapshot.at for snapshot in branch.history.line[:_RECENT]] or [now]
        pause = max((recent[0] - recent[-1]) / max(len(recent) - 1, 1), now - recent[0])
        return pause >= min(_CALM_SECONDS, self._limits.quiet.total_seconds())

    def run(self, now: float | None = None) -> Round:
        """Do what is due: one rewrite of at most `round_bytes`, then what is cheap. May be repeated safely.

        Raises:
            MaintenanceError: A step failed; completed ones stay.
            NoTargetError: There is no such table.
        """
        began = time.monotonic()
        need = self.need(now)
        self._is_left = False
        done = tuple(self._steps(need, time.time() if now is None else now))
        compaction = need.compaction
        one_task = compaction is None or (compaction.one_task and not need.branch.table.sortOrder().isSorted())
        seconds, collects = time.monotonic() - began, need.branch.history.collects
        return Round(
            done,
            seconds,
            compaction is None or self._is_left,
            one_task and not (need.manifests or need.deletes),
            collects,
            sum(partition.small for partition in need.branch.partitions),
        )

    def _steps(self, need: Need, now: float) -> Iterator[str]:
        if need.old:
            with maintaining("delete old rows", self._context):
                files, rows = self._retention.delete(need.old)
            yield f"{many(rows, 'row')} in {many(files, 'file')} deleted: {need.old.column} is past its retention"
        if compaction := need.compaction:
            where = self._inspector.where(need.branch.table, compaction.partitions)
            rewritten = join(self._context, compaction.options, where) or self._by_action(
                need, now, compaction.options, where
            )
            if rewritten.files:
                yield f"{many(rewritten.files, 'data file')} joined into {rewritten.into:,}"
        if need.deletes:
            yield self._without_deleted(need, now)
        if need.manifests:
            with maintaining("rewrite manifests", self._context):
                rewritten_manifests = self._context.actions().rewriteManifests(self._context.load()).execute()
                yield f"{many(sum(1 for _ in rewritten_manifests.rewrittenManifests()), 'manifest')} rewritten"
        if need.expiry.is_due:
            with maintaining("expire snapshots", self._context):
                table = self._context.load()
                snapshots = filter(None, (table.snapshot(number) for number in need.expiry.ids))
                self._context.refuse_files(table, list(snapshots), deletes=True)
                self._inspector.java.expire(table, list(need.expiry.ids))
            self._expired = time.time()
            yield f"{many(len(need.expiry.ids), 'snapshot')} expired"
        if need.properties:
            with maintaining("set the properties", self._context):
                update = self._context.load().updateProperties()
                for name, value in need.properties.items():
                    update.set(name, value)
                update.commit()
            yield f"{', '.join(need.properties)} set"

    def _by_action(self, need: Need, now: float, options: dict[str, str], where: Any = None) -> RewrittenFiles:
        """Rewrite with Iceberg's action, unless a commit by position would come in between, and it would fail."""
        self._is_left = self._write_mode == MERGE_ON_READ and not self._is_calm(need.branch, now)
        return RewrittenFiles() if self._is_left else rewrite(self._context, options, where)

    def _without_deleted(self, need: Need, now: float) -> str:
        """Rewrite the files with many deleted rows, as many as a round may; then the position deletes that are left."""
        files = sum(partition.files for partition in need.branch.partitions)
        size_bytes = sum(partition.size_bytes for partition in need.branch.partitions)
        most = max(1, files * self._limits.round_bytes // max(size_bytes, 1))
        rewritten = join(self._context, NO_SIZE | ANY_DELETE, None, _DELETED, self._limits.round_bytes)
        deletes = 0
        if rewritten is None:
            options = {"delete-ratio-threshold": str(_DELETED), "max-files-to-rewrite": str(min(files, most))}
            rewritten = self._by_action(need, now, NO_SIZE | options)
            deletes = 0 if self._is_left else rewrite_deletes(self._context)
        self._cleaned = 0.0 if rewritten.files else self._inspector.inspect(self._limits).deleted_share
        return (
            f"deleted rows removed from {many(rewritten.files, 'data file')}, {many(deletes, 'delete file')} rewritten"
        )
