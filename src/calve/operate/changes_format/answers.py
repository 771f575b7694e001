"""What the planners of `calve_changes` ask for: the columns of changes, snapshots, and rows. Runs on the driver.

Rows wait in frames (`sources.spark.frames`), whose names begin with the day:

    <folder>/<day>-<program>-<hash>-<number>/part-….arrow

The rows between two snapshots are always the same, so a frame may be read many times, and is computed again if it is
gone. Those of a batch of a stream are removed after its commit, others when the program ends, and those of killed
programs when a later one uses the folder.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from calve.changes.plan import Planner, UnreadFileError, reading
from calve.changes.snapshot import SnapshotStep
from calve.changes.table_changes import TableChanges
from calve.engine.adopt import adopt
from calve.engine.jvm.master import is_local
from calve.errors import CalveError, NoTargetError, PositionLostError, SettingsError
from calve.operate.changes_format.options import ChangesOptions, changes_options
from calve.operate.changes_frame import check_ids, frame_of, no_changes
from calve.operate.frames import in_catalog
from calve.pipeline.run import Catalogs
from calve.sources.source import Split
from calve.sources.spark.frames import Frames
from calve.state.clients import file_io_at
from calve.state.folder import StateFolder
from calve.state.location import state_folder_at

__all__ = ["ChangesAnswers"]

_STEP = "changes"
_SNAPSHOTS_AT_ONCE = 50
"""Each is a scan in the plan of a job."""
_KEPT = timedelta(days=7)
_FRAME = re.compile(r"\d{4}-\d\d-\d\d-[0-9a-f]{32}-[0-9a-f]{32}-\d+")
_NEW_CHECKPOINT = "Delete the stream's checkpoint: it then begins with all rows of the table, or at start_snapshot_id"


class ChangesAnswers:
    """Answers for one session; may be called by several threads.

    Args:
        spark: The session.
        scratch: The folder for rows, if executors run on this machine and the user chose none.

    Raises:
        EngineError: Calve cannot run on the session.
    """

    def __init__(self, spark: SparkSession, scratch: Path) -> None:
        self._spark, self._scratch = spark, scratch
        self._engine = adopt(spark)
        self._catalogs = Catalogs(self._engine)
        self._program = uuid.uuid4().hex
        self._folders: dict[str, StateFolder] = {}
        self._of_streams: dict[tuple[str, int], tuple[StateFolder, list[str]]] = {}

    @cached_property
    def _planner(self) -> Planner:
        return Planner(self._engine)

    def is_of(self, spark: SparkSession) -> bool:
        """Return whether these are the answers for a session."""
        return self._spark is spark

    def open(self, options: Mapping[str, str]) -> dict[str, Any]:
        """Return the columns of the changes, as JSON of Spark, and the id of the table's newest snapshot or None.

        Raises:
            SettingsError: An option is wrong.
            NoTargetError: There is no such table.
        """
        changes = self._changes(changes_options(options))
        line = changes.history().line
        columns = [StructField(field.name, field.dataType) for field in no_changes(changes).schema]  # all may be null
        return {"schema": StructType(columns).jsonValue(), "head": line[-1].snapshot_id if line else None}

    def start(self, options: Mapping[str, str]) -> int | None:
        """Return the snapshot after which a stream begins; None: with all rows of the newest one.

        Raises:
            SettingsError: An option is wrong.
        """
        settings = changes_options(options)
        if settings.end_snapshot_id is not None:
            hint = "Omit end_snapshot_id; or read with spark.read, and not as a stream"
            raise SettingsError("A stream of changes has no end", step=_STEP, target=settings.table, hint=hint)
        return settings.start_snapshot_id

    def newest(self, options: Mapping[str, str], after: int | None) -> int | None:
        """Return the last snapshot of a stream's next batch; `after`, if there is nothing new.

        Raises:
            PositionLostError: The snapshot `after` has expired or was rolled back.
        """
        settings = changes_options(options)
        steps = self._steps(self._changes(settings), after, None)
        most = 1 if after is None else settings.max_snapshots or len(steps)
        return steps[:most][-1].snapshot.snapshot_id if steps else after

    def rows(
        self,
        options: Mapping[str, str],
        schema: Mapping[str, Any],
        head: int | None = None,
        query: str = "",
        after: int | None = None,
        until: int | None = None,
    ) -> dict[str, Any]:
        """Compute changes, and return where their rows are.

        Args:
            options: As the user wrote them.
            schema: The columns that Spark expects, as JSON.
            head: For a batch: the newest snapshot when the DataFrame was made; None: the table had none.
            query: For a stream: its id.
            after: For a stream: the last snapshot of the batch before; None: all rows of `until`.
            until: For a stream: the last snapshot.

        Raises:
            PositionLostError: A snapshot has expired or was rolled back.
            SettingsError: An option is wrong, or the columns are other ones now.
            SourceError: Spark cannot read the table, or the folder cannot be written.
        """
        settings = changes_options(options)
        changes = self._changes(settings)
        if query:
            steps = self._steps(changes, after, until)
        else:
            after, until = settings.start_snapshot_id, settings.end_snapshot_id or head
            check_ids(after, until)
            steps = changes.steps(after, until)
            steps = [] if head is None else steps  # written since
        self._check_columns(changes, schema)
        folder, storage = self._folder(settings)
        identity = [settings.table, settings.catalog, *changes.identity.key, query, after, until, schema, repr(steps)]
        day = datetime.now(UTC).date().isoformat()
        name = f"{day}-{self._program}-{hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]}"
        runs = _runs(name, steps)
        if query and until is not None:
            self._of_streams[query, until] = (folder, [frame for frame, _, _ in runs])
        self._engine.context.setJobDescription(f"changes of {settings.table}")
        frames = Frames(folder, storage)
        parts = [split.body for run in runs for split in _kept(frames, changes, *run)]
        return {"folder": folder.location, "storage": storage, "parts": parts}

    def forget(self, query: str, until: int | None = None) -> None:
        """Remove the rows of a batch of a stream, or of all of its batches."""
        for key in [key for key in list(self._of_streams) if key[0] == query and until in (None, key[1])]:
            folder, names = self._of_streams.pop(key)
            Frames(folder, {}).remove(names)

    def close(self) -> None:
        """Remove all rows, if their store answers."""
        for folder in self._folders.values():
            with suppress(CalveError, OSError):
                _remove(folder, lambda name: self._program in name)

    def _changes(self, settings: ChangesOptions) -> TableChanges:
        properties, name = in_catalog(self._engine, settings.table, settings.catalog)
        _, catalog = self._catalogs.get(properties)
        load = partial(catalog.load_java, name)
        return TableChanges(self._planner, name, load, key=settings.identifier_columns)

    def _steps(self, changes: TableChanges, after: int | None, until: int | None) -> list[SnapshotStep]:
        """Return the steps of a stream; it begins with all rows of a snapshot, whose history may be long."""
        try:
            steps = changes.steps(after, until)
        except (PositionLostError, NoTargetError) as error:
            if isinstance(error, NoTargetError) and until is None:
                raise  # there is no such table
            raise PositionLostError(error.message, step=_STEP, target=error.target, hint=_NEW_CHECKPOINT) from error
        return [replace(steps[-1], is_full=True, base=None)] if after is None and steps else steps

    def _check_columns(self, changes: TableChanges, schema: Mapping[str, Any]) -> None:
        expected = StructType.fromJson(dict(schema))
        columns = no_changes(changes).schema
        if columns.simpleString() != expected.simpleString():
            hint = "Call load() again; a stream goes on with the new columns when it is loaded and started again"
            message = f"The columns of {changes.identifier} have changed since load()"
            raise SettingsError(message, step=_STEP, target=changes.identifier, hint=hint)

    def _folder(self, settings: ChangesOptions) -> tuple[StateFolder, dict[str, str]]:
        """Return the folder of rows, and how executors reach it; its first use removes rows of killed programs."""
        if settings.folder is None and not is_local(self._engine.context.master):
            hint = 'Add .option("folder", "s3://bucket/prefix"), which the driver and all executors reach'
            raise SettingsError("calve_changes has no folder for rows", step=_STEP, target=settings.table, hint=hint)
        folder = state_folder_at(settings.folder or self._scratch).absolute()
        if folder.location not in self._folders:
            oldest = (datetime.now(UTC) - _KEPT).date().isoformat()
            _remove(folder, lambda name: name < oldest)
            self._folders[folder.location] = folder
        return folder, file_io_at(folder.location)


def _runs(name: str, steps: Sequence[SnapshotStep]) -> list[tuple[str, int, Sequence[SnapshotStep]]]:
    """Return the names of frames, and for each the number of its first step and its steps: not too many for a plan."""
    steps = [step for step in steps if step.changes_rows]
    firsts = range(0, len(steps), _SNAPSHOTS_AT_ONCE)
    return [(f"{name}-{first}", first, steps[first : first + _SNAPSHOTS_AT_ONCE]) for first in firsts]


def _kept(
    frames: Frames, changes: TableChanges, name: str, first: int, steps: Sequence[SnapshotStep], *, again: bool = True
) -> list[Split]:
    """Compute the changes of steps, unless they are kept; Iceberg's reader reads what Spark's cannot."""
    try:
        with reading(changes.identifier), frame_of(changes, steps, first) as frame:
            return frames.write(name, frame, is_for_events=False)
    except UnreadFileError:
        if not (again and changes.read_by_iceberg()):
            raise
        return _kept(frames, changes, name, first, steps, again=False)


def _remove(folder: StateFolder, is_meant: Callable[[str], bool]) -> None:
    Frames(folder, {}).remove([name for name in folder.folders() if _FRAME.fullmatch(name) and is_meant(name)])
