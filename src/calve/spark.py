"""Calve in a Spark job of your own: `import calve.spark`. docs/spark.md explains it.

The functions use your session and its catalogs; no other JVM starts. Names and arguments are stable.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calve.catalog.catalog import Catalog
from calve.changes.plan import Planner
from calve.changes.table_changes import TableChanges
from calve.engine.adopt import adopt
from calve.errors import CalveError, SettingsError
from calve.operate.changes_format.driver import register as register_changes
from calve.operate.changes_frame import changes_frame
from calve.operate.configuration import Config, parsed
from calve.operate.frames import FrameRunner, check_frame, check_key, frame_pipeline, in_catalog
from calve.pipeline.plugins import source_kind
from calve.settings import PipelineSettings, only
from calve.sources.spark.source import FrameBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["changes", "register", "sink", "write"]

_QUERY_ID = "sql.streaming.queryId"
"""The local property of a stream's jobs; the id comes from the stream's checkpoint."""
_RUN_ID = "spark.jobGroup.id"
"""The local property that is another one after each start of a stream."""
_last_batches: dict[tuple[str, str], tuple[str, int]] = {}
"""The run and the number of the last batch of a stream, by state and pipeline."""


def write(
    df: DataFrame,
    table: str,
    *,
    identifier_columns: Sequence[str] = (),
    catalog: str | Mapping[str, str] | None = None,
    batch_id: str | None = None,
    state: str | Path = "./calve-state",
    **options: Any,
) -> int:
    """Write a DataFrame into a table as one batch, and create or evolve the table; return how many rows are committed.

    All of its rows appear in one commit, or none. Call it again after a failure, with the same `batch_id`: what is
    committed is not written again, whatever `df` has then.

    Args:
        df: The rows; it is computed once.
        table: `namespace.table`, or with the name of a catalog of the session before it.
        identifier_columns: The columns that identify a row.
        catalog: The name of a catalog of the session, or Iceberg's properties of one. None: the one in `table`,
            otherwise the session's current catalog.
        batch_id: The identity of these rows in this table and state; None: they are new.
        state: The state folder: on an object store, unless Spark runs on this machine alone.
        options: Other options of the Iceberg sink, e.g. `upsert=True` or `partition_by=["day(at)"]`.

    Raises:
        SettingsError: An argument is wrong.
        CalveError: It failed; or some rows were rejected, and the others are in the table: `calve dlq show`.
    """
    check_frame(df)
    runner = FrameRunner(df.sparkSession)
    if identifier_columns:
        options["identifier_columns"] = _names(identifier_columns)
        check_key(df.columns, options["identifier_columns"], options.get("case_insensitive") is True)
    config = frame_pipeline(*in_catalog(runner.engine, table, catalog), options)
    (settings,) = parsed(config).pipelines
    batch = FrameBatch(df, {"batch": uuid.uuid4().hex if batch_id is None else str(batch_id)}, batch_id is not None)
    try:
        report = runner.run(settings, batch, str(state))
    except CalveError as error:
        if batch_id is None and not isinstance(error, SettingsError):
            again = f"Call it again with batch_id={batch.position['batch']!r}: these rows then come once"
            error.hint = f"{error.hint}. {again}" if error.hint else again
        raise
    if report.run.rejects:
        hint = f"calve dlq show --state {state} has the reasons"
        counts = ", ".join(f"{code} {count:,}" for code, count in report.run.rejects.items())
        message = f"Rows of {table} were rejected: {counts}"
        raise CalveError(message, step="write", target=table, hint=hint)
    return sum(report.run.rows.values())


def sink(
    config: Config, *, pipeline: str | None = None, state: str | Path = "./calve-state"
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes each batch of a stream through a pipeline, exactly once.

    A batch that Spark repeats after a crash is committed once: the pipeline's state and the snapshots have the number
    of the batch, and the id of the stream, which its checkpoint keeps. Rejected rows go to the dead letters.

    Args:
        config: The path of a YAML file or folder, YAML text, or a mapping; the pipeline's source is `spark: {}`.
        pipeline: The name of the pipeline, if there are several. Each stream needs one of its own.
        state: The state folder: on an object store, unless Spark runs on this machine alone.

    Raises:
        SettingsError: The configuration is wrong.
    """
    return _StreamSink(only(parsed(config).pipelines, pipeline), str(state))


