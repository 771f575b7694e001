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
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from calve.engine import archive, jars, java, launch, pyspark_private
from calve.engine.forks import PRELOADED, PYTHON, TASK_TRIES, Forks, cores_and_tries, environment_of, master_of
from calve.engine.forks import start as start_forks
from calve.engine.jvm import innermost_message
from calve.engine.master import check_master
from calve.engine.output import JvmOutput
from calve.engine.tasks import ClusterTasks, LocalTasks, Tasks
from calve.engine.workers import Workers
from calve.errors import EngineError

__all__ = ["READING", "start", "stop"]

READING = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4",
    "spark.sql.caseSensitive": "true",
    "spark.sql.shuffle.partitions": "64",
}
"""Settings to read tables with Spark SQL: its JVM processes rows, so the better compiler pays; columns may differ only
in case; small shuffles stay cheap."""
_TUNING = "-XX:+UseParallelGC -XX:TieredStopAtLevel=1"
"""The driver's JVM plans and commits but processes no rows: the better compiler would cost more than it saves."""
_LAUNCHER = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options of the JVM that only prints the command of the driver's JVM."""
_LISTS = {"spark.driver.extraClassPath": os.pathsep, "spark.driver.extraJavaOptions": " ", "spark.jars": ","}


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
    forks: Forks | None = None,
) -> SparkSession:
    """Start Spark, or return the session of this process.

    Args:
        master: Spark's master URL; None: `local[*]`.
        conf: Spark's settings; they override Calve's.
        needs_s3: Whether a table or a catalog lives on S3.
        preload: Modules that Python workers import before their first task.
        meanwhile: Called while the JVM starts.
        forks: What `forks.start` gave for these settings and modules, if somebody has called it already.

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
    files = jars.resolve(jars.needed(needs_s3))
    settings = _merged(_defaults(master, files), conf or {})
    forks = forks or start_forks(master, settings, preload)
    made = SparkConf(loadDefaults=False).setAll(list((settings | {"spark.master": master}).items()))
    always, added = files[: len(jars.ALWAYS)], files[len(jars.ALWAYS) :]
    try:
        command = archive.command(java.find(), always, settings, _last(added)) if forks else None
        with _environment(added), _keep_interrupts():
            gateway = _start_jvm(made, command, meanwhile)
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


def _defaults(master: str, files: Sequence[Path]) -> dict[str, str]:
    log = Path(__file__).with_name("log4j2.properties").as_uri()
    always = files[: len(jars.ALWAYS)]
    tuning = f"{_TUNING} {archive.options(java.find(), always)}".rstrip()
    settings = {
        "spark.app.name": "calve",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, always)),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log} {tuning}",
        "spark.driver.memory": "2g" if _memory_bytes() >= 8 << 30 else "1g",
        "spark.speculation": "false",  # two attempts of one task would write the same files twice
        "spark.task.maxFailures": str(TASK_TRIES),
        "spark.python.worker.reuse": "true",
        "spark.python.daemon.module": "calve.engine.daemon",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.variable.substitute": "false",  # columns may be named ${…}
        "spark.sql.catalogImplementation": "in-memory",
        "spark.hadoop.hive.metastore.client.socket.timeout": "20s",  # of each call; by default ten minutes
        "spark.sql.warehouse.dir": f"{tempfile.gettempdir()}/calve-spark-warehouse",  # a name only, never created
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "20",  # Spark keeps them in memory with its UI off, too
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "20",
    }
    if master.startswith("local"):
        loopback = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        return settings | loopback | {"spark.sql.shuffle.partitions": "8"}
    return settings | {"spark.jars": ",".join(map(str, files))}


def _merged(ours: dict[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """Override our settings by the user's, but join lists: an added jar or JVM option must not remove ours."""
    joined = {key: f"{ours[key]}{_LISTS[key]}{theirs[key]}" for key in theirs if key in _LISTS and key in ours}
    return ours | dict(theirs) | joined


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


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


def _start_jvm(conf: SparkConf, command: list[str] | None, meanwhile: Callable[[], None]) -> Any:
    output = JvmOutput()
    try:
        gateway = pyspark_private.launch(conf, output.pipe, command, meanwhile)
    except (Py4JError, PySparkException, OSError, ValueError) as error:
        raise _not_started(output.reason() or innermost_message(error)) from error
    output.started()
    return gateway


def _warm(context: SparkContext) -> None:
    """Run an empty job, so that executors have what tasks import while a pipeline still opens."""
    with contextlib.suppress(Exception):  # errors appear in the first real job, and the session may have ended
        context.range(1, numSlices=1).foreach(id)


@contextlib.contextmanager
def _environment(added: Sequence[Path]) -> Iterator[None]:
    """Set the variables of Spark's scripts, only while they start; workers use this interpreter.

    Args:
        added: Jars for the end of the class path; the class-data archive fits what begins with its own class path.
    """
    wanted: dict[str, str | None] = {
        "JAVA_HOME": str(java.find().home),
        "SPARK_CONF_DIR": None,
        "SPARK_DIST_CLASSPATH": _last(added) or None,
        "SPARK_HOME": launch.spark_home(),
        "SPARK_LAUNCHER_OPTS": os.environ.get("SPARK_LAUNCHER_OPTS") or _LAUNCHER,
    }
    before: dict[str, str | None] = {name: os.environ.get(name) for name in wanted}
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    _set(wanted)
    try:
        yield
    finally:
        _set(before)


def _last(added: Sequence[Path]) -> str:
    """Return the end of the class path."""
    return os.pathsep.join(filter(None, [os.environ.get("SPARK_DIST_CLASSPATH"), *map(str, added)]))


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
