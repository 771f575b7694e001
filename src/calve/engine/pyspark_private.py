"""Everything private that Calve uses of PySpark. No other module uses its private attributes.

`tests/engine/test_pyspark_private.py` fails when a version of PySpark changes one of them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession

from calve.engine.early import ADDRESS, EarlyJvm
from calve.engine.java_names import JavaNames

__all__ = [
    "LazySession",
    "abandon",
    "data_frame",
    "forget_sessions",
    "hadoop_configuration",
    "has_context",
    "has_stopped",
    "java_exception_of",
    "java_session",
    "jvm_of",
    "jvm_process",
    "launch",
    "logical_plan",
    "object_array",
    "put_gateway",
    "set_workers",
    "stop_accumulators",
    "take_gateway",
]


_LOOK_SECONDS = 0.005
_starting: dict[subprocess.Popen[bytes], Path] = {}
"""The JVM that is starting, with the folder in which PySpark waits for its address, and the key to it."""


class LazySession(SparkSession):  # type: ignore[misc] # PySpark is not typed here
    """Spark's session, which creates its context, and its Java half, at their first use.

    Writing and committing use neither with a local master. Each costs a second of one core.

    Args:
        gateway: py4j's, to the JVM.
        make: Creates the context.
        conf: Spark's settings.
    """

    def __init__(self, gateway: Any, make: Callable[[], SparkContext], conf: SparkConf) -> None:
        put_gateway(gateway)
        self._jvm = gateway.jvm
        self.make = make
        self.making = threading.RLock()
        self.tags = threading.local()
        spark = self._jvm.org.apache.spark
        settings = spark.SparkConf(False)
        for key, value in conf.getAll():
            if key.startswith("spark.hadoop."):
                settings.set(key, value)
        self.hadoop: Any = spark.deploy.SparkHadoopUtil.get().newConfiguration(settings)

    def __getattr__(self, name: str) -> Any:
        if name not in ("_sc", "_jsc", "_jsparkSession", "_profiler_collector"):
            raise AttributeError(name)
        with self.making:
            if "_sc" not in self.__dict__:
                context = self.make()
                context._jsc.hadoopConfiguration().addResource(self.hadoop)
                self._sc, self._jsc = context, context._jsc
            if name not in self.__dict__:
                super().__init__(self._sc)
        return self.__dict__[name]

    def newSession(self) -> SparkSession:  # noqa: N802 # PySpark's name; its own method would create another lazy session
        """Return another session on the same context."""
        return SparkSession(self._sc, self._jsparkSession.newSession())

    @property
    def context(self) -> SparkContext | None:
        """The context, if there is one by now."""
        return self.__dict__.get("_sc")

    def tag(self, tag: str) -> None:
        """Let all jobs of this thread have a tag, from its next use of SQL on."""
        self.tags.new = tag

    def apply_tag(self) -> None:
        """Let jobs of this thread have its tag."""
        if new := getattr(self.tags, "new", None):
            self._sc.addJobTag(new)
            self.tags.new = None

    def cancel(self, tag: str) -> None:
        """Cancel the jobs with a tag."""
        if self.context is not None:
            self.context.cancelJobsWithTag(tag)


def launch(conf: SparkConf, output: int, meanwhile: Callable[[], None], jvm: EarlyJvm | None) -> Any:
    """Start the JVM in a new process session, unless it is there; return py4j's gateway to it.

    Ctrl-C and signals to our process group leave such a JVM running until the driver has drained.

    Args:
        conf: Its settings.
        output: The file of its output.
        meanwhile: Called in this thread as soon as the process is there, while it starts.
        jvm: The JVM, if it is started already; None: Spark's launcher starts it.
    """

    def start(launcher: list[str], **named: Any) -> subprocess.Popen[bytes]:
        process = jvm.process if jvm else subprocess.Popen(launcher, **named)
        address = Path(named["env"][ADDRESS])
        _starting[process] = address.parent
        meanwhile()
        if jvm:
            jvm.hand_over(address)
        while process.poll() is None and not address.is_file():  # PySpark looks ten times a second
            time.sleep(_LOOK_SECONDS)
        return process

    java_gateway.Popen = start
    try:
        return java_gateway.launch_gateway(conf, {"start_new_session": True, "stdout": output, "stderr": output})
    except BaseException:
        abandon(jvm)  # a JVM that nobody is connected to would stay, and its output would not end
        raise
    finally:
        java_gateway.Popen = subprocess.Popen
        _starting.clear()


def abandon(jvm: EarlyJvm | None = None) -> None:
    """End a JVM that is starting, and remove the folder in which PySpark waits for its address.

    Args:
        jvm: The JVM, if it was started before PySpark was.
    """
    if jvm is not None:
        jvm.close()
    for process, folder in list(_starting.items()):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        shutil.rmtree(folder, ignore_errors=True)


def set_workers(context: SparkContext, python: str | None, environment: dict[str, str]) -> None:
    """Choose the Python of the workers (None: this one) and add to their environment."""
    context.pythonExec = python or context.pythonExec
    context.environment |= environment


def has_stopped(spark: LazySession) -> bool:
    """Return whether the session was stopped, perhaps by Spark itself: a cluster can end an application."""
    if spark.context is None:
        process = jvm_process()
        return process is None or process.poll() is not None
    context = spark.context._jsc
    try:
        return context is None or bool(context.sc().isStopped())
    except (Py4JError, OSError):  # the JVM is gone
        return True


def jvm_process() -> subprocess.Popen[bytes] | None:
    """Return the JVM of this process, or None."""
    return getattr(SparkContext._gateway, "proc", None)


def stop_accumulators(context: SparkContext) -> None:
    """Stop PySpark's server for accumulators without waiting for it: it checks for a stop only once a second."""
    server, context._accumulatorServer = context._accumulatorServer, None
    if server is not None:
        server.handle_error = lambda *_: None  # the JVM ends while the server listens
        threading.Thread(target=server.shutdown, name="accumulators", daemon=True).start()


