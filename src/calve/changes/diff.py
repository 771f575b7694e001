"""Computes the changes of a snapshot from the rows of its files: DataFrames in, a DataFrame out.

Every row has a sign: +1 in new files, and in kept files in which it is no longer deleted; -1 in removed files, and in
kept files in which it is now deleted. Unchanged rows appear with both signs. So the sum over equal rows is the change:
a multiset difference. This one rule covers copy-on-write, position deletes, equality deletes, deletion vectors, and
removed deletes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from calve.changes.equality import comparable
from calve.changes.identity import ROW_ID, RowIdentity, key_column
from calve.changes.plan import ADDED, DELETED, RESTORED, Plan
from calve.errors import SettingsError
from calve.expression.sql import spark_name

__all__ = ["CHANGE", "DELETE", "INSERT", "UPDATE_AFTER", "UPDATE_BEFORE", "Selection", "changes"]

CHANGE = "_change_type"
"""The column that says what a row is: INSERT, DELETE, UPDATE_BEFORE or UPDATE_AFTER."""
INSERT, DELETE, UPDATE_BEFORE, UPDATE_AFTER = ("INSERT", "DELETE", "UPDATE_BEFORE", "UPDATE_AFTER")
IS_DELETED = "_deleted"
"""Iceberg's column that says whether a row is deleted."""
_SIGN = "_calve_sign"
_PLUS = {ADDED, RESTORED}


@dataclass(frozen=True)
class Selection:
    """The part of a table whose changes are read.

    Attributes:
        columns: Top-level columns, in this order; none: all.
        where: Spark SQL over all columns; a row that starts or stops matching it is an INSERT or a DELETE.
    """

    columns: tuple[str, ...] = ()
    where: str | None = None

    def of(self, frame: DataFrame) -> DataFrame:
        """Return the selected rows, with all columns."""
        return frame.where(self.where) if self.where else frame

    def check(self, identifier: str, frame: DataFrame, identity: RowIdentity) -> None:
        """Check that the selection fits the columns of a DataFrame.

        Raises:
            SettingsError: A column does not exist, a key column is missing, or `where` is not a condition.
        """
        columns = ", ".join(frame.columns)
        for name in self.columns:
            if name not in frame.columns:
                raise _fault(identifier, f"has no column {name}", f"It has: {columns}")
        for name in identity.columns:
            if self.columns and name not in self.columns and name.partition(".")[0] not in self.columns:
                raise _fault(identifier, f"is read without its key column {name}", f"Add {name} to `columns`")
        try:
            _ = self.of(frame).schema
        except PySparkException as error:
            reason = next((line for line in str(error).splitlines() if line.strip()), "no condition")
            raise _fault(identifier, f"cannot be filtered by `{self.where}`: {reason}", f"It has: {columns}") from error

    def names(self, frame: DataFrame) -> list[str]:
        """Return the selected columns."""
        return list(self.columns or [name for name in frame.columns if name not in (ROW_ID, IS_DELETED)])


def _fault(identifier: str, problem: str, hint: str) -> SettingsError:
    return SettingsError(f"The table {identifier} {problem}", step="changes", target=identifier, hint=hint)


def changes(plan: Plan, identity: RowIdentity, selection: Selection = Selection()) -> DataFrame | None:
    """Return the changes of a step, one row per change; None if it changed no file.

    Columns: those of the selection in their current form, `_change_type`, and `_row_id` (NULL unless it identifies
    rows). Rows of one key are adjacent, old rows before new ones. An update that changes nothing is left out.
    """
    identity = identity if plan.has_lineage else identity.without_row_id()
    frames = {name: _signed(plan, name, selection) for name, count in plan.files.items() if count}
    if not frames:
        return None
    if frames.keys() == {ADDED}:
        return _finish(frames[ADDED], f.lit(INSERT))
    if not frames.keys() & _PLUS:
        return _finish(_union(frames), f.lit(DELETE))
    return _paired(_net(_union(frames), identity), identity)


def _signed(plan: Plan, name: str, selection: Selection) -> DataFrame:
    """Return the rows of one set with their sign, and with `_row_id` if rows have it."""
    frame = plan.read(name)
    names = [f.col(spark_name(column)) for column in selection.names(frame)]
    frame = selection.of(frame)
    names += [f.col(ROW_ID) if plan.has_lineage else f.lit(None).cast("bigint").alias(ROW_ID)]
    if name in (DELETED, RESTORED):
        frame = frame.where(f.col(IS_DELETED))
    return frame.select(*names, f.lit(1 if name in _PLUS else -1).alias(_SIGN))


def _union(frames: Mapping[str, DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames.values())


def _net(signed: DataFrame, identity: RowIdentity) -> DataFrame:
    """Sum the signs of equal rows, and repeat each row by the absolute sum."""
    if identity:  # pairing needs the rows of a key together, too: one shuffle for both
        signed = signed.repartition(*[key_column(name, signed.columns) for name in identity.key])
    columns = _data_columns(signed)
    comparables = [
        comparable(signed.schema[name].dataType, f.col(spark_name(name)), number) for number, name in enumerate(columns)
    ]
    keys = [key for column in comparables for key in column.keys]
    row_id = [f.col(ROW_ID)] if identity.by_row_id else []
    aggregates = [column.aggregate for column in comparables if column.aggregate is not None]
    summed = signed.groupBy(*keys, *row_id).agg(f.sum(_SIGN).alias(_SIGN), *aggregates).where(f.col(_SIGN) != 0)
    values = [column.value.alias(name) for column, name in zip(comparables, columns, strict=True)]
    row_id_or_null = f.col(ROW_ID) if identity.by_row_id else f.lit(None).cast("bigint")
    copies = f.explode(f.sequence(f.lit(1).cast("bigint"), f.abs(_SIGN)))
    return summed.select(
        *values, row_id_or_null.alias(ROW_ID), f.signum(_SIGN).cast("int").alias(_SIGN), copies.alias("_copy")
    )


def _paired(net: DataFrame, identity: RowIdentity) -> DataFrame:
    """Set the change types: an old and a new row of one key are an update."""
    is_old = f.col(_SIGN) < 0
    if not identity:
        return _finish(net, f.when(is_old, DELETE).otherwise(INSERT))
    ordered = Window.partitionBy(*[key_column(name, net.columns) for name in identity.key]).orderBy(_SIGN)
    all_rows = ordered.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    olds = f.sum(is_old.cast("int")).over(all_rows)
    ranked = net.select(
        "*",
        olds.alias("_olds"),
        f.least(olds, f.count(f.lit(1)).over(all_rows) - olds).alias("_pairs"),
        f.row_number().over(ordered).alias("_position"),
    )
    is_pair = f.when(is_old, f.col("_position")).otherwise(f.col("_position") - f.col("_olds")) <= f.col("_pairs")
    named = f.when(is_old & is_pair, UPDATE_BEFORE).when(is_old, DELETE).when(is_pair, UPDATE_AFTER)
    return _finish(ranked, named.otherwise(INSERT))


def _finish(frame: DataFrame, change: Column) -> DataFrame:
    columns = [f.col(spark_name(name)) for name in _data_columns(frame)]
    return frame.select(*columns, change.alias(CHANGE), f.col(ROW_ID))


def _data_columns(frame: DataFrame) -> list[str]:
    """Return the table's columns: all before those that this module adds."""
    columns: list[str] = frame.columns
    return columns[: columns.index(ROW_ID)]
