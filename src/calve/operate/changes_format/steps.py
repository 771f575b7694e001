"""Chooses the snapshots of a batch or a stream of `calve_changes`: the same ones whenever Spark asks, or an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calve.changes.snapshot import SnapshotStep
from calve.changes.table_changes import TableChanges
from calve.errors import NoTargetError, PositionLostError, SettingsError
from calve.operate.changes_format.options import ChangesOptions
from calve.operate.changes_frame import check_ids

__all__ = ["batch_steps", "check_stream", "end_of_batch", "stream_steps"]

_STEP = "changes"
_NEW_CHECKPOINT = "Delete the stream's checkpoint: it then begins with all rows of the table, or at start_snapshot_id"


def batch_steps(
    changes: TableChanges, settings: ChangesOptions, head: int | None, oldest: int | None
) -> list[SnapshotStep]:
    """Return the steps of a DataFrame, which has the same rows whenever it is read.

    Args:
        changes: Of the table.
        settings: The options.
        head: The newest snapshot when the DataFrame was made; None: the table had none.
        oldest: The oldest retained one then.

    Raises:
        NoTargetError: There is no such table or end.
        PositionLostError: A snapshot has expired or was rolled back.
        SettingsError: The end is before the start.
    """
    after, end = settings.start_snapshot_id, settings.end_snapshot_id
    check_ids(after, end)
    try:
        steps = changes.steps(after, head if end is None else end)
    except NoTargetError as error:
        if end is not None or head is None:
            raise
        raise _changed(changes, error.message) from error
    if head is None:
        return []  # written since
    first = steps[0] if steps else None
    if first is not None and (first.is_full or first.base is not None) and first.snapshot.snapshot_id != oldest:
        raise _changed(changes, f"Snapshots of {changes.identifier} have expired since load()")
    return steps


def stream_steps(changes: TableChanges, after: int | None, until: int | None) -> list[SnapshotStep]:
    """Return the steps of a stream up to `until` (None: the newest), which stay the same ones.

    It begins with all rows of one snapshot, because the history may be long.

    Raises:
        NoTargetError: There is no such table.
        PositionLostError: A snapshot has expired or was rolled back, or the table was recreated.
    """
    try:
        steps = changes.steps(after, until)
    except (PositionLostError, NoTargetError) as error:
        if isinstance(error, NoTargetError) and until is None:
            raise  # there is no such table
        raise PositionLostError(error.message, step=_STEP, target=error.target, hint=_NEW_CHECKPOINT) from error
    if after is None:
        return [replace(steps[-1], is_full=True, base=None)] if steps else []
    if steps and steps[0].base is not None:  # a batch that was read before they expired had their rows, too
        message = f"Snapshots of {changes.identifier} after {after} have expired"
        raise PositionLostError(message, step=_STEP, target=changes.identifier, hint=_NEW_CHECKPOINT)
    return steps


def end_of_batch(steps: Sequence[SnapshotStep], after: int | None, most: int | None) -> int | None:
    """Return the last snapshot of a stream's next batch; `after`, if there is nothing new."""
    return steps[: most or len(steps)][-1].snapshot.snapshot_id if steps else after


def check_stream(settings: ChangesOptions) -> None:
    """Check that a stream has no option of a batch alone.

    Raises:
        SettingsError: It has one.
    """
    if settings.end_snapshot_id is not None:
        hint = "Omit end_snapshot_id; or read with spark.read, and not as a stream"
        raise SettingsError("A stream of changes has no end", step=_STEP, target=settings.table, hint=hint)


def _changed(changes: TableChanges, message: str) -> PositionLostError:
    hint = "Call load() again: the DataFrame would have other rows now"
    return PositionLostError(message, step=_STEP, target=changes.identifier, hint=hint)
