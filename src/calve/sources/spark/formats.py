"""The rows of a format of Spark as its DataFrame, and why there are none. Runs on the driver."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import StructType

from calve.engine.engine import Engine
from calve.engine.java.errors import JAVA_ERRORS, caused_by, innermost_message, java_exception
from calve.errors import EngineError, SourceError, SourceUnavailableError
from calve.sources.spark.frames import check_columns
from calve.sources.spark.reader import UNREADABLE
from calve.sources.spark.settings import SparkSettings
from calve.sources.spark.unreadable import keeps_unreadable, strict_options, with_unreadable

__all__ = ["failure", "java_frame"]

_NO_CLASS = (
    "java.lang.ClassNotFoundException",
    "java.lang.NoClassDefFoundError",
    "java.util.ServiceConfigurationError",
)
_NOT_SO = ("org.apache.spark.SparkUnsupportedOperationException",)
_NOT_READ = "_LEGACY_ERROR_TEMP_1135"
"""Spark's condition for a source that only streams."""
_NOT_FOUND = ("DATA_SOURCE_NOT_FOUND", "_LEGACY_ERROR_TEMP_1140")
"""Its conditions for a format without a class; the second one for its own that are not among its jars."""
_LASTING = ("java.io.FileNotFoundException", "com.fasterxml.jackson.core.JsonProcessingException")
"""Failures of the class IOException that each try has."""
_PASSING = (
    "java.io.IOException",
    "java.io.UncheckedIOException",
    "java.util.concurrent.TimeoutException",
    "java.sql.SQLTransientException",
    "java.sql.SQLRecoverableException",
    "org.apache.kafka.common.errors.RetriableException",
)
"""The classes of failures that another try may not have."""
_OPTIONS = "Check `options`, `schema` and `select`"
_DRIVER = "Check `options`: a driver from `packages: [group:artifact:version]` needs its class, `driver`"


def java_frame(engine: Engine, settings: SparkSettings) -> Any:
    """Return the rows of a source of Spark as a Java `Dataset`; nothing is read but what it needs for its columns.

    Raises:
        SourceError: Spark has no such format, refuses the options, or has columns that do not reach Python unchanged.
        SourceUnavailableError: Its server does not answer.
    """
    try:
        session = engine.java_session
        reader = session.readStream() if settings.read == "stream" else session.read()
        reader = reader.format(settings.format).options({**strict_options(settings), **settings.options})
        frame = (
            with_unreadable(engine, settings, reader)
            if keeps_unreadable(settings)
            else _frame(engine, settings, reader)
        )
        columns = [column for column in engine.data_frame(frame).schema if column.name != UNREADABLE]
        check_columns(StructType(columns))
    except JAVA_ERRORS as error:
        raise failure(error, settings) from error
    return frame


def _frame(engine: Engine, settings: SparkSettings, reader: Any) -> Any:
    if settings.schema:
        reader = reader.schema(settings.schema)
    frame = reader.load()
    return frame.selectExpr(engine.object_array(*settings.select, kind="String")) if settings.select else frame


def failure(error: Exception, settings: SparkSettings) -> SourceError | EngineError:
    """Return the error for one of Spark, while it reads a format: with the innermost reason, and what helps."""
    name, reason = settings.format or "", innermost_message(error)
    if java_exception(error) is None:
        return EngineError(f"The JVM of Spark does not answer: {reason}", step="read", target=name)
    condition = _condition(error)
    if condition in _NOT_FOUND or caused_by(error, *_NO_CLASS):
        hint = "Check the name, or add its jar: packages: [group:artifact:version], built for this version of Spark"
        message = (
            f"Spark has no source of the format {name}" if condition in _NOT_FOUND else f"A class is missing: {reason}"
        )
        return SourceError(message, step="read", target=name, hint=hint)
    if caused_by(error, *_NOT_SO) or condition == _NOT_READ:
        other = {"stream": "batch", "batch": "stream"}[settings.read]
        hint = f"Set `read: {other}`, if it offers that"
        return SourceError(f"{name} cannot be read as a {settings.read}: {reason}", step="read", target=name, hint=hint)
    message = f"Spark cannot read {name}: {reason}"
    if caused_by(error, *_PASSING) and not caused_by(error, *_LASTING):
        hint = "Calve tries again; check that the server is up, and `options`"
        return SourceUnavailableError(message, step="read", target=name, hint=hint)
    return SourceError(message, step="read", target=name, hint=_DRIVER if name == "jdbc" else _OPTIONS)


def _condition(error: Exception) -> str:
    """Return the name of an error of Spark itself; empty: it is none."""
    thrown = java_exception(error)
    try:
        return str(thrown.getCondition() or "")
    except JAVA_ERRORS:  # it has no such method
        return ""
