"""Maintenance by need: what one branch of a table needs now, and one bounded round of it; runs on the driver."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from calve.maintenance.compact import rewrite_deletes
from calve.maintenance.context import Workbench
from calve.maintenance.join import join
from calve.maintenance.look import Look, Looks
from calve.maintenance.old_snapshots import Expiry, expiry
from calve.maintenance.rewrite import NO_SIZE, maintaining, rewrite
from calve.maintenance.small_files import Compaction, compaction
from calve.observe.humanize import many
from calve.table.limits import Limits

__all__ = ["BOUNDS_METADATA", "MOST_MANIFESTS", "Need", "Round", "Rounds"]

BOUNDS_METADATA = "write.metadata.delete-after-commit.enabled"
"""The property with which a commit deletes the metadata file that falls out of the table's log."""
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
        look: What it was decided on.
        compaction: The partitions to compact next.
        expiry: The snapshots that may go.
        deletes: Whether many rows are deleted by position, so that readers waste time on them.
        manifests: Whether there are too many.
        metadata: Whether old metadata files stay for ever, because nobody has decided about them.
    """

    look: Look
    compaction: Compaction | None
    expiry: Expiry
    deletes: bool
    manifests: bool
    metadata: bool

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.compaction or self.expiry.is_due or self.deletes or self.manifests or self.metadata)


@dataclass(frozen=True)
class Round:
    """What a round did.

    Attributes:
        done: Each step, for people; none: there was nothing to do.
        seconds: How long it took.
        is_done: Whether nothing was left that is due.
        one_task: Whether it used one core; else all.
        collects: Whether the table lets anybody delete its old files (`gc.enabled`).
    """

    done: tuple[str, ...]
    seconds: float
    is_done: bool
    one_task: bool = True
    collects: bool = True


class Rounds:
    """The rounds of one branch; remembers its manifests from one round to the next.

    Args:
        bench: The table and its branch.
        limits: When it needs maintenance.
        only_quiet: Compact only what is not written now: a MERGE would have to be repeated.
    """

    def __init__(self, bench: Workbench, limits: Limits, only_quiet: bool = False) -> None:
        self._bench = bench
        self._limits = limits
        self._only_quiet = only_quiet
        self._looks = Looks(bench)
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
        with maintaining("look at the table", self._bench):
            look, at = self._looks.take(self._limits), time.time() if now is None else now
        files = sum(one.files for one in look.partitions)
        return Need(
            look,
            compaction(look.partitions, look.target_bytes, self._limits, at, self._only_quiet),
            expiry(look.history, self._limits, at, self._expired),
            self._has_deletes(look, at),
            self._bench.is_main and look.manifests > max(MOST_MANIFESTS, files // _FULL_MANIFEST),
            bool(look.history.count) and BOUNDS_METADATA not in look.history.properties,
        )

    def _has_deletes(self, look: Look, now: float) -> bool:
        """Return whether deleted rows are worth a rewrite, more than what the last one had to leave."""
        if look.deleted_share <= max(_DELETED, self._cleaned):
            return False
        recent = [one.at for one in look.history.line[:_RECENT]] or [now]
        pause = max((recent[0] - recent[-1]) / max(len(recent) - 1, 1), now - recent[0])
        return not self._only_quiet or pause >= min(_CALM_SECONDS, self._limits.quiet.total_seconds())

    def run(self, now: float | None = None) -> Round:
        """Do what is due: one rewrite of at most `round_bytes`, then what is cheap. May be repeated safely.

        Raises:
            MaintenanceError: A step failed; completed ones stay.
            NoTargetError: There is no such table.
        """
        began = time.monotonic()
        need = self.need(now)
        done = tuple(self._steps(need))
        found = need.compaction
        one_task = found is None or (found.one_task and not need.look.table.sortOrder().isSorted())
        seconds, collects = time.monotonic() - began, need.look.history.collects
        return Round(done, seconds, found is None, one_task and not (need.manifests or need.deletes), collects)

    def _steps(self, need: Need) -> Iterator[str]:
        if need:
            self._check_files(need)
        if found := need.compaction:
            where = self._looks.where(need.look.table, found.partitions)
            rewritten = join(self._bench, found.options, where) or rewrite(self._bench, found.options, where)
            if rewritten.files:
                yield f"{many(rewritten.files, 'data file')} joined into {rewritten.into:,}"
        if need.deletes:
            yield self._without_deleted(need)
        if need.manifests:
            with maintaining("rewrite manifests", self._bench):
                made = self._bench.actions().rewriteManifests(self._bench.load()).execute()
                yield f"{many(sum(1 for _ in made.rewrittenManifests()), 'manifest')} rewritten"
        if need.expiry.is_due:
            with maintaining("expire snapshots", self._bench):
                self._looks.java.expire(self._bench.load(), list(need.expiry.ids))
            self._expired = time.time()
            yield f"{many(len(need.expiry.ids), 'snapshot')} expired"
        if need.metadata:
            with maintaining("bound the metadata files", self._bench):
                self._bench.load().updateProperties().set(BOUNDS_METADATA, "true").commit()
            yield f"{BOUNDS_METADATA} set"

    def _check_files(self, need: Need) -> None:
        """Check the files that would be read or deleted."""
        with maintaining("look at the files", self._bench):
            table = self._bench.load()
            head = table.snapshot(self._bench.target.branch)
            if head is not None and (need.compaction or need.deletes):
                self._bench.refuse_files(table, [head], deletes=False)
            if need.expiry.is_due:
                found = [table.snapshot(number) for number in need.expiry.ids]
                self._bench.refuse_files(table, [one for one in found if one is not None], deletes=True)

    def _without_deleted(self, need: Need) -> str:
        """Rewrite the files with many deleted rows, as many as a round may; then the position deletes that are left."""
        files = sum(one.files for one in need.look.partitions)
        size_bytes = sum(one.size_bytes for one in need.look.partitions)
        most = max(1, files * self._limits.round_bytes // max(size_bytes, 1))
        options = {**NO_SIZE, "delete-ratio-threshold": str(_DELETED), "max-files-to-rewrite": str(min(files, most))}
        rewritten = rewrite(self._bench, options)
        deletes = rewrite_deletes(self._bench)
        self._cleaned = 0.0 if rewritten.files else self._looks.take(self._limits).deleted_share
        return (
            f"deleted rows removed from {many(rewritten.files, 'data file')}, {many(deletes, 'delete file')} rewritten"
        )
