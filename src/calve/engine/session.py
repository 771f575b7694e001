"""Starts and ends the Spark session: one quiet JVM, which ends with this process and not before it.

This relies on two facts: PySpark's JVM exits when its stdin closes, which the operating system does even after
`kill -9`; and the Python workers exit when the JVM closes theirs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from calve.engine import archive, pyspark_private
from calve.engine.early import Early, EarlyJvm, start_jvm
from calve.engine.forks import PRELOADED, PYTHON, Forks, cores_and_tries, environment_of, master_of
from calve.engine.forks import start as start_forks
from calve.engine.jvm import innermost_message
from calve.engine.jvm_plan import JvmPlan
from calve.engine.master import check_master
from calve.engine.output import JvmOutput
from calve.engine.tasks import ClusterTasks, LocalTasks, Tasks
from calve.engine.workers import Workers
from calve.errors import EngineError

__all__ = ["start", "stop"]

_running: SparkSession | None = None
"""The session of this process."""
_aside: Any = None
"""py4j's gateway to the JVM of a session that was stopped before; it is put back at the end."""


def start(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    needs_s3: bool = False,
    preload: Sequence[str] = PRELOADED,
    meanwhile: Callable[[], None] = lambda: None,
    early: Early | None = None,
) -> SparkSession:
    """Start Spark, or return the session of this process.

    Args:
        master: Spark's master URL; None: `local[*]`.
        conf: Spark's settings; they override Calve's.
        needs_s3: Whether a table or a catalog lives on S3.
        preload: Modules that Python workers import before their first task.
        meanwhile: Called while the JVM starts.
        early: What `early.start` gave for these settings and modules, if somebody has called it already.

    Raises:
        EngineError: Java, a jar or Spark itself is missing or does not start, or another session runs.
    """
    global _running
    if _running is not None and not pyspark_private.has_stopped(_running):
        return _running
    _make_way()
    logging.getLogger().addHandler(logging.NullHandler())  # py4j logs to the root, on stderr when it has no handler
    master = master_of(master, conf or {})
    check_master(master)
    jvm = early and early.jvm
    plan = jvm.plan if jvm else JvmPlan.of(master, conf or {}, needs_s3)
    settings = plan.settings
    forks = early.forks if early else start_forks(master, settings, preload)
    made = SparkConf(loadDefaults=False).setAll(list((settings | {"spark.master": master}).items()))
    try:
        with _environment(plan), _keep_interrupts():
            gateway = _start_jvm(made, meanwhile, jvm or (start_jvm(plan) if forks else None))
        workers = settings.get(PYTHON), environment_of(settings, preload)
        spark = pyspark_private.LazySession(gateway, partial(_start_context, made, gateway, workers), made)
        spark.tasks = _tasks(spark, master, forks, bool(preload))
        if archive.is_being_made():
            _keep_command(spark, settings)
    except BaseException:
        if forks is not None:
            forks.close()
        pyspark_private.put_gateway(_aside)
        raise
    _running = spark
    return spark


def _make_way() -> None:
    """Set aside what earlier sessions of this process have left.

    Raises:
        EngineError: Somebody else's session runs.
    """
    global _aside
    if _running is not None:
        stop(_running)
    if pyspark_private.has_context():
        hint = "Stop it first: spark.stop()"
        raise EngineError("Another Spark session of this process runs", step="engine", hint=hint)
    _aside = pyspark_private.take_gateway()


def stop(spark: SparkSession) -> None:
    """End the session and its JVM, even if it no longer answers. May be called twice."""
    global _running
    if _running is None or spark is not _running:
        return
    gateway = pyspark_private.take_gateway()
    spark.tasks.close()
    with contextlib.suppress(Py4JError, OSError), warnings.catch_warnings():  # the JVM may have ended
        warnings.simplefilter("ignore", RuntimeWarning)
        if (context := spark.context) is not None:
            pyspark_private.stop_accumulators(context)
            context.stop()
        gateway.shutdown()
    pyspark_private.forget_sessions()
    pyspark_private.put_gateway(_aside)
    _running = None
    process: subprocess.Popen[bytes] = gateway.proc
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(archive.stop_seconds())
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tasks(spark: pyspark_private.LazySession, master: str, forks: Forks | None, preloads: bool) -> Tasks:
    """Return where tasks run; Spark's context is made at once only for a cluster."""
    if forks is not None:
        cores, tries = cores_and_tries(master)
        available = (
            pyspark_private.jvm_of(spark).java.lang.Runtime.getRuntime().availableProcessors()
        )  # as containers allow
        return LocalTasks(Workers(forks, available if cores == "*" else int(cores), int(tries)))
    if preloads:
        threading.Thread(target=_warm, args=(spark.sparkContext,), name="warm", daemon=True).start()
    return ClusterTasks(spark.sparkContext)


def _start_context(conf: SparkConf, gateway: Any, workers: tuple[str | None, dict[str, str]]) -> SparkContext:
    with _keep_interrupts():
        try:
            context = SparkContext(conf=conf, gateway=gateway)
        except (Py4JError, PySparkException, OSError, ValueError) as error:
            raise _not_started(innermost_message(error)) from error
    pyspark_private.set_workers(context, *workers)
    return context


def _keep_command(spark: pyspark_private.LazySession, settings: Mapping[str, str]) -> None:
    java = pyspark_private.jvm_of(spark).java.lang
    arguments = java.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    archive.keep_command(
        java.System.getProperty("java.class.path"), arguments, settings["spark.driver.extraJavaOptions"]
    )


def _start_jvm(conf: SparkConf, meanwhile: Callable[[], None], jvm: EarlyJvm | None) -> Any:
    output = jvm.output if jvm else JvmOutput()
    output.read()
    try:
        gateway = pyspark_private.launch(conf, output.pipe, meanwhile, jvm)
    except (Py4JError, PySparkException, OSError, ValueError) as error:
        raise _not_started(output.reason() or innermost_message(error)) from error
    output.started()
    return gateway


def _warm(context: SparkContext) -> None:
    """Run an empty job, so that executors have what tasks import while a pipeline still opens."""
    with contextlib.suppress(Exception):  # errors appear in the first real job, and the session may have ended
        context.range(1, numSlices=1).foreach(id)


@contextlib.contextmanager
def _environment(plan: JvmPlan) -> Iterator[None]:
    """Set the variables of Spark's scripts, only while they start; and for good those of workers."""
    wanted = plan.environment
    before: dict[str, str | None] = {name: os.environ.get(name) for name in wanted}
    os.environ.update(plan.of_workers)
    _set(wanted)
    try:
        yield
    finally:
        _set(before)


@contextlib.contextmanager
def _keep_interrupts() -> Iterator[None]:
    """Undo PySpark's handler of SIGINT, which would cancel all jobs where the driver wants to drain."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _not_started(reason: str) -> EngineError:
    return EngineError(
        f"Spark did not start: {reason.rstrip('.')}",
        step="engine",
        hint="Check --master and --conf; `calve doctor` checks this machine, CALVE_SPARK_LOG=WARN shows Spark's log",
    )
