"""One table that a source follows: what is to come behind a place, and how it is written down."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from calve.changes.plan import ALL, Plan, Planner, reading
from calve.changes.record import events
from calve.changes.snapshot import History, Step, difference, joined, steps
from calve.changes.table_changes import TableChanges
from calve.errors import PositionLostError, SchemaConflictError, SettingsError
from calve.observe.log import Log
from calve.sources.iceberg.settings import TableSettings
from calve.sources.iceberg.spool import Spools
from calve.sources.iceberg.table_offset import Place
from calve.sources.source import SourceTable

__all__ = ["Followed"]

_JOINED = 4
"""So many small snapshots in a row are told as one: looking at each takes longer than comparing two."""
_LOADED_SHARE = 4
"""Events are about so many times as large as the Parquet files that they come from."""
_ROW_ID_FIELD = 2147483540
"""The number that Iceberg reserves for `_row_id`."""
_STEP = "read"


class Followed:
    """A table of a source; runs on the driver, called by the pipeline's thread.

    Args:
        planner: Of the session that reads, shared by all tables.
        settings: The table, and what of it is read.
        load: Gives its Java handle as it is now.
        reloads: Whether a lost place is the beginning of another load.
        log: Tells of what was lost.
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
        self._told = TableChanges(planner, self.name, load, settings.branch, key, settings.selection)
        self._history: History | None = None
        self._until: int | None = None
        self._has_end = False

    def look(self) -> History:
        """See which snapshots there are now.

        Raises:
            NoTargetError: The table, or the branch, does not exist.
            SettingsError: A column is not there, or `where` is no condition.
        """
        self._history = self._told.look()
        return self._history

    def check(self) -> None:
        """See whether what the settings name is there.

        Raises:
            SettingsError: A column is not there, or `where` is no condition.
        """
        self._told.check()
        if self._settings.row_id_column and not self._told.identity.by_row_id:
            hint = "Leave it out; or let the table have format version 3, and neither identifier fields nor columns"
            text = f"Rows of {self.name} are not known by row ids, so that row_id_column cannot be given"
            raise SettingsError(text, step=_STEP, target=self.name, hint=hint)
        if not self._told.identity:
            self._log.warning(
                f"rows of {self.name} have no key: a change is a DELETE and an INSERT without `document_id`; set "
                "identifier_columns"
            )

    def end_here(self) -> None:
        """Skip later snapshots."""
        self._until, self._has_end = self._head, True

    @property
    def _head(self) -> int | None:
        assert self._history is not None
        return self._history.line[-1].snapshot_id if self._history.line else None

    def begin(self) -> Place:
        """Return the place to begin at, as the settings say.

        Raises:
            PositionLostError: What came after `start_snapshot_id` or `start_timestamp` is gone.
        """
        history, settings = self._history, self._settings
        assert history is not None
        if settings.start_snapshot_id is not None:
            steps(history, settings.start_snapshot_id)
            return Place(history.uuid, settings.start_snapshot_id)
        if settings.start_ms is not None:
            return self._begin_after(history, settings.start_ms)
        if settings.disable_export:
            return Place(history.uuid, self._head)
        return Place(history.uuid, load=self._head)

    def _begin_after(self, history: History, moment_ms: int) -> Place:
        earlier = [each.snapshot_id for each in history.line if each.committed_ms <= moment_ms]
        if not earlier and history.line and history.line[0].parent_id is not None:
            raise PositionLostError(
                f"The snapshots of {self.name} from {self._settings.start_timestamp} on are no longer all there",
                step=_STEP,
                target=self.name,
                hint=f"The oldest that is retained is of {history.line[0].committed_at}; start after it",
            )
        return Place(history.uuid, earlier[-1] if earlier else None)

    def here(self, place: Place) -> Place:
        """Return a place, or where to go on if it is lost and the settings say that the table is to be read again.

        Raises:
            PositionLostError: It is lost.
        """
        try:
            self._steps(place)
        except PositionLostError as error:
            if not self._reloads:
                hint = (
                    "Set on_lost_position: reload on the source to read the rows again, or a new --state to begin anew"
                )
                raise PositionLostError(error.message, step=_STEP, target=self.name, hint=hint) from error
            assert self._history is not None
            self._log.warning(f"{error.message}; its rows are read again, as on_lost_position says", table=self.name)
            return Place(self._history.uuid, load=self._head)
        return place

    def due(self, place: Place, most_bytes: int = 0) -> Step | None:
        """Return the next step behind a place that may change rows; small ones are joined up to so many bytes."""
        return next((step for step in self._steps(place, most_bytes) if step.changes_rows), None)

    def waiting_bytes(self, place: Place) -> int:
        """Estimate what waits behind a place; 0: nothing."""
        sizes = [max(1, step.snapshot.size_bytes) for step in self._steps(place) if step.changes_rows]
        return sum(sizes) * _LOADED_SHARE

    def _steps(self, place: Place, most_bytes: int = 0) -> list[Step]:
        history = self._history
        assert history is not None
        if place.uuid != history.uuid:
            raise PositionLostError(f"The table {self.name} was dropped and recreated", step=_STEP, target=self.name)
        if place.load is not None:
            snapshot = history.snapshot(place.load)
            if snapshot is None:
                message = f"The snapshot {place.load} of {self.name}, whose rows were being read, is gone"
                raise PositionLostError(message, step=_STEP, target=self.name)
            return [Step(snapshot, is_full=True)]
        if place.snapshot == self._until and self._has_end:
            return []
        try:
            found = steps(history, place.snapshot, self._until)
        except PositionLostError:
            leap = difference(history, place.snapshot) if self._reloads and place.snapshot is not None else None
            if leap is None:
                raise
            found = leap
        return joined(history, found, _JOINED, most_bytes // _LOADED_SHARE) if most_bytes else found

    def write(self, spools: Spools, place: Place, step: Step, most_bytes: int) -> Place:
        """Write a step's changes down; give the place at their beginning.

        Raises:
            PositionLostError: Files of the snapshots are gone.
            UnsupportedError: Spark cannot read a column.
            SchemaConflictError: Rows are to be known by row ids, and some have none.
        """
        first, budget = (place.files, most_bytes // _LOADED_SHARE) if step.is_full else (0, ALL)
        with self._told.plan(step, first, budget) as plan:
            self._check_lineage(plan, step)
            then = Place(place.uuid, step.snapshot.snapshot_id)
            if step.is_full and plan.until < plan.of:
                then = replace(place, load=step.snapshot.snapshot_id, files=plan.until, snapshot=None)
            changes = self._told.of_plan(plan)
            if changes is None:
                return then
            name = f"{step.snapshot.snapshot_id}-{uuid.uuid4().hex[:8]}"
            with reading(self.name):
                written = events(changes, self.name, step.snapshot, self._told.identity, self._settings.row_id_column)
                spools.write(name, written, SourceTable(self.name, place.uuid, self._schema_json()))
        return place.opened(name, then)

    def _schema_json(self) -> str:
        schema = json.loads(self._told.schema_json())
        wanted = self._settings.columns
        fields = [field for field in schema["fields"] if not wanted or field["name"] in wanted]
        if wanted:
            fields.sort(key=lambda field: wanted.index(field["name"]))
        if name := self._settings.row_id_column:
            fields.append({"id": _ROW_ID_FIELD, "name": name, "required": False, "type": "long"})
        return json.dumps({**schema, "fields": fields}, separators=(",", ":"))

    def _check_lineage(self, plan: Plan, step: Step) -> None:
        if self._told.identity.by_row_id and not plan.has_lineage:
            raise SchemaConflictError(
                f"Rows of the snapshot {step.snapshot.snapshot_id} of {self.name} are from before format version 3 and "
                "have no row ids",
                step=_STEP,
                target=self.name,
                hint="Set identifier_columns to the columns that say which row is which",
            )
