"""Starts and ends Spark: one quiet JVM, which ends with this process and not before it.

This relies on two facts: the JVM exits when its stdin closes, which the operating system does even after `kill -9`;
and the Python workers exit when the JVM closes theirs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from calve.engine import pyspark_private
from calve.engine.engine import Engine
from calve.engine.java.errors import innermost_message
from calve.engine.jvm import archive
from calve.engine.jvm.master import check_master, is_local, master_of
from calve.engine.jvm.plan import PYTHON, JvmPlan
from calve.engine.jvm.process import JvmProcess
from calve.engine.workers.environment import PRELOADED, environment_of
from calve.errors import EngineError

__all__ = ["start", "stop"]

_SOCKETS = "spark.python.unix.domain.socket."
_LONGEST_FOLDER_BYTES = 60
"""A system allows about 104 bytes for the path of a socket, of which Spark adds a UUID."""
_running: tuple[Engine, JvmProcess, Any] | None = None
"""The engine of this process, its JVM, and py4j's gateway to the JVM of a session before, which is put back."""


def start(
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    needs_s3: bool = False,
    preload: Sequence[str] = PRELOADED,
    meanwhile: Callable[[], None] = lambda: None,
    early: JvmProcess | None = None,
) -> Engine:
    """Start Spark, or return that of this process.

    Args:
        master: Spark's master URL; None: `local[*]`.
        conf: Spark's settings; they override Calve's.
        needs_s3: Whether a table or a catalog lives on S3.
        preload: Modules that Python workers import before their first task; none: there will be no tasks.
        meanwhile: Called while the JVM starts.
        early: The JVM for these settings, if it is started already.

    Raises:
        EngineError: Java, a jar or Spark itself is missing or does not start, or another session runs.
    """
    global _running
    if _running is not None and not _running[0].has_stopped:
        return _running[0]
    aside = _make_way()
    logging.getLogger().addHandler(logging.NullHandler())  # py4j logs to the root, on stderr when it has no handler
    check_master(master_of(master, conf or {}))
    process = early or _start_jvm(JvmPlan.of(master, conf or {}, needs_s3))
    try:
        meanwhile()
        engine = _engine(process, preload)
    except BaseException:
        process.abandon()
        pyspark_private.detach_gateway()
        pyspark_private.put_gateway(aside)
        raise
    _running = engine, process, aside
    if archive.is_being_made():
        _keep_command(engine, process.plan.settings)
        engine.tasks.run_twice(enumerate, lambda number, _: iter([number]), [1, 2], 2)  # for the classes of a shuffle
    if preload:
        threading.Thread(target=_warm, args=(engine.context,), name="warm", daemon=True).start()
    return engine


def stop(engine: Engine) -> None:
    """End Spark and its JVM, even if it no longer answers. May be called twice."""
    global _running
    if _running is None or engine is not _running[0]:
        return
    (_, process, aside), _running = _running, None
    gateway = pyspark_private.detach_gateway()
    with contextlib.suppress(Py4JError, OSError), warnings.catch_warnings():  # the JVM may have ended
        warnings.simplefilter("ignore", RuntimeWarning)
        pyspark_private.stop_accumulators(engine.context)
        engine.context.stop()
        gateway.shutdown()
    pyspark_private.forget_sessions()
    pyspark_private.put_gateway(aside)
    process.close()


def _make_way() -> Any:
    """Detach py4j's gateway of an earlier session of this process, and return it.

    Raises:
        EngineError: Somebody else's session runs.
    """
    if _running is not None:
        stop(_running[0])
    if pyspark_private.has_context():
        hint = "Stop it first: spark.stop()"
        raise EngineError("Another Spark session of this process runs", step="engine", hint=hint)
    return pyspark_private.detach_gateway()


def _start_jvm(plan: JvmPlan) -> JvmProcess:
    try:
        return JvmProcess(plan)
    except OSError as error:
        raise _not_started(str(error)) from error


def _engine(process: JvmProcess, preload: Sequence[str]) -> Engine:
    """Create Spark's context in a JVM, as soon as that has started."""
    doors = process.gateway()
    if doors is None:
        raise _not_started(process.output.reason() or "Java has ended")
    process.output.started()
    plan = process.plan
    variables = environment_of(plan.settings, preload, is_local(plan.master) and PYTHON not in plan.settings)
    settings = {**_sockets(process), **plan.settings}
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    try:
        with _environment(plan.python | doors), _keep_interrupts():
            gateway = launch_gateway()
            gateway.proc = process.popen
            return Engine(SparkContext(conf=conf, gateway=gateway, environment=variables), gateway)
    except (Py4JError, PySparkException, OSError, ValueError) as error:
        raise _not_started(innermost_message(error)) from error


def _sockets(process: JvmProcess) -> dict[str, str]:
    """Return the settings by which the JVM and its workers talk through Unix sockets in the JVM's private folder.

    A task then waits for no delayed acknowledgement of TCP: an empty job takes half of the time.
    """
    folder = str(process.folder)
    if not is_local(process.plan.master) or len(os.fsencode(folder)) > _LONGEST_FOLDER_BYTES:
        return {}
    return {_SOCKETS + "enabled": "true", _SOCKETS + "dir": folder}


def _keep_command(engine: Engine, settings: Mapping[str, str]) -> None:
    java = engine.jvm.java.lang
    arguments = java.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    archive.keep_command(
        java.System.getProperty("java.class.path"), arguments, settings["spark.driver.extraJavaOptions"]
    )


def _warm(context: SparkContext) -> None:
    """Run an empty job, so that workers have what tasks import while a pipeline still opens."""
    with contextlib.suppress(Exception):  # errors appear in the first real job, and the session may have ended
        context.parallelize([1], 1).foreach(id)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables for the duration of the block."""
    before = {name: os.environ[name] for name in variables if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
        os.environ.update(before)


@contextlib.contextmanager
def _keep_interrupts() -> Iterator[None]:
    """Undo PySpark's handler of SIGINT, which would cancel all jobs where the driver wants to drain."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _not_started(reason: str) -> EngineError:
    return EngineError(
        f"Spark did not start: {reason.rstrip('.')}",
        step="engine",
        hint="Check --master and --conf; `calve doctor` checks this machine, CALVE_SPARK_LOG=WARN shows Spark's log",
    )
