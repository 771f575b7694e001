"""Runs a pipeline over one DataFrame of a user's Spark job, on their session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from calve.catalog.session_catalogs import split_name
from calve.engine.adopt import adopt
from calve.engine.engine import Engine
from calve.engine.java.errors import java_errors
from calve.errors import RunError, SettingsError
from calve.event.column_names import folded
from calve.observe.descriptors import raise_limit
from calve.observe.humanize import listed
from calve.observe.notices import Notices
from calve.observe.report import PipelineReport
from calve.observe.watch import Watch
from calve.operate.quick import pipeline_name
from calve.pipeline.driver import Driver, RunMode
from calve.pipeline.pipeline_parts import PipelineParts
from calve.pipeline.run import Catalogs, RunOptions, state_folder
from calve.settings import PipelineSettings
from calve.settings.catalog import SPARK
from calve.sources.spark.source import FrameBatch, SparkSource

__all__ = ["FrameRunner", "check_frame", "check_key", "frame_pipeline", "in_catalog"]

_GIVE_UP = timedelta(minutes=2)


class FrameRunner:
    """Runs batches of DataFrames on a session, which keeps the catalogs open between them.

    Args:
        spark: The user's session.

    Raises:
        EngineError: Calve cannot run on it.
    """

    def __init__(self, spark: Any) -> None:
        self.engine = adopt(spark)
        self._catalogs = Catalogs(self.engine)
        self._notices: dict[str, Notices] = {}

    def run(self, settings: PipelineSettings, batch: FrameBatch, state: str) -> PipelineReport:
        """Write a batch through a pipeline, and commit it, unless it is in the tables already.

        Raises:
            CalveError: It is not committed; the next run of the pipeline finishes what this one began.
        """
        raise_limit()
        folder = state_folder(RunOptions(state)).absolute() / settings.name
        parts = PipelineParts(settings, folder, self._catalogs.get)
        source = parts.source
        assert isinstance(source, SparkSource)
        source.offer(batch)
        mode = RunMode(once=True, give_up_seconds=_GIVE_UP.total_seconds())
        show_rejects = f"calve dlq show --state {state}"
        notices = self._notices.setdefault(settings.name, Notices(settings.name, show_rejects))
        with Watch(show_rejects, notices) as watch:
            # jobs of the pipeline's own thread leave alone the group in which Spark cancels those of the caller
            with ThreadPoolExecutor(1, settings.name) as thread:
                ended = thread.submit(Driver(self.engine, parts, folder, mode, watch).run)
                try:
                    ended.result()
                except KeyboardInterrupt:
                    watch.stop.set()
                    raise
            (report,) = watch.reports()
        if not source.is_committed:
            message = f"The pipeline {settings.name} has ended without the batch"
            hint = f"Perhaps it is paused: calve resume --pipeline {settings.name} --state {state}"
            raise RunError(message, step="run", target=settings.name, hint=hint, reports={settings.name: report})
        return report


def check_frame(frame: Any, is_stream: bool = False) -> None:
    """Check that an argument is a DataFrame with an end.

    Raises:
        SettingsError: It is something else, or a stream.
        EngineError: Its JVM has ended.
    """
    with java_errors("write", "df"):
        is_frame = hasattr(frame, "sparkSession") and hasattr(frame, "isStreaming")
        is_endless = is_frame and frame.isStreaming
    if not is_frame:
        hint = "calve.write_rows takes lists, pandas, polars, Arrow and DuckDB"
        message = f"{type(frame).__name__} is not a DataFrame of Spark"
        raise SettingsError(message, step="write", target="df", hint="" if is_stream else hint)
    if is_endless:
        hint = "Use df.writeStream.foreachBatch(calve.spark.sink(…))"
        raise SettingsError("The DataFrame is a stream, which has no end", step="write", target="df", hint=hint)


def check_key(columns: Sequence[str], identifiers: Sequence[str], case_insensitive: bool = False) -> None:
    """Check that a DataFrame has the columns that identify a row, or the structs that contain them.

    Raises:
        SettingsError: It lacks one; all of its rows would be rejected.
    """
    fold = folded if case_insensitive else str
    names = {fold(name) for name in columns}
    for identifier in identifiers:
        if names.isdisjoint((fold(identifier), fold(identifier.partition(".")[0]))):
            twins = [name for name in columns if folded(name) == folded(identifier)]
            hint = f"It has {twins[0]}; or set case_insensitive=True" if twins else f"It has: {listed(columns, 20)}"
            message = f"The DataFrame has no column {identifier}"
            raise SettingsError(message, step="write", target="identifier_columns", hint=hint)


def in_catalog(spark: Engine, table: str, catalog: str | Mapping[str, str] | None) -> tuple[dict[str, str], str]:
    """Return the properties of a table's catalog, and the table's name in it.

    Args:
        spark: With the user's session.
        table: `namespace.table`, with the catalog's name before it or without.
        catalog: The name of one of the session's catalogs, or the properties of a catalog; none of these: Calve's
            embedded one; None: the one in the table's name, otherwise the session's current one.

    Raises:
        SettingsError: It is no name of a table.
    """
    if not isinstance(table, str) or "." not in table.strip("."):
        hint = "Write namespace.table, or catalog.namespace.table"
        raise SettingsError(f"{table!r} is not the name of a table", step="settings", target="table", hint=hint)
    if catalog is None:
        catalog, table = split_name(spark, table)
        catalog = catalog or spark.current_catalog
    return {"type": SPARK, "name": catalog} if isinstance(catalog, str) else dict(catalog), table


def frame_pipeline(properties: Mapping[str, str], table: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration that writes DataFrames into a table, and loses no value by default.

    Args:
        properties: Of the catalog; none: Calve's embedded one.
        table: Its name in the catalog.
        options: More options of the Iceberg sink.
    """
    name = pipeline_name("spark", f"{properties.get('name', 'lakehouse')}.{table}")
    sink = {"table_identifier": table, "auto_create": True, "schema_evolution": True, "on_type_mismatch": "dlq"}
    sink |= options
    sink |= {"catalog": dict(properties)} if properties else {}
    return {name: {"source": {"spark": {}}, "sink": [{"iceberg": sink}]}}
