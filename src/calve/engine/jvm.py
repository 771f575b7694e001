"""What crosses the border to the JVM: Java's exceptions become errors of Calve's tree.

Java's class decides, never the text of its message.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import CapturedException

from calve.errors import (
    CalveError,
    CommitConflictError,
    CommitError,
    CommitUnknownError,
    EngineError,
    InvariantError,
    NoTargetError,
    SchemaConflictError,
    SinkUnavailableError,
    WorkerLostError,
    WriteError,
)

__all__ = ["caused_by", "is_instance", "is_java", "java_errors", "java_exception", "jvm_error"]

_ICEBERG = "org.apache.iceberg.exceptions."
_PERMISSION = "Check the credentials in `catalog:` and what they may do with this table"
_SERVICE = "Calve tries again; check that the catalog and the storage of `catalog:` are up and can be reached"
_JAR = "Add its jar: `--conf spark.driver.extraClassPath=…`"
_DATABASE = f"Check that the database of `uri` is up and can be reached. If its driver is missing: {_JAR}"
_FILE_SYSTEM = "For `s3://` set `io-impl: org.apache.iceberg.aws.s3.S3FileIO` in `catalog:`"
_WORKER = (
    "A Python worker of Spark ended, perhaps killed for memory: smaller `max_batch_bytes` need less; Calve tries again"
)
_DISK = "Make room or change the permissions there; Calve tries again"

# The first class in the chain of causes (outermost first; each with its superclasses) that stands in the first table
# decides; where none does, in the second: those only wrap, and the cause says more.
_BY_CLASS: dict[str, tuple[type[CalveError], str]] = {
    _ICEBERG + "CommitStateUnknownException": (CommitUnknownError, "Calve looks whether the commit is there"),
    _ICEBERG + "CommitFailedException": (CommitConflictError, "Calve looks at the table again and retries"),
    _ICEBERG + "NotAuthorizedException": (CommitError, _PERMISSION),
    _ICEBERG + "ForbiddenException": (CommitError, _PERMISSION),
    _ICEBERG + "NoSuchTableException": (NoTargetError, "Create the table, or set `auto_create: true`"),
    _ICEBERG + "NoSuchNamespaceException": (NoTargetError, "Create the namespace"),
    _ICEBERG + "NoSuchIcebergTableException": (NoTargetError, "It is a table of another format; name another one"),
    _ICEBERG + "ServiceUnavailableException": (SinkUnavailableError, _SERVICE),
    _ICEBERG + "ServiceFailureException": (SinkUnavailableError, _SERVICE),
    _ICEBERG + "ValidationException": (CommitError, "Look at what changed in the table"),
    _ICEBERG + "BadRequestException": (CommitError, "The catalog refused the request; look at its log"),
    _ICEBERG + "UnprocessableEntityException": (CommitError, "The catalog refused the request; look at its log"),
    "java.io.EOFException": (WorkerLostError, _WORKER),
    "java.nio.file.AccessDeniedException": (WriteError, _DISK),
    "java.nio.file.FileSystemException": (WriteError, _DISK),
    "org.apache.hadoop.fs.UnsupportedFileSystemException": (EngineError, _FILE_SYSTEM),
    "org.apache.hadoop.security.AccessControlException": (CommitError, _PERMISSION),
    "java.net.ConnectException": (SinkUnavailableError, _SERVICE),
    "java.net.SocketException": (SinkUnavailableError, _SERVICE),
    "java.net.SocketTimeoutException": (SinkUnavailableError, _SERVICE),
    "java.net.UnknownHostException": (SinkUnavailableError, _SERVICE),
    "software.amazon.awssdk.core.exception.SdkException": (SinkUnavailableError, _SERVICE),
    "java.lang.ClassNotFoundException": (EngineError, _JAR),
    "java.lang.NoClassDefFoundError": (EngineError, _JAR),
    "java.lang.OutOfMemoryError": (EngineError, "Give the JVM more: `--conf spark.driver.memory=4g`"),
}
_BY_GENERAL_CLASS: dict[str, tuple[type[CalveError], str]] = {
    _ICEBERG + "RESTException": (SinkUnavailableError, _SERVICE),
    _ICEBERG + "RuntimeIOException": (SinkUnavailableError, _SERVICE),
    "java.io.UncheckedIOException": (SinkUnavailableError, _SERVICE),
    "java.io.IOException": (SinkUnavailableError, _SERVICE),
    "org.apache.iceberg.jdbc.UncheckedSQLException": (SinkUnavailableError, _DATABASE),
    "java.sql.SQLException": (SinkUnavailableError, _DATABASE),
    "java.lang.UnsupportedOperationException": (CommitError, ""),
    "java.lang.IllegalArgumentException": (CommitError, ""),
    "java.lang.IllegalStateException": (SchemaConflictError, ""),
}
_LONGEST_MESSAGE = 300


_RAISED = (Py4JError, CapturedException, ConnectionError)


@contextmanager
def java_errors(step: str, target: str = "") -> Iterator[None]:
    """Let nothing but errors of Calve's tree out of a block that calls the JVM."""
    try:
        yield
    except _RAISED as error:
        raise jvm_error(error, step=step, target=target) from error


