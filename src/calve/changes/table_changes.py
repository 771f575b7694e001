"""Reads the changes of one table, snapshot by snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from calve.changes.diff import Selection, changes
from calve.changes.identity import RowIdentity, identity_of
from calve.changes.plan import ADDED, ALL, Plan, Planner, UnreadFileError, reading
from calve.changes.record import lines
from calve.changes.snapshot import History, SnapshotStep, steps
from calve.errors import PositionLostError
from calve.expression.sql import spark_name

__all__ = ["TableChanges"]


class TableChanges:
    """Reads the changes of a branch of a table, in order. Runs on the driver.

    Args:
        planner: Of the session that reads; may be shared.
        identifier: The table's name.
        load: Returns the current Java `Table`.
        branch: The branch to follow.
        key: The identifier columns; none: the table's identifier fields, or its row ids.
        selection: The part of the table to read.
    """

    def __init__(
        self,
        planner: Planner,
        identifier: str,
        load: Callable[[], Any],
        branch: str = "main",
        key: tuple[str, ...] = (),
        selection: Selection = Selection(),  # noqa: B008
    ) -> None:
        self._planner = planner
        self._selection = selection
        self._load = load
        self._key = key
        self._branch = branch
        self._table: Any = None
        self.identifier = identifier
        self.identity = RowIdentity()
        self._uuid = ""

    def history(self) -> History:
        """Load the table, and return the branch's snapshots. Later reads use the schema of this load.

        Raises:
            NoTargetError: There is no such table, or branch.
            SettingsError: A key column does not exist.
        """
        table = self._load()
        history = self._planner.history(self.identifier, table, self._branch)
        self._table = table
        self.identity = identity_of(self.identifier, table, self._key)
        return history

    def steps(self, after: int | None = None, until: int | None = None) -> list[SnapshotStep]:
        """Load the table, and return the steps after one snapshot up to another one.

        Raises:
            NoTargetError: There is no such table, branch, or end snapshot.
            PositionLostError: `after` has expired or was rolled back, or the table was recreated.
            SettingsError: A key column does not exist, or the end is before the start.
        """
        history = self.history()
        self._check_same(history)
        return steps(history, after, until)

    def check(self) -> None:
        """Check that the selection fits the table, as it was last loaded.

        Raises:
            SettingsError: A column of the selection or of the key does not exist, or `where` is not a condition.
            UnsupportedError: Spark cannot read one of the columns.
        """
        self._selection.check(self.identifier, self.no_rows(), self.identity)

    def no_rows(self) -> DataFrame:
        """Return an empty DataFrame with the columns of the table, as it was last loaded.

        Raises:
            UnsupportedError: Spark cannot read one of the columns.
        """
        return self._planner.spark.session.createDataFrame([], self._planner.schema(self.identifier, self._table))

    def schema_json(self) -> str:
        """Return the schema that rows are read with: the table's, as it was last loaded."""
        return self._planner.schema_json(self.identifier, self._table)

    def plan(self, step: SnapshotStep, first: int = 0, max_bytes: int = ALL) -> Plan:
        """Find the files of a step, as `Planner.plan` does, in the table as it was last loaded."""
        return self._planner.plan(self.identifier, self._table, step, first, max_bytes)

    def of_plan(self, plan: Plan) -> DataFrame | None:
        """Return the changes of a plan, as `diff.changes` does."""
        return changes(plan, self.identity, self._selection)

    def rows_of(self, plan: Plan) -> DataFrame:
        """Return the selected rows of a plan of a whole snapshot that has files."""
        frame = plan.read(ADDED)
        names = [f.col(spark_name(name)) for name in self._selection.names(frame)]
        return self._selection.of(frame).select(*names)

    @contextmanager
    def of(self, step: SnapshotStep) -> Iterator[DataFrame | None]:
        """Return the changes of a step; they can be read only inside the block.

        Raises:
            PositionLostError: The snapshot, its parent, or files of them no longer exist.
            UnsupportedError: Spark cannot read one of the columns.
        """
        if not step.changes_rows:
            yield None
            return
        with self.plan(step) as plan:
            yield self.of_plan(plan)

    def read_by_iceberg(self) -> bool:
        """Let Iceberg's generic reader read the table, because Spark's fails on a file; False: it does already."""
        return self._planner.read_by_iceberg(self.identifier)

    def lines(self, step: SnapshotStep) -> Iterator[str]:
        """Return the changes of a step as JSON texts, in an order in which they can be applied.

        Raises:
            PositionLostError: As `of`.
            UnsupportedError: As `of`.
        """
        is_first = True
        try:
            for line in self._lines(step):
                is_first = False
                yield line
        except UnreadFileError:
            if not (is_first and self.read_by_iceberg()):
                raise
            yield from self._lines(step)

    def _lines(self, step: SnapshotStep) -> Iterator[str]:
        with self.of(step) as rows:
            if rows is None:
                return
            written = lines(rows, self.identifier, step.snapshot, self.identity)
            with reading(self.identifier):
                for (line,) in written.toLocalIterator(prefetchPartitions=True):
                    yield line

    def _check_same(self, history: History) -> None:
        if self._uuid not in ("", history.uuid):
            raise PositionLostError(
                f"The table {self.identifier} was dropped and recreated",
                step="changes",
                target=self.identifier,
                hint="The position belongs to the old table; start without a position to read the new one",
            )
        self._uuid = history.uuid
