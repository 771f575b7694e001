"""Runs Calve on the Spark of a user's own program: no JVM of Calve's, and their session stays as it is."""

from __future__ import annotations

import os
import sys
from typing import Any

from py4j.java_gateway import JavaPackage
from pyspark import SparkContext
from pyspark.sql import SparkSession

from calve.engine import pyspark_private
from calve.engine.engine import Engine
from calve.engine.java.errors import java_errors
from calve.engine.jvm import jars, spark_package
from calve.engine.jvm.master import is_local
from calve.engine.jvm.plan import PYTHON
from calve.errors import EngineError

__all__ = ["adopt"]

_STEP = "engine"
_SETTINGS = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.variable.substitute": "false",
}
"""Settings that Calve's own reads and merges rely on."""


def adopt(spark: Any) -> Engine:
    """Return the engine on a user's session; what Calve does with SQL has a session of its own beside it.

    Args:
        spark: The session.

    Raises:
        EngineError: It is remote, stopped, of another version of Spark, or has no Iceberg or another version of it.
    """
    if not isinstance(spark, SparkSession):
        hint = "Use a session whose driver is this process: SparkSession.builder.master(…).getOrCreate()"
        raise EngineError("This is a session of Spark Connect, whose JVM Calve does not reach", step=_STEP, hint=hint)
    context = spark.sparkContext
    if pyspark_private.has_stopped(context):
        raise EngineError("The Spark session has stopped", step=_STEP, hint="Start another one")
    with java_errors(_STEP):
        _check_versions(context.version, pyspark_private.gateway_of(context).jvm)
        _use_this_python(context)
        own = spark.newSession()
        for name, text in _SETTINGS.items():
            own.conf.set(name, text)
        return Engine(context, pyspark_private.gateway_of(context), own, spark)


def _use_this_python(context: SparkContext) -> None:
    """Let workers run the Python of the session's settings, which PySpark takes from spark-submit alone.

    Without one, those on this machine run the Python of this process, which has Calve.
    """
    chosen = context.getConf().get(PYTHON) or (sys.executable if is_local(context.master) else None)
    if chosen and not os.environ.get("PYSPARK_PYTHON"):
        context.pythonExec = chosen


def _check_versions(spark: str, jvm: Any) -> None:
    if _line(spark) != _line(spark_package.version()):
        hint = f"Calve needs the Spark of its PySpark, {spark_package.version()}"
        raise EngineError(f"The session runs Spark {spark}", step=_STEP, hint=hint)
    build = jvm.org.apache.iceberg.IcebergBuild
    hint = f"Start the session with spark.jars.packages={jars.ICEBERG}"
    if isinstance(build, JavaPackage):
        raise EngineError("The Spark session has no Iceberg", step=_STEP, hint=hint)
    if _line(version := build.version()) != _line(jars.ICEBERG.rpartition(":")[2]):
        raise EngineError(f"The Spark session has Iceberg {version}", step=_STEP, hint=hint)


def _line(version: str) -> str:
    """Return a version without its last number."""
    return ".".join(version.split(".")[:2])