@contextmanager
def changes(
    spark: SparkSession,
    table: str,
    *,
    start_snapshot_id: int | None = None,
    end_snapshot_id: int | None = None,
    identifier_columns: Sequence[str] = (),
    catalog: str | Mapping[str, str] | None = None,
) -> Iterator[DataFrame]:
    """Return the row changes of a table as a DataFrame of the session, which can be read only inside the block.

    Columns: the table's; `_change_type` (INSERT, DELETE, UPDATE_BEFORE, UPDATE_AFTER); `_change_ordinal`, which numbers
    the snapshots from 0; `_commit_snapshot_id`; and `_row_id` if it identifies the rows.

    Args:
        spark: The session.
        table: As for `write`.
        start_snapshot_id: The changes begin after this snapshot. None: with all rows of the oldest retained one.
        end_snapshot_id: The last snapshot; None: the newest.
        identifier_columns: The columns that identify a row, to pair the rows of an update. None: the table's identifier
            fields, otherwise the row ids of format version 3; a table without these has DELETE and INSERT.
        catalog: As for `write`.

    Raises:
        SettingsError: An argument is wrong.
        NoTargetError: There is no such table or end.
        PositionLostError: The start has expired or was rolled back.
    """
    engine = adopt(spark)
    properties, name = in_catalog(engine, table, catalog)
    load = partial(Catalog(engine, properties).load_java, name)
    table_changes = TableChanges(Planner(engine), name, load, key=tuple(_names(identifier_columns)))
    with changes_frame(engine, table_changes, start_snapshot_id, end_snapshot_id) as frame:
        yield frame


def register(spark: SparkSession) -> None:
    """Let a session read the row changes of tables: `spark.read.format("calve_changes")`, and `spark.readStream`.

    Planners of Spark ask this program for the changes, so it must run as long as they are read. May be repeated.

    Args:
        spark: The session; another one of the same program needs a call of its own.

    Raises:
        EngineError: Calve cannot run on the session.
    """
    register_changes(spark)


class _StreamSink:
    def __init__(self, settings: PipelineSettings, state: str) -> None:
        if source_kind(settings) != "spark":
            message = f"The pipeline {settings.name} reads from {settings.source.name}, and not from a Spark job"
            hint = "Set its source to `spark: {}`; or run it with calve run"
            raise SettingsError(message, step="settings", target=settings.name, hint=hint)
        self._settings, self._state = settings, state
        self._runner: FrameRunner | None = None

    def __call__(self, frame: DataFrame, epoch: int) -> None:
        """Write one batch of the stream.

        Raises:
            CalveError: It is not committed; the stream ends, and its next start repeats the batch.
        """
        check_frame(frame, is_stream=True)
        context = frame.sparkSession.sparkContext
        query = context.getLocalProperty(_QUERY_ID)
        if not query:
            message = "calve.spark.sink was called outside of a stream"
            hint = "Give it to foreachBatch; calve.spark.write writes a DataFrame"
            raise SettingsError(message, step="write", target=self._settings.name, hint=hint)
        place, batch = (self._state, self._settings.name), (context.getLocalProperty(_RUN_ID), epoch)
        if batch[0] and _last_batches.get(place) == batch:
            message = f"calve.spark.sink was called twice for batch {epoch}: the second DataFrame would not be written"
            hint = "Call it once, and let routes of the pipeline divide the rows; or use a pipeline for each DataFrame"
            raise SettingsError(message, step="write", target=self._settings.name, hint=hint)
        if self._runner is None or self._runner.engine.context is not context:
            self._runner = FrameRunner(frame.sparkSession)
        self._runner.run(self._settings, FrameBatch(frame, {"query": query, "epoch": epoch}), self._state)
        _last_batches[place] = batch


def _names(columns: Sequence[str]) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns)
