"""Turns the rows that a snapshot's files hold into the changes that it made: DataFrames in, a DataFrame out.

Every row comes with a sign: +1 from new files, and from files that stay where it was deleted before; -1 from files
that went, and from files that stay where it is deleted now. What is carried over unchanged meets itself with the other
sign, so that the sum over equal rows is the change: a multiset difference, whatever the kinds of deletes. One rule for
copy-on-write, position deletes, equality deletes, deletion vectors, and deletes that were removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from calve.changes.equality import comparable
from calve.changes.identity import ROW_ID, Identity, key_column
from calve.changes.plan import ADDED, DELETED, RESTORED, Plan
from calve.errors import SettingsError
from calve.sql import spark_name

__all__ = ["CHANGE", "DELETE", "INSERT", "UPDATE_AFTER", "UPDATE_BEFORE", "Selection", "changes"]

CHANGE = "_change_type"
"""The column that says what a row is: INSERT, DELETE, UPDATE_BEFORE or UPDATE_AFTER."""
INSERT, DELETE, UPDATE_BEFORE, UPDATE_AFTER = ("INSERT", "DELETE", "UPDATE_BEFORE", "UPDATE_AFTER")
_SIGN = "_calve_sign"
_PLUS = {ADDED, RESTORED}


@dataclass(frozen=True)
class Selection:
    """The part of a table whose changes are told, as if the table had no other.

    Attributes:
        columns: Top-level columns, in this order; none: all.
        where: Spark SQL over all columns; a row that begins or ceases to fulfil it is an INSERT or a DELETE.
    """

    columns: tuple[str, ...] = ()
    where: str | None = None

    def of(self, frame: DataFrame) -> DataFrame:
        """Return the rows that are wanted; their columns come by `names`."""
        return frame.where(self.where) if self.where else frame

    def check(self, identifier: str, frame: DataFrame, identity: Identity) -> None:
        """See whether it can be of a table that has the columns of a DataFrame.

        Raises:
            SettingsError: A column is not there, one of the key is left out, or `where` is no condition.
        """
        known = ", ".join(frame.columns)
        for name in self.columns:
            if name not in frame.columns:
                raise _fault(identifier, f"has no column {name}", f"It has: {known}")
        for name in identity.columns:
            if self.columns and name not in self.columns and name.partition(".")[0] not in self.columns:
                raise _fault(identifier, f"is read without its key column {name}", f"Add {name} to `columns`")
        try:
            _ = self.of(frame).schema
        except PySparkException as error:
            reason = next((line for line in str(error).splitlines() if line.strip()), "no condition")
            raise _fault(identifier, f"cannot be filtered by `{self.where}`: {reason}", f"It has: {known}") from error

    def names(self, frame: DataFrame) -> list[str]:
        """Return the columns that are wanted."""
        return list(self.columns or frame.columns)


def _fault(identifier: str, what: str, hint: str) -> SettingsError:
    return SettingsError(f"The table {identifier} {what}", step="changes", target=identifier, hint=hint)


def changes(plan: Plan, identity: Identity, selection: Selection = Selection()) -> DataFrame | None:
    """Return what a step changed, one row a change; None when it touched no file.

    Columns: those of the selection, as they are now, `_change_type`, and `_row_id` (NULL where rows are not known by
    it). Rows of one key stand together, the old ones before the new ones. An update that changes nothing is no change.
    """
    identity = identity if plan.has_lineage else identity.without_row_id()
    frames = {name: _signed(plan, name, selection) for name, count in plan.files.items() if count}
    if not frames:
        return None
    if frames.keys() == {ADDED}:
        return _told(frames[ADDED], f.lit(INSERT))
    if not frames.keys() & _PLUS:
        return _told(_union(frames), f.lit(DELETE))
    return _paired(_net(_union(frames), identity), identity)


def _signed(plan: Plan, name: str, selection: Selection) -> DataFrame:
    """One set's rows with their sign, and with `_row_id` where rows have it."""
    frame = plan.read(name)
    names = [f.col(spark_name(column)) for column in selection.names(frame)]
    frame = selection.of(frame)
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
        comparable(signed.schema[name].dataType, f.col(spark_name(name)), number) for number, name in enumerate(columns)
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
    columns = [f.col(spark_name(name)) for name in _data_columns(frame)]
    return frame.select(*columns, change.alias(CHANGE), f.col(ROW_ID))


def _data_columns(frame: DataFrame) -> list[str]:
    """The table's columns: all that come before those of this module."""
    columns: list[str] = frame.columns
    return columns[: columns.index(ROW_ID)]
