"""The changes of several snapshots of a table as one DataFrame. Runs on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from calve.changes.diff import CHANGE
from calve.changes.identity import ROW_ID
from calve.changes.snapshot import SnapshotStep
from calve.changes.table_changes import TableChanges
from calve.engine.engine import Engine
from calve.errors import SettingsError
from calve.expression.sql import spark_name

__all__ = ["changes_frame", "check_ids", "frame_of", "no_changes"]

_ORDINAL, _SNAPSHOT = ("_change_ordinal", "_commit_snapshot_id")
"""As in the view of Iceberg's `create_changelog_view`."""
_ADDED = (CHANGE, _ORDINAL, _SNAPSHOT, ROW_ID)


@contextmanager
def changes_frame(spark: Engine, changes: TableChanges, after: int | None, until: int | None) -> Iterator[DataFrame]:
    """Return the changes after one snapshot up to another one, on the user's session; readable only inside the block.

    Columns: the table's, `_change_type`, `_change_ordinal` (of the snapshots, from 0), `_commit_snapshot_id`, and
    `_row_id` if it identifies the rows.

    Raises:
        SettingsError: An argument is wrong, or the table has a column of such a name.
        NoTargetError: There is no such table, branch, or end snapshot.
        PositionLostError: A snapshot has expired, or was rolled back.
        UnsupportedError: Spark cannot read one of the columns.
    """
    check_ids(after, until)
    with frame_of(changes, changes.steps(after, until)) as frame:
        yield spark.users_frame(frame)


@contextmanager
def frame_of(changes: TableChanges, steps: Sequence[SnapshotStep], first: int = 0) -> Iterator[DataFrame]:
    """Return the changes of steps, as they were last loaded; readable only inside the block.

    Args:
        changes: Of the table.
        steps: The steps.
        first: The number of the first one that changes rows.

    Raises:
        CalveError: As `changes_frame`.
    """
    with ExitStack() as plans:
        nothing = no_changes(changes)
        frames = []
        for ordinal, step in enumerate((step for step in steps if step.changes_rows), first):
            rows = plans.enter_context(changes.of(step))
            if rows is not None:
                frames.append(
                    _with_commit(rows, ordinal, step.snapshot.snapshot_id).select(*map(spark_name, nothing.columns))
                )
        yield reduce(DataFrame.unionAll, frames) if frames else nothing


def no_changes(changes: TableChanges) -> DataFrame:
    """Return an empty DataFrame with the columns of changes of a table, as it was last loaded.

    Raises:
        SettingsError: The table has a column of such a name.
        UnsupportedError: Spark cannot read one of the columns.
    """
    no_rows = changes.no_rows()
    _check_names(changes.identifier, no_rows.columns)
    empty = no_rows.withColumns({CHANGE: f.lit(""), ROW_ID: f.lit(None).cast("bigint")})
    return _with_commit(empty, 0, 0).drop(*([] if changes.identity.by_row_id else [ROW_ID]))


def _with_commit(rows: DataFrame, ordinal: int, snapshot_id: int) -> DataFrame:
    columns = [f.col(spark_name(name)) for name in rows.columns if name not in _ADDED]
    commit = [f.lit(ordinal).alias(_ORDINAL), f.lit(snapshot_id).cast("bigint").alias(_SNAPSHOT)]
    return rows.select(*columns, CHANGE, *commit, ROW_ID)


def check_ids(after: object, until: object) -> None:
    """Check that the ends of a range are numbers.

    Raises:
        SettingsError: One is something else.
    """
    _check_id("start_snapshot_id", after)
    _check_id("end_snapshot_id", until)


def _check_id(name: str, snapshot_id: object) -> None:
    if snapshot_id is not None and type(snapshot_id) is not int:
        hint = "SELECT snapshot_id FROM namespace.table.snapshots"
        raise SettingsError(f"{name} is {snapshot_id!r}, and not the id of a snapshot", step="changes", hint=hint)


def _check_names(identifier: str, columns: list[str]) -> None:
    if reserved := next((name for name in columns if name in _ADDED), None):
        message = f"The table {identifier} has a column {reserved}, and its changes have one, too"
        raise SettingsError(message, step="changes", target=identifier, hint="Rename it: ALTER TABLE … RENAME COLUMN")
