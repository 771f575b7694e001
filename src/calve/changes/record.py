"""How a change is written down: its values as JSON has them, its metadata, and the line of both.

Columns in, columns out: the work is done by Spark on the executors. The names and forms are Data Prepper's.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from calve.changes.diff import CHANGE, INSERT, UPDATE_AFTER
from calve.changes.identity import ROW_ID, Identity, key_column
from calve.changes.snapshot import Snapshot
from calve.changes.typed import holds
from calve.event.columns import EVENT, TYPED
from calve.sql import spark_name

__all__ = ["document_id", "events", "lines", "metadata", "rendered"]

_NULL_KEY = r"\N"
"""A NULL in a document's id: no value is written so, because backslashes of values are escaped."""
_JSON = {"ignoreNullFields": "false"}
_LINE_END = "\r\n"
"""What Spark divides Base64 with into lines of 76 characters; only ids of documents keep it, which must not change."""


def lines(changes: DataFrame, table: str, snapshot: Snapshot, identity: Identity) -> DataFrame:
    """Write changes as JSON: one column, `line`, with `{"event": {…}, "metadata": {…}}` in each row.

    Args:
        changes: What `diff.changes` gives.
        table: The table's name, for the metadata.
        snapshot: The snapshot that made the changes.
        identity: How rows of the table are known; it gives the document's id.
    """
    told = f.struct(*metadata(changes, table, snapshot, identity)).alias("metadata")
    whole = f.struct(f.struct(*_values(changes)).alias("event"), told)
    return changes.select(f.to_json(whole, _JSON).alias("line"))


def events(
    changes: DataFrame, table: str, snapshot: Snapshot, identity: Identity, row_id_column: str | None = None
) -> DataFrame:
    """Return changes as events: the row, and a column for each metadata attribute; arguments of `lines`.

    The row is a struct, `_typed`, or where Parquet does not hold its types, its JSON text, `event`. Rows that cannot be
    told apart have no `document_id`. The row id becomes a field if it is given a name.
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
    """Return a row as JSON; a variant that is NULL has no field, because null is one of its values."""
    variants = [field.name for field in changes.schema.fields if isinstance(field.dataType, VariantType)]
    return _with_variants([*_values(changes.drop(*variants)), *row_id], variants)


def _with_variants(values: list[Column], variants: list[str]) -> Column:
    """Return a row as JSON, the variants that are there behind all other values."""
    text = f.to_json(f.struct(*values), _JSON) if values else f.lit("{}")
    if not variants:
        return text
    whole = [f.when(f.length(text) > 2, f.substring(text, f.lit(2), f.length(text) - 2))]
    for name in variants:
        whole.append(f.concat(f.lit(f"{json.dumps(name)}:"), f.to_json(f.col(spark_name(name)))))
    return f.concat(f.lit("{"), f.concat_ws(",", *whole), f.lit("}"))


def _values(changes: DataFrame) -> list[Column]:
    columns = {field.name: field.dataType for field in changes.schema.fields}
    return [rendered(columns[name], f.col(spark_name(name))).alias(name) for name in _names(changes)]


def _names(changes: DataFrame) -> list[str]:
    return [name for name in changes.columns if name not in (CHANGE, ROW_ID)]


def metadata(changes: DataFrame, table: str, snapshot: Snapshot, identity: Identity) -> list[Column]:
    """Return the metadata of changes as named columns, in the order in which one reads them."""
    is_live = f.col(CHANGE).isin(INSERT, UPDATE_AFTER)
    told = {
        "iceberg_operation": f.col(CHANGE),
        "iceberg_table_name": f.lit(table),
        "iceberg_snapshot_id": f.lit(snapshot.snapshot_id).cast("bigint"),
        "iceberg_sequence_number": f.lit(snapshot.sequence_number).cast("bigint"),
        "iceberg_commit_timestamp": f.lit(snapshot.committed_at),
    }
    if identity:
        told["document_id"] = document_id(changes, identity)
    told["bulk_action"] = f.when(is_live, "index").otherwise("delete")
    return [column.alias(name) for name, column in told.items()]


def document_id(changes: DataFrame, identity: Identity) -> Column:
    r"""Return the text that names a row: the values of its key joined by `|`, with `|` and `\` escaped by `\`.

    Two keys never give the same text; a NULL is `\N`. Where rows are known by their row id, it is that id in decimal.
    """
    if identity.by_row_id:
        return f.col(ROW_ID).cast("string")
    return f.concat_ws("|", *[_key_text(changes, name) for name in identity.key])


def _key_text(changes: DataFrame, name: str) -> Column:
    column = key_column(name, changes.columns)
    kind = changes.select(column).schema.fields[0].dataType
    text = f.base64(column) if isinstance(kind, BinaryType) else rendered(kind, column).cast("string")
    escaped = f.regexp_replace(text, r"([\\|])", r"\\$1") if isinstance(kind, StringType) else text
    return f.coalesce(escaped, f.lit(_NULL_KEY))


def rendered(kind: DataType, column: Column) -> Column:
    """Return a value as JSON has it.

    Decimals are text with all their digits; dates and timestamps ISO 8601 (`Z` where they are moments); binary is
    Base64; keys of maps are text; NaN and the infinities are text. Nested values likewise; everything else stays.
    """
    if isinstance(kind, StructType):
        fields = [rendered(each.dataType, column.getField(each.name)).alias(each.name) for each in kind.fields]
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
    if isinstance(kind, (DecimalType, DateType, NullType)):
        return column.cast("string")
    if isinstance(kind, (TimestampType, TimestampNTZType)):
        text = f.replace(column.cast("string"), f.lit(" "), f.lit("T"))
        return f.concat(text, f.lit("Z")) if isinstance(kind, TimestampType) else text
    return f.replace(f.base64(column), f.lit(_LINE_END), f.lit("")) if isinstance(kind, BinaryType) else column
