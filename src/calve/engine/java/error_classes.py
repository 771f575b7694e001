"""Maps Java's exceptions to Calve's errors, by class, with a hint.

If a class has many reasons, its code decides: HTTP's, AWS's, SQL's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calve.errors import (
    CalveError,
    CommitConflictError,
    CommitError,
    CommitUnknownError,
    EngineError,
    NoTargetError,
    SchemaConflictError,
    SetupError,
    SinkRefusedError,
    SinkUnavailableError,
    WorkerLostError,
    WriteError,
)

__all__ = ["BY_CLASS", "BY_GENERAL_CLASS", "refusal"]

_ICEBERG = "org.apache.iceberg.exceptions."
_AWS_SERVICE = "software.amazon.awssdk.awscore.exception.AwsServiceException"
_AWS_CLIENT = "software.amazon.awssdk.core.exception.SdkClientException"
_SQL = "java.sql.SQLException"
_PERMISSION = "Check the credentials in `catalog:`, and their permissions for this table"
_SERVICE = "Calve tries again; check that the catalog and the storage of `catalog:` are up and reachable"
_CLASS_PATH = "`--conf spark.driver.extraClassPath=…`"
_JAR = f"Add its jar (for Google iceberg-gcp-bundle, for Azure iceberg-azure-bundle): {_CLASS_PATH}"
_DATABASE = (
    f"Check that the database of `uri` is up and reachable. If its driver is missing, add its jar: {_CLASS_PATH}"
)
_FILE_SYSTEM = "For `s3://` set `io-impl: org.apache.iceberg.aws.s3.S3FileIO` there; a hadoop catalog cannot be on S3"
_WORKER = "A Python worker of Spark ended, perhaps for lack of memory: reduce `max_batch_bytes`; Calve tries again"
_NO_PYTHON = (
    "The executors need the Python of `spark.pyspark.python`, with Calve: install Calve on every node at the same "
    "path, or send it: `calve bundle` (docs/running.md)"
)
_OF_EXECUTORS = ("java.io.IOException", "org.apache.spark.SparkException")
_WITHOUT_PYTHON = ("Cannot run program", "Error from python worker")
_DISK = "Free space or change the permissions there; Calve tries again"
_FOLDER = "Change the permissions there, or set another folder"
_STORAGE = (
    "Correct `warehouse`, and the region and the keys of `catalog:`: `client.region`, `s3.access-key-id`, "
    "`s3.secret-access-key` (or AWS's own places for them), and for another store `s3.endpoint`"
)
_DATABASE_USER = "Check the database of `uri`, `jdbc.user`, `jdbc.password`, and the permissions of this user"
_DATABASE_FILE = "Check the path in `uri`, and the permissions there"

# The first class in the chain of causes (outermost first; each with its superclasses) that the first table has decides;
# if none, the second table: its classes only wrap a cause, which says more.
BY_CLASS: dict[str, tuple[type[CalveError], str]] = {
    _ICEBERG + "CommitStateUnknownException": (CommitUnknownError, "Calve checks whether the commit was successful"),
    _ICEBERG + "CommitFailedException": (CommitConflictError, "Calve loads the table again and retries"),
    _ICEBERG + "NotAuthorizedException": (SinkRefusedError, _PERMISSION),
    _ICEBERG + "ForbiddenException": (SinkRefusedError, _PERMISSION),
    _ICEBERG + "NoSuchWarehouseException": (SetupError, "Correct `uri` or `warehouse` in `catalog:`"),
    _ICEBERG + "NoSuchTableException": (NoTargetError, "Create the table, or set `auto_create: true`"),
    _ICEBERG + "NoSuchNamespaceException": (
        NoTargetError,
        "Create the namespace, or correct `warehouse` in `catalog:`",
    ),
    _ICEBERG + "NoSuchIcebergTableException": (NoTargetError, "It is a table of another format; set another one"),
    _ICEBERG + "ServiceUnavailableException": (SinkUnavailableError, _SERVICE),
    _ICEBERG + "ServiceFailureException": (SinkUnavailableError, _SERVICE),
    _ICEBERG + "ValidationException": (CommitError, "Check what changed in the table"),
    _ICEBERG + "BadRequestException": (CommitError, "The catalog refused the request; check its log"),
    _ICEBERG + "UnprocessableEntityException": (CommitError, "The catalog refused the request; check its log"),
    "java.io.EOFException": (WorkerLostError, _WORKER),
    "java.nio.file.AccessDeniedException": (SetupError, _FOLDER),
    "java.nio.file.ReadOnlyFileSystemException": (SetupError, _FOLDER),
    "java.nio.file.FileSystemException": (WriteError, _DISK),
    "org.apache.hadoop.fs.UnsupportedFileSystemException": (SetupError, _FILE_SYSTEM),
    "org.apache.hadoop.security.AccessControlException": (SinkRefusedError, _PERMISSION),
    "java.net.ConnectException": (SinkUnavailableError, _SERVICE),
    "java.net.SocketException": (SinkUnavailableError, _SERVICE),
    "java.net.SocketTimeoutException": (SinkUnavailableError, _SERVICE),
    "java.net.UnknownHostException": (SinkUnavailableError, _SERVICE),
    "software.amazon.awssdk.core.exception.SdkException": (SinkUnavailableError, _SERVICE),
    "java.lang.ClassNotFoundException": (EngineError, _JAR),
    "java.lang.NoClassDefFoundError": (EngineError, _JAR),
    "java.lang.OutOfMemoryError": (EngineError, "Increase the JVM's memory: `--conf spark.driver.memory=4g`"),
}
BY_GENERAL_CLASS: dict[str, tuple[type[CalveError], str]] = {
    _ICEBERG + "RESTException": (SinkUnavailableError, _SERVICE),
    _ICEBERG + "RuntimeIOException": (SinkUnavailableError, _SERVICE),
    "java.io.UncheckedIOException": (SinkUnavailableError, _SERVICE),
    "java.io.IOException": (SinkUnavailableError, _SERVICE),
    "org.apache.iceberg.jdbc.UncheckedSQLException": (SinkUnavailableError, _DATABASE),
    _SQL: (SinkUnavailableError, _DATABASE),
    "org.apache.iceberg.hive.RuntimeMetaException": (SinkUnavailableError, _SERVICE),
    "java.lang.UnsupportedOperationException": (CommitError, ""),
    "java.lang.IllegalArgumentException": (CommitError, ""),
    "java.lang.IllegalStateException": (SchemaConflictError, ""),
}
_AWS_CODES = frozenset(
    (
        "NoSuchBucket",
        "InvalidBucketName",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "AuthorizationHeaderMalformed",
        "PermanentRedirect",
        "UnrecognizedClientException",
    )
)
_AWS_STATUSES = (301, 401, 403)
"""The answer to a HEAD request cannot have a code."""
_SQL_STATES = ("28", "3D", "42501")
"""Prefixes of states: authorization, missing database, privileges (SQL standard; PostgreSQL)."""
_SQLITE = "org.sqlite.SQLiteException"
_SQLITE_CODES = (3, 8, 14, 23, 26)
"""PERM, READONLY, CANTOPEN, AUTH, NOTADB."""


def refusal(throwable: Any, names: Sequence[str]) -> tuple[type[CalveError], str] | None:
    """Return the error for a lasting failure of storage or a database, by its code; None for all others.

    Args:
        throwable: The Java exception.
        names: Its class and its superclasses.
    """
    if names[0] in _OF_EXECUTORS and any(text in str(throwable.getMessage()) for text in _WITHOUT_PYTHON):
        return SetupError, _NO_PYTHON
    if _AWS_SERVICE in names:
        details = throwable.awsErrorDetails()
        code = details.errorCode() if details is not None else None
        lasts = code in _AWS_CODES or throwable.statusCode() in _AWS_STATUSES
        return (SetupError, _STORAGE) if lasts else None
    if names[0] == _AWS_CLIENT and throwable.getCause() is None:  # no region or no keys; a network failure has a cause
        return SetupError, _STORAGE
    if _SQLITE in names:
        return (SetupError, _DATABASE_FILE) if throwable.getErrorCode() in _SQLITE_CODES else None
    if _SQL in names:
        return (SetupError, _DATABASE_USER) if (throwable.getSQLState() or "").startswith(_SQL_STATES) else None
    return None
