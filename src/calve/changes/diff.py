"""Turns the rows that a snapshot's files hold into the changes that it made: DataFrames in, a DataFrame out.

Every row comes with a sign: +1 from new files, and from files that stay where it was deleted before; -1 from files
that went, and from files that stay where it is deleted now. What is carried over unchanged meets itself with the other
sign, so that the sum over equal rows is the change: a multiset difference, whatever the kinds of deletes. One rule for
copy-on-write, position deletes, equality deletes, deletion vectors, and deletes that were removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from calve.changes.equality import comparable
from calve.changes.identity import ROW_ID, Identity, key_column, quoted
from calve.changes.plan import ADDED, DELETED, RESTORED, Plan

__all__ = ["CHANGE", "DELETE", "INSERT", "UPDATE_AFTER", "UPDATE_BEFORE", "changes"]

CHANGE = "_change_type"
"""The column that says what a row is: INSERT, DELETE, UPDATE_BEFORE or UPDATE_AFTER."""
INSERT, DELETE, UPDATE_BEFORE, UPDATE_AFTER = ("INSERT", "DELETE", "UPDATE_BEFORE", "UPDATE_AFTER")
_SIGN = "_calve_sign"
_PLUS = {ADDED, RESTORED}


def changes(plan: Plan, identity: Identity) -> DataFrame | None:
    """Give what a step changed, one row a change; None when it touched no file.

    Columns: the table's as they are now, `_change_type`, and `_row_id` (NULL where rows are not known by it). Rows of
    one key stand together, the old ones before the new ones. An update that changes nothing is no change.
    """
    identity = identity if plan.has_lineage else identity.without_row_id()
    frames = {name: _signed(plan, name) for name, count in plan.files.items() if count}
    if not frames:
        return None
    if frames.keys() == {ADDED}:
        return _told(frames[ADDED], f.lit(INSERT))
    if not frames.keys() & _PLUS:
        return _told(_union(frames), f.lit(DELETE))
    return _paired(_net(_union(frames), identity), identity)


def _signed(plan: Plan, name: str) -> DataFrame:
    """One set's rows with their sign, and with `_row_id` where rows have it."""
    frame = plan.read(name)
    names = [f.col(quoted(column)) for column in frame.columns]
    names += [f.col(ROW_ID) if plan.has_lineage else f.lit(None).cast("bigint").alias(ROW_ID)]
    if name in (DELETED, RESTORED):
        frame = frame.where(f.col("_deleted"))
    return frame.select(*names, f.lit(1 if name in _PLUS else -1).alias(_SIGN))


def _union(frames: Mapping[str, DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames.values())


def _net(signed: DataFrame, identity: Identity) -> DataFrame:
    """Sum the signs of equal rows, and give each row as often as it is left over."""
    if identity:  # pairing wants a key's rows together, too: one shuffle for both
        signed = signed.repartition(*[key_column(name, signed.columns) for name in identity.key])
    columns = _data_columns(signed)
    ways = [
        comparable(signed.schema[name].dataType, f.col(quoted(name)), number) for number, name in enumerate(columns)
    ]
    keys = [key for way in ways for key in way.keys]
    row_id = [f.col(ROW_ID)] if identity.by_row_id else []
    aggregates = [way.aggregate for way in ways if way.aggregate is not None]
    summed = signed.groupBy(*keys, *row_id).agg(f.sum(_SIGN).alias(_SIGN), *aggregates).where(f.col(_SIGN) != 0)
    values = [way.value.alias(name) for way, name in zip(ways, columns, strict=True)]
    kept = f.col(ROW_ID) if identity.by_row_id else f.lit(None).cast("bigint")
    copies = f.explode(f.sequence(f.lit(1).cast("bigint"), f.abs(_SIGN)))
    return summed.select(*values, kept.alias(ROW_ID), f.signum(_SIGN).cast("int").alias(_SIGN), copies.alias("_copy"))


def _paired(net: DataFrame, identity: Identity) -> DataFrame:
    """Name the changes: an old and a new row of one key are an update."""
    is_old = f.col(_SIGN) < 0
    if not identity:
        return _told(net, f.when(is_old, DELETE).otherwise(INSERT))
    one_key = Window.partitionBy(*[key_column(name, net.columns) for name in identity.key]).orderBy(_SIGN)
    whole = one_key.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    olds = f.sum(is_old.cast("int")).over(whole)
    ranked = net.select(
        "*",
        olds.alias("_olds"),
        f.least(olds, f.count(f.lit(1)).over(whole) - olds).alias("_pairs"),
        f.row_number().over(one_key).alias("_place"),
    )
    is_pair = f.when(is_old, f.col("_place")).otherwise(f.col("_place") - f.col("_olds")) <= f.col("_pairs")
    named = f.when(is_old & is_pair, UPDATE_BEFORE).when(is_old, DELETE).when(is_pair, UPDATE_AFTER)
    return _told(ranked, named.otherwise(INSERT))


def _told(frame: DataFrame, change: Column) -> DataFrame:
    columns = [f.col(quoted(name)) for name in _data_columns(frame)]
    return frame.select(*columns, change.alias(CHANGE), f.col(ROW_ID))


def _data_columns(frame: DataFrame) -> list[str]:
    """The table's columns: all that come before those of this module."""
    columns: list[str] = frame.columns
    return columns[: columns.index(ROW_ID)]
