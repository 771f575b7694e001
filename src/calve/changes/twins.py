"""Finds rows that share the key of a deleted row: what holds one row for each key then has to hold another one.

Iceberg does not check that keys are unique. Of two rows with one key a document, or the row of a mirror, is the one
that was written last; when one of the two is deleted, the key is not gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from calve.changes.diff import CHANGE, DELETE, UPDATE_AFTER, UPDATE_BEFORE
from calve.changes.identity import ROW_ID, RowIdentity
from calve.changes.record import document_id
from calve.expression.sql import spark_name

__all__ = ["keeping_twins"]

_KEY, _SHARED = "_calve_key", "_calve_shared"


@contextmanager
def keeping_twins(changes: DataFrame, identity: RowIdentity, rows: DataFrame) -> Iterator[tuple[DataFrame, int]]:
    """Turn the delete of a row into an update to another row with its key, if there is one.

    The changes can be read only inside the block. Runs on the driver.

    Args:
        changes: The result of `diff.changes`.
        identity: Whose columns are the key.
        rows: The rows of the table after the changes, with the columns of the changes.

    Yields:
        The changes, and how many keys of deleted rows other rows have.
    """
    changes = changes.persist()
    shared = None
    try:
        gone = changes.where(f.col(CHANGE) == DELETE).select(document_id(changes, identity).alias(_KEY)).distinct()
        shared = None if gone.isEmpty() else _shared(rows, gone, identity)
        if shared is None:
            yield changes, 0
        else:
            yield _with_others(changes, rows, shared, identity), shared.count()
    finally:
        changes.unpersist()
        if shared is not None:
            shared.unpersist()


def _shared(rows: DataFrame, gone: DataFrame, identity: RowIdentity) -> DataFrame | None:
    """Return the keys that rows have, of those that are gone; only the key's columns are read. None: no such key."""
    keys = rows.select(document_id(rows, identity).alias(_KEY)).join(gone, _KEY, "left_semi").distinct().persist()
    if not keys.isEmpty():
        return keys
    keys.unpersist()
    return None


def _with_others(changes: DataFrame, rows: DataFrame, shared: DataFrame, identity: RowIdentity) -> DataFrame:
    """Return the changes, with updates in place of deletes of shared keys; the new rows come after all old ones."""
    names = [f.col(spark_name(name)) for name in changes.columns if name not in (CHANGE, ROW_ID)]
    marked = changes.withColumn(_KEY, document_id(changes, identity)).join(
        f.broadcast(shared.withColumn(_SHARED, f.lit(True))), _KEY, "left"
    )  # a broadcast leaves the order of the changes as it is
    is_old = (f.col(CHANGE) == DELETE) & f.col(_SHARED)
    olds = marked.select(*names, f.when(is_old, UPDATE_BEFORE).otherwise(f.col(CHANGE)).alias(CHANGE), f.col(ROW_ID))
    others = rows.withColumn(_KEY, document_id(rows, identity)).join(shared, _KEY, "left_semi").dropDuplicates([_KEY])
    return olds.unionAll(others.select(*names, f.lit(UPDATE_AFTER), f.lit(None).cast("bigint")))
