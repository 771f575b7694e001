"""Everything private that Calve uses of PySpark. No other module uses its private attributes.

`tests/engine/test_pyspark_private.py` fails when a version of PySpark changes one of them.
"""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import RDD, SparkContext
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

__all__ = [
    "add_jar",
    "arrow_batches",
    "detach_gateway",
    "forget_sessions",
    "gateway_of",
    "hadoop_configuration",
    "has_context",
    "has_stopped",
    "java_exception_of",
    "java_session",
    "jvm_process",
    "logical_plan",
    "put_gateway",
    "stop_accumulators",
]


def has_stopped(context: SparkContext) -> bool:
    """Return whether the context was stopped, or its JVM has ended."""
    try:
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):  # the JVM is gone
        return True


def add_jar(context: SparkContext, file: Path) -> None:
    """Let executors load the classes of a jar on this machine."""
    context._jsc.addJar(file.as_uri())


def arrow_batches(frame: DataFrame) -> tuple[RDD[bytes], pa.Schema]:
    """Return the rows of a DataFrame by partition, as messages of Arrow's record batches, and their schema.

    `mapInArrow` does the same, but needs pandas.
    """
    is_large = frame.sparkSession.conf.get("spark.sql.execution.arrow.useLargeVarTypes") == "true"
    schema = to_arrow_schema(frame.schema, prefers_large_types=is_large)
    rows = frame._jdf.toArrowBatchRdd().toJavaRDD()
    return RDD(rows, frame.sparkSession.sparkContext, NoOpSerializer()), schema


def jvm_process() -> subprocess.Popen[bytes] | None:
    """Return the JVM of this process, or None."""
    return getattr(SparkContext._gateway, "proc", None)


def stop_accumulators(context: SparkContext) -> None:
    """Stop PySpark's server for accumulators without waiting for it: it checks for a stop only once a second."""
    server, context._accumulatorServer = context._accumulatorServer, None
    if server is not None:
        server.handle_error = lambda *_: None  # the JVM ends while the server listens
        threading.Thread(target=server.shutdown, name="accumulators", daemon=True).start()


def detach_gateway() -> Any:
    """Return py4j's gateway to the JVM, or None, and let PySpark forget it."""
    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    return gateway


def gateway_of(context: SparkContext) -> Any:
    """Return py4j's gateway to the JVM of a context."""
    return context._gateway


def put_gateway(gateway: Any) -> None:
    """Let PySpark use a gateway to a JVM; None: it starts one when it needs it."""
    SparkContext._gateway, SparkContext._jvm = gateway, gateway and gateway.jvm


def has_context() -> bool:
    """Return whether a session of this process is not stopped."""
    return SparkContext._active_spark_context is not None


def forget_sessions() -> None:
    """Let PySpark forget the context and the sessions, also those of a JVM that no longer answers."""
    SparkContext._active_spark_context = SparkSession._instantiatedSession = SparkSession._activeSession = None


def java_session(session: SparkSession) -> Any:
    """Return the Java session."""
    return session._jsparkSession


def hadoop_configuration(context: SparkContext) -> Any:
    """Return Hadoop's configuration in the JVM."""
    return context._jsc.hadoopConfiguration()


def logical_plan(frame: DataFrame) -> Any:
    """Return the Java plan of a DataFrame."""
    return frame._jdf.logicalPlan()


def java_exception_of(error: CapturedException) -> Any:
    """Return the Java exception that PySpark wrapped in one of its own."""
    return error._origin
