"""Runs the pipelines of a configuration in one process, each on a thread of its own.

Modules that only a pipeline needs are imported after its settings are checked.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import SparkSession

from calve.catalog import storage
from calve.engine import session
from calve.engine.master import check_master
from calve.errors import CalveError, InvariantError, SettingsError
from calve.observe.log import Log
from calve.observe.watch import Watch
from calve.pipeline.plugins import reads_tables
from calve.pipeline.preflight import problems
from calve.settings import PipelineSettings

if TYPE_CHECKING:
    from calve.catalog.catalog import Catalog

__all__ = ["Catalogs", "RunOptions", "catalog_key", "needs_s3", "run", "state_folder"]


@dataclass(frozen=True)
class RunOptions:
    """The options of the command line, beside the configuration."""

    state: str = "./calve-state"
    master: str | None = None
    conf: dict[str, str] = field(default_factory=dict)
    once: bool = False
    give_up_after: timedelta = timedelta(minutes=2)


class Catalogs:
    """The catalogs of all pipelines; sinks with equal properties share one."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._lock = threading.Lock()
        self._catalogs: dict[str, Catalog] = {}

    def get(self, properties: Mapping[str, str]) -> tuple[str, Catalog]:
        """Return the catalog with these properties, and its key, which is the same in every run."""
        from calve.catalog.catalog import Catalog

        key = catalog_key(properties)
        whole = msgspec.json.encode(dict(sorted(properties.items()))).decode()
        with self._lock:
            if whole not in self._catalogs:
                self._catalogs[whole] = Catalog(self._spark, properties)
            return key, self._catalogs[whole]


def catalog_key(properties: Mapping[str, str]) -> str:
    """Return a key from the location of a catalog: with changed credentials staged batches still find it."""
    where = [properties.get(key, "") for key in ("name", "type", "catalog-impl", "uri", "warehouse")]
    return f"{properties.get('name', 'iceberg') if properties else 'lakehouse'}-{zlib.crc32(repr(where).encode()):08x}"


def needs_s3(pipelines: Sequence[PipelineSettings]) -> bool:
    """Return whether a sink or a source table is on S3, which needs Iceberg's AWS bundle."""
    read = [catalog for one in pipelines if reads_tables(one) for catalog in one.source.value.catalogs]
    written = [sink.value.places for one in pipelines for sink in one.sinks]
    return any(storage.needs_s3(properties) for properties in read + written)


def state_folder(options: RunOptions) -> Path:
    """Return the state folder.

    Raises:
        SettingsError: It is not local.
    """
    if "://" in options.state and not options.state.startswith("file://"):
        raise SettingsError(
            f"The state folder {options.state} is not local, but this version keeps state only in local folders",
            step="start",
            target=options.state,
            hint="Set --state to a local path",
        )
    return Path(options.state.removeprefix("file://"))


def run(pipelines: Sequence[PipelineSettings], options: RunOptions, watch: Watch) -> int:
    """Run pipelines until all have ended, by themselves or because `watch.stop` was set.

    Returns:
        0, or 1 if a pipeline failed. The others continue after a failure, but none starts if one cannot start.

    Raises:
        CalveError: Nothing could start.
    """
    check_master(options.master or session.MASTER)
    state = state_folder(options).absolute()
    watch.expect(one.name for one in pipelines)
    found = list(problems(pipelines, state, options.once))
    for name, error in found:
        watch.failed(name, str(error))
        Log(name).error(error)
    if found:
        return 1
    _log_locations(pipelines, state)
    _import_rest(pipelines)
    preload = (*session.PRELOADED, "calve.task.task", *({"duckdb"} if any(map(_evaluates, pipelines)) else ()))
    reading = session.READING if any(map(reads_tables, pipelines)) else {}
    spark = session.start(options.master, reading | options.conf, needs_s3(pipelines), preload)
    try:
        catalogs = Catalogs(spark)
        failed: list[str] = []
        threads = [
            threading.Thread(target=_run_one, args=(spark, one, options, watch, catalogs, failed), name=one.name)
            for one in pipelines
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return 1 if failed else 0
    finally:
        session.stop(spark)


def _import_rest(pipelines: Sequence[PipelineSettings]) -> None:
    """Import the modules of pipelines; the pipeline that needs a module raises its error again.

    Never while Spark starts: it forks, and sets environment variables, which C libraries read at import (decision 21).
    """
    sinks = {f"calve.sinks.{sink.name}.sink" for one in pipelines for sink in one.sinks}
    sources = {f"calve.sources.{one.source.name}.source" for one in pipelines}
    for name in ("calve.pipeline.driver", *sorted(sources | sinks)):
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def _evaluates(pipeline: PipelineSettings) -> bool:
    """Return whether tasks evaluate SQL: for routes, names of tables, changes of rows or documents."""
    return bool(pipeline.routes) or not all(sink.value.appends for sink in pipeline.sinks)


def _log_locations(pipelines: Sequence[PipelineSettings], state: Path) -> None:
    """Log the state folder and the locations of tables before the first wait."""
    Log().info(f"state is kept in {state}")
    for one in pipelines:
        for location in dict.fromkeys(sink.value.shown_place for sink in one.sinks if sink.value.has_tables):
            Log(one.name).info(f"tables are in {location}")


def _run_one(
    spark: SparkSession,
    settings: PipelineSettings,
    options: RunOptions,
    watch: Watch,
    catalogs: Catalogs,
    failed: list[str],
) -> None:
    log = Log(settings.name)
    folder = state_folder(options) / settings.name
    try:
        from calve.pipeline.driver import Driver, RunMode
        from calve.pipeline.wiring import Wiring

        mode = RunMode(options.once, options.give_up_after.total_seconds())
        Driver(spark, Wiring(settings, folder, catalogs.get), folder, mode, watch).run()
    except CalveError as error:
        failed.append(settings.name)
        watch.failed(settings.name, str(error))
        log.error(error)
    except Exception as error:
        failed.append(settings.name)
        watch.failed(settings.name, str(error))
        bug = InvariantError(
            f"The pipeline failed: {type(error).__name__}: {str(error)[:300]}",
            step="pipeline",
            target=settings.name,
            hint="This is a bug in Calve; run with --debug and report it",
        )
        bug.__cause__ = error
        log.error(bug)
