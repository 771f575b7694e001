"""Converts equality deletes: to deletes by position, or by rewriting data files without the deleted rows."""

from __future__ import annotations

from typing import NamedTuple

from calve.catalog.retry import retried
from calve.commit.swap import swap
from calve.engine.java.errors import java_errors
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.join import join
from calve.maintenance.keys_to_positions import keys_to_positions
from calve.maintenance.rewrite import ANY_DELETE, RewrittenFiles, maintaining, rewrite

__all__ = ["Conversion", "convert", "remove_unneeded"]


class Conversion(NamedTuple):
    """What became of equality deletes.

    Attributes:
        positions: The rows that are deleted by position instead.
        rewritten: The data files that were rewritten, if positions could not be found.
    """

    positions: int = 0
    rewritten: RewrittenFiles = RewrittenFiles()


def convert(context: MaintenanceContext, options: dict[str, str] | None = None) -> Conversion:
    """Convert the current equality deletes of a branch; deletes that are committed meanwhile stay.

    They become deletes by position. Only if that needs Iceberg's own readers, data files are rewritten.

    Args:
        context: The table and its branch.
        options: More of Iceberg's options, to rewrite other files, too.

    Raises:
        MaintenanceError: It could not finish; completed parts stay, and the call may be repeated.
        SinkUnavailableError: A file cannot be read at the moment.
    """
    positions = keys_to_positions(context)
    if positions is not None:
        return Conversion(positions)
    chosen = {**ANY_DELETE, **(options or {})}
    rewritten = join(context, chosen) or rewrite(context, chosen)
    remove_unneeded(context)  # the commit itself drops only those that are older than every row
    return Conversion(rewritten=rewritten)


def remove_unneeded(context: MaintenanceContext) -> int:
    """Remove equality deletes that apply to no data file, and return their number.

    Iceberg's action `removeDanglingDeleteFiles` finds the same files, but fails if anything is committed meanwhile, and
    pipelines commit all the time. This is a compare-and-swap on the inspected metadata: no concurrent commit, not even
    a rollback, can make a removed file needed again.
    """

    def attempt() -> int:
        begun = context.begin()
        with java_errors("remove deletes", context.name):
            begun.inspect(context.target.branch)
            start = begun.start
            ref = start.ref(context.target.branch)
            snapshot = None if ref is None else start.snapshot(ref.snapshotId())
            if snapshot is None or snapshot.summary().get("total-equality-deletes") == "0":
                return 0
            unneeded = context.manifests.unneeded(begun.table, snapshot)
            if unneeded.isEmpty():
                return 0
            update = begun.transaction.newRewrite()
            context.manifests.remove(update, unneeded)
            (update if context.is_main else update.toBranch(context.target.branch)).commit()
            swap(begun, context.target.branch)
            count: int = unneeded.size()
            return count

    with maintaining("remove deletes", context):
        return retried(attempt)
