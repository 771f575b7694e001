"""Calve in a Spark job of your own: `import calve.spark`. docs/spark.md explains it.

The functions use your session and its catalogs; no other JVM starts. Names and arguments are stable.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calve.errors import CalveError, SettingsError
from calve.observe.log import Log
from calve.observe.report import PipelineReport
from calve.operate.configuration import Config, parsed
from calve.operate.frames import FrameRunner, check_frame, frame_pipeline
from calve.pipeline.plugins import source_kind
from calve.settings import PipelineSettings, only
from calve.sources.spark.source import FrameBatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["sink", "write"]

_QUERY_ID = "sql.streaming.queryId"
"""The local property of a stream's jobs; the id comes from the stream's checkpoint."""


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
    _check_name(table)
    runner = FrameRunner(df.sparkSession)
    if identifier_columns:
        keys = [identifier_columns] if isinstance(identifier_columns, str) else list(identifier_columns)
        options["identifier_columns"] = keys
    config = frame_pipeline(runner.engine, table, catalog if isinstance(catalog, str | None) else {**catalog}, options)
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
        message = f"Rows of {table} were rejected: {_counts(report)}"
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
        if self._runner is None or self._runner.engine.context is not context:
            self._runner = FrameRunner(frame.sparkSession)
        report = self._runner.run(self._settings, FrameBatch(frame, {"query": query, "epoch": epoch}), self._state)
        if report.run.rejects:
            Log(self._settings.name).warning(f"batch {epoch} of the stream: rows were rejected: {_counts(report)}")


def _counts(report: PipelineReport) -> str:
    return ", ".join(f"{code} {count:,}" for code, count in report.run.rejects.items())


def _check_name(table: object) -> None:
    if not isinstance(table, str) or "." not in table.strip("."):
        hint = "Write namespace.table, or catalog.namespace.table"
        raise SettingsError(f"{table!r} is not the name of a table", step="write", target="table", hint=hint)
