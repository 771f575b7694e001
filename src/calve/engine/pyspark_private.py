"""Everything private that Calve uses of PySpark. No other module uses its private attributes.

`tests/engine/test_pyspark_private.py` fails when a version of PySpark changes one of them.
"""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "add_jar",
    "detach_gateway",
    "forget_sessions",
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
