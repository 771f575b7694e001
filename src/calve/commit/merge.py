"""Deletes and updates rows by key within a transaction, with Spark's MERGE.

`copy-on-write` needs it, and `merge-on-read` where positions are not enough (`positions`).

MERGE commits by itself, without the fence. So it gets a table whose operations are those of the transaction: its commit
becomes one more update there, which the fence's compare-and-swap makes visible with all others. Spark finds the rows
and writes position deletes (format version 2), deletion vectors (version 3) or files without the rows. The property
`write.merge.mode` selects this; it has the sink's value within the transaction, and the table's own value after it.

MERGE writes only the updates that lack columns, because it alone sees the older row. All other rows are committed as
they were staged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from pyspark.sql import functions

from calve.arrays import RowNumbers
from calve.catalog.catalog import Catalog
from calve.catalog.trust import refuse_java_class
from calve.commit.merge_source import StagedChanges, staged
from calve.commit.partial_updates import incomplete
from calve.engine.engine import Engine
from calve.engine.pyspark_private import logical_plan
from calve.expression.sql import spark_name
from calve.record.content_file import ContentFile
from calve.record.target import WriteMode
from calve.reduce.key import ABSENT

__all__ = ["has_branch", "merge", "merge_changes", "relation_of", "writes_by"]

_MODE = "write.merge.mode"


def merge_changes(
    catalog: Catalog, transaction: Any, branch: str, mode: WriteMode, files: Sequence[ContentFile]
) -> list[bytes]:
    """Delete the rows whose keys are in staged files, and apply the staged updates; a Spark job.

    An update that lacks a required column is left out if no older row has the value.

    Args:
        catalog: The catalog of the table, with the session that runs the job.
        transaction: The Java `Transaction`; it gets more snapshots, or none if no row is found.
        branch: The branch that has the rows.
        mode: Not `EQUALITY_DELETE`.
        files: Equality deletes; they are only read. Those with the column `ABSENT` are updates that lack columns. If a
            key is in both, the row is deleted and then updated.

    Returns:
        The dead letters of the events of updates that were left out, as lines of JSON.

    Raises:
        UnsupportedError: The table names a class that would choose the places of its files.
        CommitError: An update must be left out, but its dead letters were not staged.
        SinkUnavailableError: A file cannot be read at the moment.
    """
    jvm: Any = catalog.spark.jvm
    operations = transaction.table().operations()
    refuse_java_class(transaction.table().name(), operations.current().properties())
    table = jvm.org.apache.iceberg.BaseTable(operations, transaction.table().name())
    staged_keys = [
        staged(catalog, table, ids, [file.file_path for file in files if tuple(file.equality_ids) == ids])
        for ids in dict.fromkeys(tuple(file.equality_ids) for file in files)
    ]
    if not has_branch(transaction, operations.current(), branch, any(keys.columns for keys in staged_keys)):
        return []
    letters: list[bytes] = []
    with writes_by(transaction, mode):
        for keys in staged_keys:
            letters += _applied(catalog.spark, relation_of(catalog.spark, transaction, branch), keys, table.name())
    return letters


def _applied(spark: Engine, relation: Any, keys: StagedChanges, table: str) -> list[bytes]:
    """Apply the changes of one key; return the dead letters of those that were left out."""
    letters: list[bytes] = []
    if len(lost := _Merge(spark, relation, keys).without_older_row()):
        events = keys.letters_of(lost)
        if not all(events):
            names = [keys.columns[number] for number in keys.required.intersection(keys.absent)]
            raise incomplete(table, names, len(lost))
        letters = [line for lines in events for line in lines]
        keys = keys.without(lost)
    if keys.columns or len(keys.deletes):
        _Merge(spark, relation, keys).run()
    return letters


@contextlib.contextmanager
def writes_by(transaction: Any, mode: WriteMode) -> Iterator[None]:
    """Let MERGE write in a mode within a transaction; the table keeps its own."""
    before = transaction.table().operations().current().properties().get(_MODE)
    transaction.updateProperties().set(_MODE, mode).commit()
    yield
    restored = transaction.updateProperties()
    (restored.remove(_MODE) if before is None else restored.set(_MODE, before)).commit()


def relation_of(spark: Engine, transaction: Any, branch: str) -> Any:
    """Return the rows of a branch in a transaction as a Java plan, which MERGE can change; the branch is there."""
    jvm: Any = spark.jvm
    jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark.java_session)  # the parser uses its settings
    operations = transaction.table().operations()
    _renew_schema(transaction, operations.current(), branch)
    table = jvm.org.apache.iceberg.BaseTable(operations, transaction.table().name())
    spark_table = jvm.org.apache.iceberg.spark.source.SparkTable.create(table, branch)
    transforms = jvm.scala.Option.apply(jvm.org.apache.iceberg.spark.SparkFunctionCatalog.get())
    return jvm.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation.create(
        spark_table, transforms, jvm.scala.Option.empty()
    )


def merge(spark: Engine, text: str, relation: Any, source: Any) -> None:
    """Run a MERGE.

    Args:
        spark: Runs it.
        text: `MERGE INTO t AS target USING s AS source …`.
        relation: A Java plan, in the place of `t`.
        source: A Java plan, in the place of `s`.
    """
    jvm: Any = spark.jvm
    session: Any = spark.java_session
    plan = session.sessionState().sqlParser().parsePlan(text)
    children = [
        plan.left().withNewChildren(_sequence(jvm, relation)),
        plan.right().withNewChildren(_sequence(jvm, source)),
    ]
    jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan.withNewChildren(_sequence(jvm, *children)))


def has_branch(transaction: Any, start: Any, branch: str, needed: bool) -> bool:
    """Return whether there are rows to search; create the branch if it is `needed` even without rows."""
    if start.ref(branch) is not None:
        return True
    if start.currentSnapshot() is not None:
        transaction.manageSnapshots().createBranch(branch, start.currentSnapshot().snapshotId()).commit()
    elif needed:
        transaction.newFastAppend().toBranch(branch).commit()
    return needed or start.currentSnapshot() is not None


def _renew_schema(transaction: Any, current: Any, branch: str) -> None:
    """Make an empty snapshot where the branch's last one is older than a variant column.

    Iceberg 1.11 looks for the statistics of such columns in the schema of the snapshot that it reads, and fails.
    """
    snapshot = current.snapshot(current.ref(branch).snapshotId())
    schema = current.schemasById().get(snapshot.schemaId())
    variants = [column.fieldId() for column in current.schema().columns() if column.type().isVariantType()]
    if schema is not None and any(schema.findField(number) is None for number in variants):
        transaction.newFastAppend().toBranch(branch).commit()


class _Merge:
    """One MERGE into a table that no catalog has: relations replace the names in the parsed plan."""

    def __init__(self, spark: Engine, relation: Any, changes: StagedChanges) -> None:
        self._spark = spark
        self._relation = relation
        self._changes = changes
        same = [f"target.{spark_name(*path)} = source.k{number}" for number, path in enumerate(changes.paths)]
        self._same = " AND ".join(same)

    def run(self) -> None:
        """Delete and update."""
        text = f"MERGE INTO t AS target USING s AS source ON {self._same} {self._actions()}"
        merge(self._spark, text, self._relation, logical_plan(self._changes.frame(self._spark)))

    def _actions(self) -> str:
        columns, absent = self._changes.columns, self._changes.absent
        if not columns:
            return "WHEN MATCHED THEN DELETE"
        values = []
        for number, name in columns.items():
            value, target = f"source.c{number}", f"target.{spark_name(name)}"
            if number in absent:
                value = f"CASE WHEN array_contains(source.{ABSENT}, {number}) THEN {target} ELSE {value} END"
            values.append(f"{target} = {value}")
        names = ", ".join(map(spark_name, columns.values()))
        source_columns = ", ".join(f"source.c{number}" for number in columns)
        return (
            f"WHEN MATCHED AND source.{ABSENT} IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET {', '.join(values)} "
            f"WHEN NOT MATCHED AND source.{ABSENT} IS NOT NULL THEN INSERT ({names}) VALUES ({source_columns})"
        )

    def without_older_row(self) -> RowNumbers:
        """Return the positions of updates that lack a required column which no older row has."""
        surely, doubtful = self._changes.incomplete()
        if not len(doubtful):
            return surely
        jvm: Any = self._spark.jvm
        rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._spark.java_session, self._relation)
        target = self._spark.data_frame(rows).alias("target")
        source = self._changes.keys_of(doubtful, self._spark).alias("source")
        lost = source.join(target, functions.expr(self._same), "left_anti").select("row").collect()
        return np.sort(np.concatenate([surely, np.array([row[0] for row in lost], np.int64)]))


def _sequence(jvm: Any, *values: Any) -> Any:
    """Return a Scala `Seq`."""
    elements = jvm.java.util.ArrayList()
    for value in values:
        elements.add(value)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(elements).toIndexedSeq()
