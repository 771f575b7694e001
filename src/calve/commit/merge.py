"""Deletes and updates rows of given keys within a transaction, by Spark's MERGE: the modes without equality deletes.

MERGE commits by itself and knows no fence. So it is given a table whose operations are those of the transaction: what
it commits is one more update there, and becomes visible with the rest by the fence's compare-and-swap, or never. Spark
finds the rows and writes position deletes (format version 2), deletion vectors (version 3) or files without the rows,
as the property `write.merge.mode` says; within the transaction that is the sink's, after it the table's again.

Only updates that lack columns are written by the MERGE, because it alone sees the older row. All other rows come as
they were staged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame, SparkSession, functions

from calve.commit.catalog import Catalog
from calve.commit.staged import Staged, staged
from calve.errors import CommitError
from calve.reduce.key import ABSENT

__all__ = ["EQUALITY_DELETE", "WriteMode", "merge_changes"]

WriteMode = Literal["equality-delete", "merge-on-read", "copy-on-write"]
EQUALITY_DELETE: WriteMode = "equality-delete"

_MODE = "write.merge.mode"


def merge_changes(
    catalog: Catalog, transaction: Any, branch: str, mode: WriteMode, files: Sequence[Mapping[str, Any]]
) -> list[bytes]:
    """Delete the rows whose keys are in staged files, and update those that these have more of; a Spark job.

    An update that lacks a required column, and has no older row with it, is no row: it is left out.

    Args:
        catalog: The catalog of the table, with the session that runs the job.
        transaction: The Java `Transaction`; it gets more snapshots, or none if no row is found.
        branch: The branch that has the rows.
        mode: Not `EQUALITY_DELETE`.
        files: Equality deletes, in the JSON of the REST catalog's specification; they are only read. Those with the
            column `ABSENT` have rows: updates that lack columns. A key that is deleted as well is updated afterwards.

    Returns:
        The dead letters of the events of updates that were left out, as lines of JSON.

    Raises:
        CommitError: An update would have to be left out, and nobody knows its events any more.
        SinkUnavailableError: The storage does not give a file at the moment.
    """
    jvm: Any = catalog.spark._jvm
    operations = transaction.table().operations()
    table = jvm.org.apache.iceberg.BaseTable(operations, transaction.table().name())
    found = [
        staged(catalog, table, ids, [file["file-path"] for file in files if tuple(file["equality-ids"]) == ids])
        for ids in dict.fromkeys(tuple(file["equality-ids"]) for file in files)
    ]
    if not _branch(transaction, operations.current(), branch, any(one.columns for one in found)):
        return []
    before = operations.current().properties().get(_MODE)
    transaction.updateProperties().set(_MODE, mode).commit()
    letters: list[bytes] = []
    for one in found:
        relation = _relation(jvm, table, branch)
        if len(lost := _Merge(catalog.spark, relation, one).without_older_row()):
            told = one.letters_of(lost)
            if not all(told):
                raise _incomplete(table.name(), one, len(lost))
            letters += [line for lines in told for line in lines]
            one = one.without(lost)
        if one.columns or len(one.deletes):
            _Merge(catalog.spark, relation, one).run()
    restored = transaction.updateProperties()
    (restored.remove(_MODE) if before is None else restored.set(_MODE, before)).commit()
    return letters


def _branch(transaction: Any, start: Any, branch: str, needed: bool) -> bool:
    """Say whether there is anything to look for rows in; make the branch, where it is `needed` without a row even."""
    if start.ref(branch) is not None:
        return True
    if start.currentSnapshot() is not None:
        transaction.manageSnapshots().createBranch(branch, start.currentSnapshot().snapshotId()).commit()
    elif needed:
        transaction.newFastAppend().toBranch(branch).commit()
    return needed or start.currentSnapshot() is not None


class _Merge:
    """One MERGE into a table that no catalog knows: the parsed plan gets relations in the place of names."""

    def __init__(self, spark: SparkSession, relation: Any, changes: Staged) -> None:
        self._spark = spark
        self._relation = relation
        self._changes = changes
        same = [f"target.{_quoted(*path)} = source.k{number}" for number, path in enumerate(changes.paths)]
        self._same = " AND ".join(same)

    def run(self) -> None:
        """Delete and update."""
        jvm: Any = self._spark._jvm
        session: Any = self._spark._jsparkSession
        text = f"MERGE INTO t AS target USING s AS source ON {self._same} {self._actions()}"
        plan = session.sessionState().sqlParser().parsePlan(text)
        source = self._changes.frame(self._spark)._jdf.logicalPlan()
        children = [
            plan.left().withNewChildren(_sequence(jvm, self._relation)),
            plan.right().withNewChildren(_sequence(jvm, source)),
        ]
        jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan.withNewChildren(_sequence(jvm, *children)))

    def _actions(self) -> str:
        columns, kept = self._changes.columns, self._changes.kept
        if not columns:
            return "WHEN MATCHED THEN DELETE"
        values = []
        for number, name in columns.items():
            value, old = f"source.c{number}", f"target.{_quoted(name)}"
            if number in kept:
                value = f"CASE WHEN array_contains(source.{ABSENT}, {number}) THEN {old} ELSE {value} END"
            values.append(f"{old} = {value}")
        names = ", ".join(map(_quoted, columns.values()))
        given = ", ".join(f"source.c{number}" for number in columns)
        return (
            f"WHEN MATCHED AND source.{ABSENT} IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET {', '.join(values)} "
            f"WHEN NOT MATCHED AND source.{ABSENT} IS NOT NULL THEN INSERT ({names}) VALUES ({given})"
        )

    def without_older_row(self) -> npt.NDArray[np.int64]:
        """Find the updates that lack a required column, and have no older row in the table that has it (positions)."""
        surely, doubtful = self._changes.incomplete()
        if not len(doubtful):
            return surely
        jvm: Any = self._spark._jvm
        rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._spark._jsparkSession, self._relation)
        target = DataFrame(rows, self._spark).alias("target")
        source = self._changes.keys_of(doubtful, self._spark).alias("source")
        lost = source.join(target, functions.expr(self._same), "left_anti").select("row").collect()
        return np.sort(np.concatenate([surely, np.array([row[0] for row in lost], np.int64)]))


def _relation(jvm: Any, table: Any, branch: str) -> Any:
    found = jvm.org.apache.iceberg.spark.source.SparkTable.create(table, branch)
    transforms = jvm.scala.Option.apply(jvm.org.apache.iceberg.spark.SparkFunctionCatalog.get())
    return jvm.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation.create(
        found, transforms, jvm.scala.Option.empty()
    )


def _incomplete(table: str, changes: Staged, count: int) -> CommitError:
    names = ", ".join(changes.columns[number] for number in changes.required.intersection(changes.kept))
    return CommitError(
        f"{count} staged updates of the table {table} lack a required column ({names}), and no older row has it",
        step="commit",
        target=table,
        hint="Make the column optional (ALTER TABLE … ALTER COLUMN … DROP NOT NULL), or add the missing rows; the "
        "commit then goes on by itself",
    )


def _quoted(*path: str) -> str:
    return ".".join(f"`{re.sub('`', '``', name)}`" for name in path)


def _sequence(jvm: Any, *values: Any) -> Any:
    """Give a Scala `Seq`."""
    found = jvm.java.util.ArrayList()
    for value in values:
        found.add(value)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(found).toIndexedSeq()
