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
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from calve.credentials import in_short
from calve.engine import session
from calve.engine.engine import Engine
from calve.engine.jvm.master import MASTER, check_master
from calve.engine.jvm.process import JvmProcess
from calve.errors import CalveError, EngineError, InvariantError, NothingFoundError
from calve.observe.descriptors import raise_limit
from calve.observe.log import Log
from calve.observe.watch import Watch
from calve.pipeline.plugins import local_log
from calve.pipeline.preflight import check_sources, problems
from calve.pipeline.spark_needs import needs_s3, spark_conf
from calve.pipeline.task_modules import task_modules
from calve.settings import PipelineSettings
from calve.state.folder import StateFolder
from calve.state.location import state_folder_at

if TYPE_CHECKING:
    from calve.catalog.catalog import Catalog

__all__ = ["NOTHING_FOUND", "Catalogs", "RunOptions", "catalog_key", "run", "state_folder"]

NOTHING_FOUND = 3
"""The exit code of a run with `once` that found no file to read."""


@dataclass(frozen=True)
class RunOptions:
    """The options of the command line, beside the configuration."""

    state: str = "./calve-state"
    master: str | None = None
    conf: dict[str, str] = field(default_factory=dict)
    once: bool = False
    give_up_after: timedelta = timedelta(minutes=2)
    standby: bool = False
    allow_empty: bool = False


class Catalogs:
    """The catalogs of all pipelines; sinks with equal properties share one."""

    def __init__(self, spark: Engine) -> None:
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


def state_folder(options: RunOptions) -> StateFolder:
    """Return the state folder, local or on an object store.

    Raises:
        SettingsError: It is on a store that cannot keep a state.
    """
    return state_folder_at(options.state)


def run(
    pipelines: Sequence[PipelineSettings], options: RunOptions, watch: Watch, early: JvmProcess | None = None
) -> int:
    """Run pipelines until all have ended, by themselves or because `watch.stop` was set.

    Args:
        pipelines: As parsed.
        options: Of the command line.
        watch: Gets the status of each.
        early: The JVM, if it is started for them already; the caller ends it, too.

    Returns:
        0, or 1 if a pipeline failed, or 3 if the only failures are of pipelines that found no file to read. The others
        continue after a failure, but none starts if one cannot start.

    Raises:
        CalveError: Nothing could start.
    """
    raise_limit()
    check_master(options.master or MASTER)
    state = state_folder(options).absolute()
    check_sources(pipelines, state, options.standby)
    watch.expect(pipeline.name for pipeline in pipelines)
    faults = list(problems(pipelines, state, options.once, options.standby))
    for name, error in faults:
        watch.failed(name, str(error))
        Log(name).error(error)
    if faults:
        return 1
    _log_locations(pipelines, state)
    spark = session.start(
        options.master,
        spark_conf(pipelines, options.conf),
        needs_s3(pipelines),
        task_modules(pipelines),
        partial(_import_rest, pipelines),
        early,
    )
    try:
        return _run_all(spark, pipelines, options, watch)
    finally:
        session.stop(spark)


def _run_all(spark: Engine, pipelines: Sequence[PipelineSettings], options: RunOptions, watch: Watch) -> int:
    """Run each pipeline on a thread of its own; return the exit code when all have ended."""
    catalogs = Catalogs(spark)
    failed: list[Exception] = []
    threads = [
        threading.Thread(target=_run_one, args=(spark, settings, options, watch, catalogs, failed), name=settings.name)
        for settings in pipelines
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _code(failed)


def _code(failed: Sequence[Exception]) -> int:
    """Return the exit code of a run."""
    if failed and all(isinstance(error, NothingFoundError) for error in failed):
        return NOTHING_FOUND
    return 1 if failed else 0


def _import_rest(pipelines: Sequence[PipelineSettings]) -> None:
    """Import the modules of pipelines; the pipeline that needs a module raises its error again."""
    sinks = {f"calve.sinks.{sink.name}.sink" for pipeline in pipelines for sink in pipeline.sinks}
    sources = {f"calve.sources.{pipeline.source.name}.source" for pipeline in pipelines}
    for name in ("calve.pipeline.driver", *sorted(sources | sinks)):
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def _log_locations(pipelines: Sequence[PipelineSettings], state: StateFolder) -> None:
    """Log the state folder and the locations of tables before the first wait."""
    Log().info(f"state is kept in {state}")
    for pipeline in pipelines:
        if state.is_shared and (log := local_log(pipeline)):
            Log(pipeline.name).warning(
                f"accepted events are kept in {log} on this machine until they are committed, not in {state}",
                hint="Keep this folder on a durable disk; another machine cannot continue without it",
            )
    for pipeline in pipelines:
        for location in dict.fromkeys(sink.value.shown_location for sink in pipeline.sinks if sink.value.has_tables):
            Log(pipeline.name).info(f"tables are in {location}")


def _run_one(
    spark: Engine,
    settings: PipelineSettings,
    options: RunOptions,
    watch: Watch,
    catalogs: Catalogs,
    failed: list[Exception],
) -> None:
    log = Log(settings.name)
    folder = state_folder(options) / settings.name
    try:
        from calve.pipeline.driver import Driver, RunMode
        from calve.pipeline.pipeline_parts import PipelineParts

        mode = RunMode(options.once, options.give_up_after.total_seconds(), options.standby, options.allow_empty)
        Driver(spark, PipelineParts(settings, folder, catalogs.get), folder, mode, watch).run()
    except CalveError as error:
        failed.append(error)
        watch.failed(settings.name, str(error))
        log.error(error)
    except Exception as error:
        failed.append(error)
        watch.failed(settings.name, str(error))
        unforeseen = _unforeseen(spark, settings.name, error)
        unforeseen.__cause__ = error
        log.error(unforeseen)


def _unforeseen(spark: Engine, pipeline: str, error: Exception) -> CalveError:
    """Return the error for an exception that nobody foresaw: a bug, unless Spark was stopped under the pipeline."""
    if spark.has_stopped:
        return EngineError(
            "Spark has stopped while the pipeline ran",
            step="engine",
            target=pipeline,
            hint="Perhaps the cluster ended it, because executors could not start: look at their logs, and "
            "at the master's. Nothing is lost; start Calve again",
        )
    return InvariantError(
        f"The pipeline failed: {in_short(error)}",
        step="pipeline",
        target=pipeline,
        hint="This is a bug in Calve; run with --debug and report it",
    )
