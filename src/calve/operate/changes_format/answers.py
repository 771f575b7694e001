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
from calve.errors import CalveError, SettingsError
from calve.operate.changes_format.options import ChangesOptions, changes_options
from calve.operate.changes_format.steps import batch_steps, check_stream, end_of_batch, stream_steps
from calve.operate.changes_frame import frame_of, no_changes
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
        """Return what a DataFrame keeps, as JSON.

        These are the columns of the changes, the ids of the table's newest and oldest snapshot or None, and the options
        with the table's catalog: the session's current one may be another one later.

        Raises:
            SettingsError: An option is wrong.
            NoTargetError: There is no such table.
        """
        settings = changes_options(options)
        properties, name = in_catalog(self._engine, settings.table, settings.catalog)
        changes = self._changes(settings)
        line = changes.history().line
        head, oldest = (line[-1].snapshot_id, line[0].snapshot_id) if line else (None, None)
        columns = [StructField(field.name, field.dataType) for field in no_changes(changes).schema]  # all may be null
        whole = {**options, "table": name, "catalog": properties["name"]}
        return {"schema": StructType(columns).jsonValue(), "head": head, "oldest": oldest, "options": whole}

    def start(self, options: Mapping[str, str]) -> int | None:
        """Return the snapshot after which a stream begins; None: with all rows of the newest one.

        Raises:
            SettingsError: An option is wrong.
        """
        settings = changes_options(options)
        check_stream(settings)
        return settings.start_snapshot_id

    def newest(self, options: Mapping[str, str], after: int | None) -> int | None:
        """Return the last snapshot of a stream's next batch; `after`, if there is nothing new.

        Raises:
            PositionLostError: The snapshot `after` has expired or was rolled back.
            SettingsError: An option is wrong.
        """
        settings = changes_options(options)
        check_stream(settings)
        return end_of_batch(stream_steps(self._changes(settings), after, None), after, settings.max_snapshots)

    def rows(
        self,
        options: Mapping[str, str],
        schema: Mapping[str, Any],
        after: int | None,
        until: int | None,
        query: str = "",
    ) -> dict[str, Any]:
        """Compute changes, and return where their rows are.

        Args:
            options: As the user wrote them.
            schema: The columns that Spark expects, as JSON.
            after: The last snapshot of the batch before, or None. Without `query` the oldest one at `load()`.
            until: The last snapshot. Without `query` the newest one at `load()`; None: the table had none.
            query: The id of a stream.

        Raises:
            PositionLostError: A snapshot has expired or was rolled back.
            SettingsError: An option is wrong, or the columns are other ones now.
            SourceError: Spark cannot read the table, or the folder cannot be written.
        """
        settings = changes_options(options)
        changes = self._changes(settings)
        steps = stream_steps(changes, after, until) if query else batch_steps(changes, settings, until, after)
        self._check_columns(changes, schema)
        folder, storage = self._folder(settings)
        columns = changes.schema_json()  # a column that was dropped and added again has another id in it
        identity = [settings.table, settings.catalog, *changes.identity.key, query, after, until, columns, repr(steps)]
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
