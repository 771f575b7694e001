"""Formats changes: their values as JSON, their metadata, and the line with both.

Columns in, columns out: Spark does the work on the executors. The names and formats are Data Prepper's.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StructType,
    VariantType,
)

from calve.changes.diff import CHANGE, INSERT, UPDATE_AFTER
from calve.changes.identity import ROW_ID, RowIdentity, key_column
from calve.changes.snapshot import Snapshot
from calve.changes.typed import holds
from calve.event.columns import EVENT, TYPED
from calve.expression.sql import spark_name
from calve.table.kinds import by_spark

__all__ = ["document_id", "events", "lines", "metadata", "rendered"]

_NULL_KEY = r"\N"
"""A NULL in a document's id; unique, because backslashes in values are escaped."""
_EMPTY_KEY = r"\E"
"""The id of a key that is one empty text: a document's id is never empty. Unique for the same reason."""
_JSON = {"ignoreNullFields": "false"}
_LINE_END = "\r\n"
"""Spark's line break in Base64, after 76 characters; only document ids keep it, because ids must not change."""


def lines(changes: DataFrame, table: str, snapshot: Snapshot, identity: RowIdentity) -> DataFrame:
    """Write changes as JSON: one column, `line`, with `{"event": {…}, "metadata": {…}}` in each row.

    Args:
        changes: The result of `diff.changes`.
        table: The table's name, for the metadata.
        snapshot: The snapshot that made the changes.
        identity: How rows of the table are identified; the document's id comes from it.
    """
    attributes = f.struct(*metadata(changes, table, snapshot, identity)).alias("metadata")
    line = f.struct(f.struct(*_values(changes)).alias("event"), attributes)
    return changes.select(f.to_json(line, _JSON).alias("line"))


def events(
    changes: DataFrame, table: str, snapshot: Snapshot, identity: RowIdentity, row_id_column: str | None = None
) -> DataFrame:
    """Return changes as events: the row, and a column for each metadata attribute. Arguments as for `lines`.

    The row is a struct, `_typed`; if Parquet cannot store its types, it is JSON text, `event`. Rows without an identity
    have no `document_id`. The row id becomes a field if `row_id_column` names it.
    """
    row_id = [f.col(ROW_ID).alias(row_id_column)] if row_id_column else []
    names = _names(changes)
    if row_id_column not in names and holds(StructType([changes.schema[name] for name in names])):
        row = f.struct(*[f.col(spark_name(name)).alias(name) for name in names], *row_id).alias(TYPED)
    else:
        row = _text(changes, row_id).alias(EVENT)
    nameless = [] if identity else [f.lit(None).cast("string").alias("document_id")]
    return changes.select(row, *metadata(changes, table, snapshot, identity), *nameless)


def _text(changes: DataFrame, row_id: list[Column]) -> Column:
    """Return a row as JSON; a NULL variant gets no field, because null is a variant's value, too."""
    variants = [field.name for field in changes.schema.fields if isinstance(field.dataType, VariantType)]
    return _with_variants([*_values(changes.drop(*variants)), *row_id], variants)


def _with_variants(values: list[Column], variants: list[str]) -> Column:
    """Return a row as JSON, with its non-NULL variants after all other values."""
    text = f.to_json(f.struct(*values), _JSON) if values else f.lit("{}")
    if not variants:
        return text
    parts = [f.when(f.length(text) > 2, f.substring(text, f.lit(2), f.length(text) - 2))]
    for name in variants:
        parts.append(f.concat(f.lit(f"{json.dumps(name)}:"), f.to_json(f.col(spark_name(name)))))
    return f.concat(f.lit("{"), f.concat_ws(",", *parts), f.lit("}"))


def _values(changes: DataFrame) -> list[Column]:
    columns = {field.name: field.dataType for field in changes.schema.fields}
    return [rendered(columns[name], f.col(spark_name(name))).alias(name) for name in _names(changes)]


def _names(changes: DataFrame) -> list[str]:
    return [name for name in changes.columns if name not in (CHANGE, ROW_ID)]


def metadata(changes: DataFrame, table: str, snapshot: Snapshot, identity: RowIdentity) -> list[Column]:
    """Return the metadata of changes as named columns, in readable order."""
    is_live = f.col(CHANGE).isin(INSERT, UPDATE_AFTER)
    attributes = {
        "iceberg_operation": f.col(CHANGE),
        "iceberg_table_name": f.lit(table),
        "iceberg_snapshot_id": f.lit(snapshot.snapshot_id).cast("bigint"),
        "iceberg_sequence_number": f.lit(snapshot.sequence_number).cast("bigint"),
        "iceberg_commit_timestamp": f.lit(snapshot.committed_at),
    }
    if identity:
        attributes["document_id"] = document_id(changes, identity)
    attributes["bulk_action"] = f.when(is_live, "index").otherwise("delete")
    return [column.alias(name) for name, column in attributes.items()]


def document_id(changes: DataFrame, identity: RowIdentity) -> Column:
    r"""Return the id of a row as text: the values of its key joined by `|`, with `|` and `\` escaped by `\`.

    Two keys never have the same text; a NULL is `\N`, and a key that is one empty text `\E`. If the row id identifies
    rows, it is that id in decimal.
    """
    if identity.by_row_id:
        return f.col(ROW_ID).cast("string")
    joined = f.concat_ws("|", *[_key_text(changes, name) for name in identity.key])
    return f.when(joined == "", f.lit(_EMPTY_KEY)).otherwise(joined)


def _key_text(changes: DataFrame, name: str) -> Column:
    column = key_column(name, changes.columns)
    kind = changes.select(column).schema.fields[0].dataType
    form = by_spark(kind.simpleString()).json
    text = f.base64(column) if form == "base64" else rendered(kind, column).cast("string")
    escaped = f.regexp_replace(text, r"([\\|])", r"\\$1") if form == "string" else text
    return f.coalesce(escaped, f.lit(_NULL_KEY))


def rendered(kind: DataType, column: Column) -> Column:
    """Convert a value to a type that JSON can represent.

    Decimals become text with all their digits; dates and timestamps ISO 8601 (with `Z` if they have a time zone);
    binary Base64; keys of maps, NaN and the infinities text. The same holds for nested values; all others stay.
    """
    if isinstance(kind, StructType):
        fields = [rendered(field.dataType, column.getField(field.name)).alias(field.name) for field in kind.fields]
        return f.when(column.isNotNull(), f.struct(*fields))
    if isinstance(kind, ArrayType):
        return f.transform(column, _each(kind.elementType))
    if isinstance(kind, MapType):
        by_text = f.transform_keys(column, lambda key, _: rendered(kind.keyType, key).cast("string"))
        return f.transform_values(by_text, lambda _, value: rendered(kind.valueType, value))
    return _scalar(kind, column)


def _each(kind: DataType) -> Callable[[Column], Column]:
    return lambda element: rendered(kind, element)


def _scalar(kind: DataType, column: Column) -> Column:
    row = by_spark(kind.simpleString())
    match row.json:
        case "decimal" | "date" | "null":
            return column.cast("string")
        case "timestamp":
            text = f.replace(column.cast("string"), f.lit(" "), f.lit("T"))
            return f.concat(text, f.lit("Z")) if row.is_zoned else text
        case "base64":
            return f.replace(f.base64(column), f.lit(_LINE_END), f.lit(""))
    return column
