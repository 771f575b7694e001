"""Writes staged data files again in the format of their table, if that is not Parquet.

Tasks stage Parquet in any case. Avro and ORC files come from Iceberg's own writers, on the driver, because its readers
misread the timestamps of ORC files that are written from Python (decision 72).
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from py4j.protocol import Py4JError

from calve.catalog.attempt import Attempt
from calve.catalog.catalog import Catalog
from calve.commit.mark import CommitTarget
from calve.engine.java.compiled import java_class
from calve.engine.java.errors import called, caused_by, innermost_message
from calve.errors import UnprocessableError
from calve.record.content_file import Bounds, ContentFile, Counts
from calve.write.properties import FORMAT

__all__ = ["reformatted"]

_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_NOT_HELD = "java.time.DateTimeException"
"""Thrown by `Reformat.java` for a time."""
_HINT = "Let the table have Avro or Parquet files (write.format.default), and calve dlq replay"
_BOUNDS = ("lower_bounds", "upper_bounds")


def reformatted(
    catalog: Catalog, begun: Attempt, target: CommitTarget, files: Sequence[ContentFile]
) -> Sequence[ContentFile]:
    """Return data files in the format of the target; they are new, and removed if the attempt is refused (driver).

    Args:
        catalog: The catalog of the table.
        begun: The attempt that adds them.
        target: The table, and how its files are written.
        files: Staged data files.

    Raises:
        UnprocessableError: The format cannot hold a value.
        Py4JJavaError: A file cannot be read or written.
    """
    if not target.write_as or not files:
        return files
    kind, end = target.write_as[FORMAT], uuid.uuid4().hex[:8]
    copies = [
        replace(file, file_path=f"{file.file_path.removesuffix('.parquet')}-{end}.{kind}", file_format=kind.upper())
        for file in files
    ]
    begun.own(copies, [file.file_path for file in files])
    paths, properties = [copy.file_path for copy in copies], json.dumps(dict(target.write_as))
    java, table = java_class(catalog.spark.jvm, __name__, "Reformat").newInstance(), begun.transaction.table()
    try:
        written = called(java, "write", table, begun.java_files(files), json.dumps(paths), kind, properties)
    except BaseException as error:
        _remove(table.io(), paths)
        if isinstance(error, Py4JError) and caused_by(error, _NOT_HELD):
            raise UnprocessableError(
                innermost_message(error), step="commit", target=target.identifier, hint=_HINT
            ) from error
        raise
    return [_measured(copy, measures) for copy, measures in zip(copies, json.loads(written), strict=True)]


def _measured(file: ContentFile, measures: Mapping[str, Any]) -> ContentFile:
    """Return a file with the sizes, counts and bounds that its writer says."""
    given = {name: measures.get(name.replace("_", "-")) or {} for name in (*_COUNTS, *_BOUNDS)}
    return replace(
        file,
        file_size_in_bytes=measures["file-size-in-bytes"],
        record_count=measures["record-count"],
        split_offsets=measures.get("split-offsets"),
        **{name: Counts(**given[name]) for name in _COUNTS},
        **{name: Bounds(**given[name]) for name in _BOUNDS},
    )


def _remove(io: Any, paths: Sequence[str]) -> None:
    for path in paths:
        with contextlib.suppress(Py4JError):
            io.deleteFile(path)