def take_gateway() -> Any:
    """Return py4j's gateway to the JVM, or None, and let PySpark forget it."""
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    return gateway


def put_gateway(gateway: Any) -> None:
    """Let PySpark use a gateway to a JVM; None: it starts one when it needs it."""
    SparkContext._gateway, SparkContext._jvm = gateway, gateway and gateway.jvm


def has_context() -> bool:
    """Return whether a session of this process is not stopped."""
    return SparkContext._active_spark_context is not None


def forget_sessions() -> None:
    """Let PySpark forget the context and the sessions, also those of a JVM that no longer answers."""
    SparkContext._active_spark_context = SparkSession._instantiatedSession = SparkSession._activeSession = None


def jvm_of(spark: SparkSession) -> Any:
    """Return the classes of the driver's JVM, by their names."""
    return vars(spark._jvm).setdefault("calve_names", JavaNames(spark._jvm))


def java_session(spark: SparkSession) -> Any:
    """Return the Java session; the first call for a `LazySession` creates it. Jobs of this thread get its tag."""
    if isinstance(spark, LazySession):
        spark.apply_tag()
    return spark._jsparkSession


def hadoop_configuration(spark: SparkSession) -> Any:
    """Return Hadoop's configuration in the JVM."""
    return spark.hadoop


def object_array(spark: SparkSession, *values: Any) -> Any:
    """Return a Java `Object[]`."""
    made = SparkContext._gateway.new_array(jvm_of(spark).java.lang.Object, len(values))
    for at, value in enumerate(values):
        made[at] = value
    return made


def data_frame(spark: SparkSession, java: Any) -> DataFrame:
    """Return the DataFrame of a Java `Dataset<Row>`."""
    return DataFrame(java, spark)


def logical_plan(frame: DataFrame) -> Any:
    """Return the Java plan of a DataFrame."""
    return frame._jdf.logicalPlan()


def java_exception_of(error: CapturedException) -> Any:
    """Return the Java exception that PySpark wrapped in one of its own."""
    return error._origin
