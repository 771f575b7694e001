"""One table that a source follows: finds the next changes, and writes them to spools."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from calve.changes.diff import Selection
from calve.changes.plan import ADDED, ALL, DELETED, REMOVED, Plan, Planner, UnreadFileError, reading
from calve.changes.record import events
from calve.changes.snapshot import History, SnapshotStep, difference, joined, steps
from calve.changes.spark_columns import with_binary_places
from calve.changes.table_changes import TableChanges
from calve.changes.twins import keeping_twins
from calve.errors import PositionLostError, SchemaConflictError, SettingsError
from calve.observe.humanize import many
from calve.observe.log import Log
from calve.sources.iceberg.settings import TableSettings
from calve.sources.iceberg.spool import Spools
from calve.sources.iceberg.table_offset import TableOffset
from calve.sources.source import SourceTable

__all__ = ["MOST_ROWS", "FollowedTable"]

_JOINED = 4
"""At least this number of consecutive small snapshots is joined: reading each takes longer than comparing two."""
_LOADED_SHARE = 4
"""The approximate size of events, relative to the Parquet files that they come from."""
_ROW_ID_FIELD = 2147483540
"""Iceberg's reserved field id of `_row_id`."""
_STEP = "read"
MOST_ROWS = 10_000_000
"""In larger tables no rows with the keys of deleted ones are looked for: reading so many keys takes a second or two."""


