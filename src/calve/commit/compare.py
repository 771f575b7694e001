"""Makes a branch equal to another one that has all rows of a source table: writes only the rows that differ.

A table whose source changed without a trace is read again, but its rows are not removed: they are loaded into a branch
of their own, apart from those that readers see. Then Spark finds the rows that differ by the key, and one commit
changes them and drops that branch, so that it happens once, however often it is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, functions
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructType, VariantType

from calve.catalog.catalog import Catalog
from calve.catalog.retry import retried
from calve.commit.fence import inspect
from calve.commit.mark import CommitTarget, Mark
from calve.commit.merge import has_branch, merge, relation_of, writes_by
from calve.commit.swap import swap
from calve.engine.engine import Engine
from calve.engine.java.errors import java_errors
from calve.engine.pyspark_private import logical_plan
from calve.expression.sql import spark_name
from calve.observe.humanize import many
from calve.record.target import EQUALITY_DELETE, MERGE_ON_READ, WriteMode, apart
from calve.table.loaded import MARK

__all__ = ["ApartLostError", "Comparison", "Differences", "compare", "other_writers"]

_STEP = "commit"
_WHAT = "what"
_NEW, _CHANGED, _GONE = "new", "changed", "gone"


@dataclass(frozen=True)
class Comparison:
    """How the rows of a table are compared.

    Attributes:
        key: The path of names to each column of the key.
        write_mode: How rows are deleted.
        columns: The columns of the source table; of others NULL is no value, if all rows have it: they were dropped.
        ignored: Columns whose values may differ.
    """

    key: tuple[tuple[str, ...], ...]
    write_mode: WriteMode = EQUALITY_DELETE
    columns: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()


class ApartLostError(Exception):
    """Somebody has dropped the branch with the loaded rows. Internal: the table is stopped."""


class Differences(NamedTuple):
    """How many rows differed."""

    new: int
    changed: int
    gone: int

    def __str__(self) -> str:
        return f"{many(sum(self), 'row')} differed ({self.new:,} new, {self.changed:,} changed, {self.gone:,} gone)"


def other_writers(catalog: Catalog, target: CommitTarget, mark: Mark) -> list[str]:
    """Return the other pipelines that have committed to a branch of a table, sorted; a replay is the pipeline's own."""
    table = catalog.load(target.identifier)
    names = [name.removeprefix(MARK) for name in table.properties if name.startswith(MARK)] if table else []
    pipelines = {name.partition("@")[0] for name in names if (name.partition("@")[2] or "main") == target.branch}
    return sorted(pipelines - {mark.pipeline, f"{mark.pipeline}.replay"})


def compare(catalog: Catalog, target: CommitTarget, mark: Mark, how: Comparison) -> Differences | None:
    """Give a branch the rows of the one that was loaded apart, and drop that; a Spark job.

    Args:
        catalog: Where the table is.
        target: The table, its branch, and how rows are deleted.
        mark: Who commits.
        how: The key, and what does not count.

    Returns:
        How many rows differed; None if this was done before, or if nothing was loaded into an empty table.

    Raises:
        ApartLostError: The loaded rows are gone.
        CalveError: As `calve.commit.fence.append`.
    """
    return retried(lambda: _compare(catalog, target, mark, how))


def _compare(catalog: Catalog, target: CommitTarget, mark: Mark, how: Comparison) -> Differences | None:
    begun, loaded = catalog.begin(target.identifier), apart(mark.pipeline, target.branch)
    with catalog.steady.commits(lambda: begun.table), java_errors(_STEP, target.identifier):
        _, reached = inspect(begun, target, mark)
        if begun.start.ref(loaded) is None:
            _check_done(begun.start, mark.key(loaded), loaded)
            return None
        transaction = begun.transaction
        has_branch(transaction, begun.start, target.branch, needed=True)
        mode = MERGE_ON_READ if target.write_mode == EQUALITY_DELETE else target.write_mode
        with writes_by(transaction, mode):
            differences = _Comparing(catalog.spark, transaction, (target.branch, loaded), how).run()
        transaction.manageSnapshots().removeBranch(loaded).commit()
        transaction.updateProperties().remove(mark.key(loaded)).commit()
        begun.append(target.branch, [], mark.summary(reached))
        swap(begun, target.branch, (mark.key(target.branch), mark.text(reached)))
    return differences


def _check_done(start: Any, key: str, loaded: str) -> None:
    """Check that a branch is gone because it was compared."""
    if start.properties().get(key) is not None:
        raise ApartLostError(f"the branch {loaded} of its target was dropped, before its rows were compared")