def is_java(error: Exception) -> bool:
    """Return whether an exception came from the JVM, or from the way to it."""
    return isinstance(error, _RAISED)


def jvm_error(error: Exception, *, step: str = "", target: str = "") -> CalveError:
    """Give the error of Calve's tree for what py4j raised, with a message of one line."""
    thrown = java_exception(error)
    if thrown is None and _answers(error):
        return InvariantError(f"py4j: {error}", step=step, target=target)
    if thrown is None:
        return EngineError(
            f"The JVM of Spark does not answer ({type(error).__name__})",
            step=step,
            target=target,
            hint="Start again; if it was killed for memory, give it less to do or the machine more",
        )
    chain = list(_causes(thrown))
    for table in (_BY_CLASS, _BY_GENERAL_CLASS):
        for throwable in chain:
            name = next((name for name in _class_names(throwable) if name in table), None)
            if name is not None:
                kind, hint = table[name]
                return kind(_message(chain, throwable, target), step=step, target=target, hint=hint)
    return InvariantError(_message(chain, chain[0], target), step=step, target=target)


def _answers(error: Exception) -> bool:
    """Say whether the JVM is there: once it is gone, py4j also reports that classes do not exist."""
    process = getattr(SparkContext._gateway, "proc", None)
    is_gone = process is not None and process.poll() is not None
    return not is_gone and not isinstance(error, (Py4JNetworkError, ConnectionError))


def java_exception(error: Exception) -> Any:
    """Give the Java exception behind a Python one, or None; PySpark wraps some classes in exceptions of its own."""
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    return error._origin if isinstance(error, CapturedException) else None


def caused_by(error: Exception, *names: str) -> bool:
    """Say whether an exception of one of these Java classes (by full name) is behind a Python one."""
    found = (name for throwable in _causes(java_exception(error)) for name in _class_names(throwable))
    return any(name in names for name in found)


def is_instance(java_object: Any, name: str) -> bool:
    """Say whether a Java object is of a class or an interface, by the full name of that."""
    kind: Any = java_object.getClass().forName(name)
    found: bool = kind.isInstance(java_object)
    return found


def _causes(throwable: Any) -> Iterator[Any]:
    for _ in range(20):  # a bound: chains may be circular
        if throwable is None:
            return
        yield throwable
        throwable = throwable.getCause()


def _class_names(throwable: Any) -> Iterator[str]:
    kind = throwable.getClass()
    while kind is not None:
        yield kind.getName()
        kind = kind.getSuperclass()


def _message(chain: list[Any], throwable: Any, target: str) -> str:
    """One line: what failed on which target, and the innermost cause where it adds something."""
    text = _line(throwable)
    cause = _line(chain[-1])
    if chain[-1] is not throwable and cause not in text:
        text = f"{text} ({cause})"
    text = text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"
    return f"{target}: {text}" if target and target not in text else text


def _line(throwable: Any) -> str:
    name: str = throwable.getClass().getSimpleName()
    lines = [line.strip().rstrip(".") for line in (throwable.getMessage() or "").splitlines() if line.strip()]
    if not lines:
        return name
    return lines[0] if " " in lines[0] else f"{name}: {lines[0]}"
