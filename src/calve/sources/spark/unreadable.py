"""Keeps Spark's own formats of files from losing something silently.

Where a record does not fit, Spark's `json`, `csv` and `xml` make NULL of its values, and say so only in a column that
the schema asks for. Calve asks for it: the text of such a record becomes a dead letter, and is in no table.
"""

from __future__ import annotations

import re
from typing import Any

from calve.engine.engine import Engine
from calve.errors import SourceError
from calve.sources.file.rows import REMAINS_BYTES
from calve.sources.spark.reader import UNREADABLE
from calve.sources.spark.settings import SparkSettings

__all__ = ["keeps_unreadable", "strict_options", "with_unreadable"]

_COLUMN = "columnNameOfCorruptRecord"
_FORMAT = re.compile(
    r"(?:.*\.)?(json|csv|xml|text|parquet|orc|avro|binaryfile)(?:fileformat|datasourcev2|\.defaultsource)?", re.I
)
"""Spark's own formats of files, by name or by class."""
_KAFKA = ("kafka", "org.apache.spark.sql.kafka010.kafkasourceprovider")
_PARSED = ("json", "csv", "xml")
_OPTIONS = {
    "json": {"enableDateTimeParsingFallback": "false"},  # else the date "20261128" is a day of the year 57443
    "csv": {"columnPruning": "false"},  # else lines with too few or too many values pass
    "orc": {"mergeSchema": "true"},  # else columns that the first file lacks are left out
    "parquet": {"mergeSchema": "true"},
}
_MODES = ("permissive", "dropmalformed", "failfast")
"""Spark takes any other text for the first one."""
_FOREVER = "36500d"
"""By default a stream leaves out a file that is a week older than the newest one."""


def strict_options(settings: SparkSettings) -> dict[str, str]:
    """Return the options with which Spark leaves nothing out silently, without those that the user sets."""
    own = _own_format(settings)
    chosen = _chosen(settings)
    if (settings.format or "").lower() in _KAFKA and settings.read == "stream":
        return {} if any(key.startswith("starting") for key in chosen) else {"startingOffsets": "earliest"}
    if not own:
        return {}
    options = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false", **_OPTIONS.get(own, {})}
    if settings.read == "stream":
        options["maxFileAge"] = _FOREVER
    if own == "csv" and chosen.get("header", "").lower() == "true":
        options["enforceSchema"] = "false"  # else the columns of a header in another order are swapped
    return {key: value for key, value in options.items() if key.lower() not in chosen}


def keeps_unreadable(settings: SparkSettings) -> bool:
    """Return whether records that Spark cannot read are kept; with a `mode` or a column of the user's they are not."""
    own, chosen = _own_format(settings), _chosen(settings)
    column = chosen.get(_COLUMN.lower())
    if settings.schema:  # without the column in it, Spark would keep no text
        name = re.escape(column or "_corrupt_record")
        is_theirs = re.search(rf"(?<!\w){name}(?!\w)", settings.schema) is not None
    else:
        is_theirs = bool(column) and own != "csv"  # Spark finds no such column in CSV
    return own in _PARSED and not is_theirs and chosen.get("mode", "").lower() not in _MODES


def with_unreadable(engine: Engine, settings: SparkSettings, reader: Any) -> Any:
    """Return the rows of a Java reader with the column `UNREADABLE`, after `select`.

    Raises:
        SourceError: `select` does not make one row of each, or hides the column.
        Py4JError: Spark refuses something.
    """
    reader = reader.option(_COLUMN, UNREADABLE)
    kinds = engine.jvm.org.apache.spark.sql.types.StructType
    schema = kinds.fromDDL(settings.schema) if settings.schema else reader.load().schema()
    if UNREADABLE not in schema.fieldNames():
        schema = schema.add(UNREADABLE, "string")
    cut = engine.jvm.org.apache.spark.sql.functions.expr(f"left({UNREADABLE}, {REMAINS_BYTES})")
    frame = reader.schema(schema).load().withColumn(UNREADABLE, cut)  # of XML the text can be all of the file
    if not settings.select:
        return frame
    selected = frame.selectExpr(engine.object_array(*settings.select, kind="String"))
    is_kept = UNREADABLE in selected.columns()  # by `*`
    columns = _columns(selected.queryExecution().analyzed())
    if columns is None:
        message = "`select` does not make exactly one row of each, so what Spark cannot read would be lost"
        hint = "Set options.mode: FAILFAST; or do it in the pipeline, by processors such as split_event"
        raise SourceError(message, step="read", target=settings.format or "", hint=hint)
    if any(column.name() != UNREADABLE and f"{UNREADABLE}#" in str(column.references()) for column in columns):
        message = f"`select` puts {UNREADABLE}, which Calve adds, into another column"
        raise SourceError(message, step="read", target=settings.format or "", hint="Name the columns instead of `*`")
    return selected if is_kept else frame.selectExpr(engine.object_array(*settings.select, UNREADABLE, kind="String"))


def _columns(plan: Any) -> list[Any] | None:
    """Return the columns of the projections that a plan consists of, down to what it reads; None: it has others."""
    columns: list[Any] = []
    while not plan.children().isEmpty():
        if plan.nodeName() != "Project":
            return None
        listed = plan.projectList()
        columns += (listed.apply(at) for at in range(listed.size()))
        plan = plan.child()
    return columns


def _chosen(settings: SparkSettings) -> dict[str, str]:
    """Return the options of the user, whose names Spark reads in any case."""
    return {key.lower(): value for key, value in settings.options.items()}


def _own_format(settings: SparkSettings) -> str:
    """Return which of Spark's own formats of files it is; empty: none."""
    matched = _FORMAT.fullmatch(settings.format or "")
    return matched[1].lower() if matched else ""
