"""Everything private that Calve uses of PySpark. No other module uses its private attributes.

`tests/engine/test_pyspark_private.py` fails when a version of PySpark changes one of them.
"""

from __future__ import annotations

import subprocess
import threading
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "LazySession",
    "data_frame",
    "forget_sessions",
    "hadoop_configuration",
    "has_stopped",
    "is_running",
    "java_exception_of",
    "java_session",
    "jvm_of",
    "jvm_process",
    "launch",
    "logical_plan",
    "object_array",
    "set_workers",
    "stop_accumulators",
    "take_gateway",
]


class LazySession(SparkSession):  # type: ignore[misc] # PySpark is not typed here
    """Spark's session, which creates its Java half at the first use of SQL: writing and committing use none.

    The Java half costs one second of one core.
    """

    _making = threading.Lock()

    def __init__(self, context: SparkContext) -> None:
        self._sc, self._jsc, self._jvm = context, context._jsc, context._jvm

    def __getattr__(self, name: str) -> Any:
        if name not in ("_jsparkSession", "_profiler_collector"):
            raise AttributeError(name)
        with self._making:
            if name not in self.__dict__:
                super().__init__(self._sc)
        return self.__dict__[name]

    def newSession(self) -> SparkSession:  # noqa: N802 # PySpark's name; its own method would create another lazy session
        """Return another session on the same context."""
        return SparkSession(self._sc, self._jsparkSession.newSession())


def launch(conf: SparkConf, output: int) -> Any:
    """Start the JVM in a new process session, with its output to the file `output`; return py4j's gateway to it.

    Ctrl-C and signals to our process group leave such a JVM running until the driver has drained.
    """
    return launch_gateway(conf, {"start_new_session": True, "stdout": output, "stderr": output})


def set_workers(context: SparkContext, python: str | None, environment: dict[str, str]) -> None:
    """Choose the Python of the workers (None: this one) and add to their environment."""
    context.pythonExec = python or context.pythonExec
    context.environment |= environment


def is_running(spark: SparkSession) -> bool:
    """Return whether the session is not stopped."""
    return spark.sparkContext._jsc is not None


def has_stopped(spark: SparkSession) -> bool:
    """Return whether the session was stopped, perhaps by Spark itself: a cluster can end an application."""
    context = spark.sparkContext._jsc
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


def forget_sessions() -> None:
    """Let PySpark forget the context and the sessions, also those of a JVM that no longer answers."""
    SparkContext._active_spark_context = SparkSession._instantiatedSession = SparkSession._activeSession = None


def jvm_of(spark: SparkSession) -> Any:
    """Return py4j's view of the driver's JVM."""
    return spark.sparkContext._jvm


def java_session(spark: SparkSession) -> Any:
    """Return the Java session; the first call for a `LazySession` creates it."""
    return spark._jsparkSession


def hadoop_configuration(spark: SparkSession) -> Any:
    """Return Hadoop's configuration in the JVM."""
    return spark.sparkContext._jsc.hadoopConfiguration()


def object_array(spark: SparkSession, *values: Any) -> Any:
    """Return a Java `Object[]`."""
    made = spark.sparkContext._gateway.new_array(jvm_of(spark).java.lang.Object, len(values))
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