class FollowedTable:
    """A table of a source; runs on the driver, called by the pipeline's thread.

    Args:
        planner: Of the session that reads, shared by all tables.
        settings: The table, and the part of it to read.
        load: Returns its current Java handle.
        reloads: Whether to load the rows again if the offset is lost.
        log: Logs losses.
    """

    def __init__(
        self,
        planner: Planner,
        settings: TableSettings,
        load: Callable[[], Any],
        reloads: bool,
        log: Log,
    ) -> None:
        self.name = settings.table_name
        self.load = load
        self._settings = settings
        self._reloads = reloads
        self._log = log
        key = tuple(settings.identifier_columns)
        selection = Selection(tuple(settings.columns), settings.where)
        self._changes = TableChanges(planner, self.name, load, settings.branch, key, selection)
        self._history: History | None = None
        self._until: int | None = None
        self._has_end = False
        self._is_unchecked = False

    def refresh(self) -> History:
        """Load the current snapshots.

        Raises:
            NoTargetError: The table, or the branch, does not exist.
            SettingsError: A column does not exist, or `where` is not a condition.
        """
        self._history = self._changes.history()
        return self._history

    def check(self) -> None:
        """Check that the columns and the condition of the settings fit the table.

        Raises:
            SettingsError: A column does not exist, or `where` is not a condition.
        """
        self._changes.check()
        if self._settings.row_id_column and not self._changes.identity.by_row_id:
            hint = "Remove it; or use a table of format version 3, without identifier fields and columns"
            text = f"row_id_column cannot be set, because rows of {self.name} are not identified by row ids"
            raise SettingsError(text, step=_STEP, target=self.name, hint=hint)
        if not self._changes.identity:
            self._log.warning(
                f"rows of {self.name} have no key: a change is a DELETE and an INSERT without `document_id`; set "
                "identifier_columns (full_row in an Iceberg sink finds rows by all columns)"
            )

    def end_here(self) -> None:
        """Skip later snapshots."""
        self._until, self._has_end = self._head, True

    @property
    def _head(self) -> int | None:
        assert self._history is not None
        return self._history.line[-1].snapshot_id if self._history.line else None

    def begin(self) -> TableOffset:
        """Return the first offset, by the settings.

        Raises:
            PositionLostError: The changes after `start_snapshot_id` or `start_timestamp` have expired.
        """
        history, settings = self._history, self._settings
        assert history is not None
        if settings.start_snapshot_id is not None:
            steps(history, settings.start_snapshot_id)
            return TableOffset(history.uuid, settings.start_snapshot_id)
        if settings.start_ms is not None:
            return self._begin_after(history, settings.start_ms)
        if settings.disable_export:
            return TableOffset(history.uuid, self._head)
        return TableOffset(history.uuid, load=self._head)

    def _begin_after(self, history: History, time_ms: int) -> TableOffset:
        earlier = [snapshot.snapshot_id for snapshot in history.line if snapshot.committed_ms <= time_ms]
        if not earlier and history.line and history.line[0].parent_id is not None:
            raise PositionLostError(
                f"The snapshots of {self.name} from {self._settings.start_timestamp} on have partly expired",
                step=_STEP,
                target=self.name,
                hint=f"The oldest retained snapshot is of {history.line[0].committed_at}; start after it",
            )
        return TableOffset(history.uuid, earlier[-1] if earlier else None)

    def here(self, offset: TableOffset) -> TableOffset:
        """Return an offset, or a new one if it is lost and the settings allow to load the table again.

        Raises:
            PositionLostError: It is lost.
        """
        try:
            self._steps(offset)
        except PositionLostError as error:
            if not self._reloads:
                hint = "Set on_lost_position: reload on the source to read the rows again, or use a new --state"
                raise PositionLostError(error.message, step=_STEP, target=self.name, hint=hint) from error
            assert self._history is not None
            self._log.warning(f"{error.message}; its rows are read again, as on_lost_position says", table=self.name)
            return TableOffset(self._history.uuid, load=self._head)
        return offset

    def due(self, offset: TableOffset, most_bytes: int = 0) -> SnapshotStep | None:
        """Return the next step after an offset that may change rows; small ones are joined up to `most_bytes`."""
        return next((step for step in self._steps(offset, most_bytes) if step.changes_rows), None)

    def waiting_bytes(self, offset: TableOffset) -> int:
        """Estimate the bytes after an offset; 0: nothing waits."""
        sizes = [max(1, step.snapshot.size_bytes) for step in self._steps(offset) if step.changes_rows]
        return sum(sizes) * _LOADED_SHARE

    def _steps(self, offset: TableOffset, most_bytes: int = 0) -> list[SnapshotStep]:
        history = self._history
        assert history is not None
        if offset.uuid != history.uuid:
            raise PositionLostError(f"The table {self.name} was dropped and recreated", step=_STEP, target=self.name)
        if offset.load is not None:
            snapshot = history.snapshot(offset.load)
            if snapshot is None:
                message = f"The snapshot {offset.load} of {self.name}, whose rows were being read, has expired"
                raise PositionLostError(message, step=_STEP, target=self.name)
            return [SnapshotStep(snapshot, is_full=True)]
        if offset.snapshot == self._until and self._has_end:
            return []
        try:
            ahead = steps(history, offset.snapshot, self._until)
        except PositionLostError:
            leap = difference(history, offset.snapshot) if self._reloads and offset.snapshot is not None else None
            if leap is None:
                raise
            ahead = leap
        return joined(history, ahead, _JOINED, most_bytes // _LOADED_SHARE) if most_bytes else ahead

    def write(self, spools: Spools, offset: TableOffset, step: SnapshotStep, most_bytes: int) -> TableOffset:
        """Write the changes of a step to a spool; return the offset at its beginning.

        Raises:
            PositionLostError: Files of the snapshots no longer exist.
            UnsupportedError: A file cannot be read.
            SchemaConflictError: Row ids identify rows, but some rows have none.
        """
        try:
            return self._write(spools, offset, step, most_bytes)
        except UnreadFileError as error:
            if not self._changes.read_by_iceberg():
                raise
            reason = f"Spark cannot read a file of it ({error.message}), so Iceberg's slower reader does"
            self._log.warning(f"{self.name}: {reason}", table=self.name)
            return self._write(spools, offset, step, most_bytes)

    def _write(self, spools: Spools, offset: TableOffset, step: SnapshotStep, most_bytes: int) -> TableOffset:
        first, budget = (offset.files, most_bytes // _LOADED_SHARE) if step.is_full else (0, ALL)
        with self._changes.plan(step, first, budget) as plan:
            self._check_lineage(plan, step)
            then = TableOffset(offset.uuid, step.snapshot.snapshot_id)
            if step.is_full and plan.until < plan.of:
                then = replace(offset, load=step.snapshot.snapshot_id, files=plan.until, snapshot=None)
            changes = self._changes.of_plan(plan)
            if changes is None:
                return then
            name = f"{step.snapshot.snapshot_id}-{uuid.uuid4().hex[:8]}"
            with reading(self.name), self._with_twins(changes, plan, step) as frame:
                written = events(frame, self.name, step.snapshot, self._changes.identity, self._settings.row_id_column)
                spools.write(name, written, SourceTable(self.name, offset.uuid, self._schema_json()))
        return offset.opened(name, then)

    @contextmanager
    def _with_twins(self, changes: DataFrame, plan: Plan, step: SnapshotStep) -> Iterator[DataFrame]:
        """Return changes in which the delete of a row whose key another row has is an update to that row."""
        identity = self._changes.identity
        if not identity.columns or self._is_unchecked or not any(plan.files[name] for name in (REMOVED, DELETED)):
            yield changes
            return
        with self._changes.plan(SnapshotStep(step.snapshot, is_full=True)) as whole:
            if whole.rows[ADDED] > MOST_ROWS:
                self._is_unchecked = True
                self._log.warning(
                    f"{self.name} has more than {MOST_ROWS:,} rows, so it is not checked whether other rows have the "
                    "key of a deleted one; if keys are not unique, documents and rows of mirrors can be missing",
                    table=self.name,
                )
            if self._is_unchecked or not whole.files[ADDED]:
                yield changes
                return
            with keeping_twins(changes, identity, self._changes.rows_of(whole)) as (frame, count):
                if count:
                    self._log.warning(
                        f"{many(count, 'key')} of deleted rows of {self.name} other rows have, too: keys are not "
                        "unique, and a document or a row of a mirror, which there is one of for each key, is now one "
                        "of these rows",
                        table=self.name,
                    )
                yield frame

    def _schema_json(self) -> str:
        schema = json.loads(with_binary_places(self._changes.schema_json()))
        wanted = self._settings.columns
        fields = [field for field in schema["fields"] if not wanted or field["name"] in wanted]
        if wanted:
            fields.sort(key=lambda field: wanted.index(field["name"]))
        if name := self._settings.row_id_column:
            fields.append({"id": _ROW_ID_FIELD, "name": name, "required": False, "type": "long"})
        return json.dumps({**schema, "fields": fields}, separators=(",", ":"))

    def _check_lineage(self, plan: Plan, step: SnapshotStep) -> None:
        if self._changes.identity.by_row_id and not plan.has_lineage:
            raise SchemaConflictError(
                f"Rows of the snapshot {step.snapshot.snapshot_id} of {self.name} are from before format version 3 and "
                "have no row ids",
                step=_STEP,
                target=self.name,
                hint="Set identifier_columns to the columns that identify a row",
            )