class _Comparing:
    """The rows of two branches.

    Args:
        spark: Compares them.
        transaction: The Java `Transaction`.
        branches: The one that is changed, and the one with the right rows.
        how: The key, and what does not count.
    """

    def __init__(self, spark: Engine, transaction: Any, branches: tuple[str, str], how: Comparison) -> None:
        self._spark = spark
        self._how = how
        self._relation, other = (relation_of(spark, transaction, branch) for branch in branches)
        self._target, self._source = (_frame(spark, relation) for relation in (self._relation, other))
        self._names = self._source.columns

    def run(self) -> Differences:
        """Change the rows that differ."""
        rows = self._differing()
        counts = {row[_WHAT]: row["count"] for row in rows.groupBy(_WHAT).count().collect()}
        if counts:
            values = [(spark_name(name), f"source.c{number}") for number, name in enumerate(self._names)]
            assigned = ", ".join(f"target.{name} = {value}" for name, value in values)
            names, new = (", ".join(part) for part in zip(*values, strict=True))
            same = " AND ".join(f"target.{spark_name(*path)} = source.k{at}" for at, path in enumerate(self._how.key))
            text = (
                f"MERGE INTO t AS target USING s AS source ON {same} "
                f"WHEN MATCHED AND source.{_WHAT} = '{_GONE}' THEN DELETE WHEN MATCHED THEN UPDATE SET {assigned} "
                f"WHEN NOT MATCHED AND source.{_WHAT} <> '{_GONE}' THEN INSERT ({names}) VALUES ({new})"
            )
            merge(self._spark, text, self._relation, logical_plan(rows))
        return Differences(*(counts.get(what, 0) for what in (_NEW, _CHANGED, _GONE)))

    def _differing(self) -> DataFrame:
        """Return the rows that differ, once for each key: what each is, the key `k0`, …, and the right values."""
        paths = [spark_name(*path) for path in self._how.key]
        keys = [f"coalesce(source.{path}, target.{path}) AS k{at}" for at, path in enumerate(paths)]
        values = [f"source.{spark_name(name)} AS c{number}" for number, name in enumerate(self._names)]
        what = (
            f"CASE WHEN source.{paths[0]} IS NULL THEN '{_GONE}' WHEN target.{paths[0]} IS NULL THEN '{_NEW}' "
            f"WHEN NOT ({self._equal()}) THEN '{_CHANGED}' END AS {_WHAT}"
        )
        same = functions.expr(" AND ".join(f"source.{path} = target.{path}" for path in paths))
        both = self._source.alias("source").join(self._target.alias("target"), same, "full_outer")
        differing = both.selectExpr(what, *keys, *values).where(f"{_WHAT} IS NOT NULL")
        rows: DataFrame = differing.dropDuplicates([f"k{at}" for at in range(len(paths))]).localCheckpoint()
        return rows

    def _equal(self) -> str:
        ignored = self._how.ignored | self._dropped()
        fields = [field for field in self._source.schema.fields if field.name not in ignored]
        return " AND ".join(_same(spark_name(field.name), field.dataType) for field in fields) or "true"

    def _dropped(self) -> frozenset[str]:
        """Return the columns that the source table does not have, and no loaded row either."""
        names = [name for name in self._names if name not in self._how.columns | self._how.ignored]
        if not names:
            return frozenset()
        counts = self._source.selectExpr(*(f"count({spark_name(name)})" for name in names)).first()
        return frozenset(name for name, count in zip(names, counts, strict=True) if not count)


def _same(name: str, kind: DataType) -> str:
    """Return a condition that is true if a column has the very same value on both sides: 0.0 is not -0.0."""
    source, target = f"source.{name}", f"target.{name}"
    if _has(kind, (MapType, VariantType)):
        source, target = (f"to_json({side}, map('ignoreNullFields', 'false'))" for side in (source, target))
    same = f"{source} <=> {target}"
    if _has(kind, (FloatType, DoubleType)):
        same += f" AND CAST({source} AS STRING) <=> CAST({target} AS STRING)"
    return f"({same})"


def _has(kind: DataType, wanted: tuple[type[DataType], ...]) -> bool:
    """Return whether a type is one of some types, or has one of them inside."""
    if isinstance(kind, wanted):
        return True
    inside: Sequence[DataType] = []
    if isinstance(kind, StructType):
        inside = [field.dataType for field in kind.fields]
    elif isinstance(kind, ArrayType):
        inside = [kind.elementType]
    elif isinstance(kind, MapType):
        inside = [kind.keyType, kind.valueType]
    return any(_has(part, wanted) for part in inside)


def _frame(spark: Engine, relation: Any) -> DataFrame:
    rows = spark.jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark.java_session, relation)
    return spark.data_frame(rows)
