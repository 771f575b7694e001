"""Deletes the rows of given keys within a transaction, by Spark's MERGE: the modes that leave no equality deletes.

MERGE commits by itself and knows no fence. So it is given a table whose operations are those of the transaction: what
it commits is one more update there, and becomes visible with the rest by the fence's compare-and-swap, or never. Spark
finds the rows and writes position deletes (format version 2), deletion vectors (version 3) or files without the rows,
as the property `write.merge.mode` says; within the transaction that is the sink's, after it the table's again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from calve.commit.catalog import Catalog
from calve.errors import SinkUnavailableError
from calve.event import duck

__all__ = ["EQUALITY_DELETE", "WriteMode", "delete_rows"]

WriteMode = Literal["equality-delete", "merge-on-read", "copy-on-write"]
EQUALITY_DELETE: WriteMode = "equality-delete"

_MODE = "write.merge.mode"
_FIELD_ID = b"PARQUET:field_id"


def delete_rows(
    catalog: Catalog, transaction: Any, branch: str, mode: WriteMode, files: Sequence[Mapping[str, Any]]
) -> None:
    """Delete the rows whose keys are in files of equality deletes; runs on the driver, and as a Spark job.

    Args:
        catalog: The catalog of the table, with the session that runs the job.
        transaction: The Java `Transaction`; it gets more snapshots, or none if no row is found.
        branch: The branch that has the rows.
        mode: Not `EQUALITY_DELETE`.
        files: Equality deletes, in the JSON of the REST catalog's specification; they are only read.
    """
    operations = transaction.table().operations()
    start = operations.current()
    if start.currentSnapshot() is None and start.ref(branch) is None:
        return
    if start.ref(branch) is None:
        transaction.manageSnapshots().createBranch(branch, start.currentSnapshot().snapshotId()).commit()
    before = start.properties().get(_MODE)
    transaction.updateProperties().set(_MODE, mode).commit()
    jvm: Any = catalog.spark._jvm
    table = jvm.org.apache.iceberg.BaseTable(operations, transaction.table().name())
    for ids in {tuple(file["equality-ids"]) for file in files}:
        names = [str(table.schema().findColumnName(number)) for number in ids]
        mine = [file for file in files if tuple(file["equality-ids"]) == ids]
        _run(catalog.spark, table, branch, names, _keys(catalog, table, ids, mine))
    restored = transaction.updateProperties()
    (restored.remove(_MODE) if before is None else restored.set(_MODE, before)).commit()


def _keys(catalog: Catalog, table: Any, ids: Sequence[int], files: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Give the keys as columns `k0`, `k1`, …, which every task gets whole."""
    io_properties = catalog.io_properties(table)
    rows = pa.concat_tables([_read(file["file-path"], io_properties, ids) for file in files])
    convert = catalog.spark._jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert
    types = [convert(table.schema().findField(number).type()).sql() for number in ids]
    schema = StructType.fromDDL(", ".join(f"k{number} {kind}" for number, kind in enumerate(types)))
    return catalog.spark.createDataFrame(rows, schema).hint("broadcast")


def _read(path: str, io_properties: dict[str, str], ids: Sequence[int]) -> pa.Table:
    """Read the columns of these field ids, whatever they are called by now.

    Raises:
        SinkUnavailableError: The storage does not give the file at the moment.
    """
    try:
        with load_file_io(io_properties, path).new_input(path).open() as stream:
            rows = pq.read_table(stream)
    except OSError as error:
        raise SinkUnavailableError(
            f"The staged keys {path} cannot be read: {error}",
            step="commit",
            target=path,
            hint="Calve tries again; check that the table's storage is up and can be reached",
        ) from error
    while any(pa.types.is_struct(field.type) for field in rows.schema):
        rows = rows.flatten()  # `a` with a field `b` becomes `a.b`
    columns = {int(field.metadata[_FIELD_ID]): column for field, column in zip(rows.schema, rows.columns, strict=True)}
    return pa.table([_plain(columns[number]) for number in ids], [f"k{number}" for number in range(len(ids))])


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Give a column as Spark has its type: a UUID is text."""
    if isinstance(column.type, pa.UuidType):
        return duck.run("select key::varchar as key from keys", keys=pa.table({"key": column})).column("key")
    if pa.types.is_fixed_size_binary(column.type):
        return column.cast(pa.binary())
    return column


def _run(spark: SparkSession, table: Any, branch: str, names: Sequence[str], keys: DataFrame) -> None:
    """Run the MERGE on a table that no catalog knows: its parsed plan gets the relation in the place of a name."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    same = " AND ".join(f"target.{_quoted(name)} = source.k{number}" for number, name in enumerate(names))
    text = f"MERGE INTO t AS target USING s AS source ON {same} WHEN MATCHED THEN DELETE"
    plan = session.sessionState().sqlParser().parsePlan(text)
    found = jvm.org.apache.iceberg.spark.source.SparkTable.create(table, branch)
    functions = jvm.scala.Option.apply(jvm.org.apache.iceberg.spark.SparkFunctionCatalog.get())  # partition transforms
    relation = jvm.org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation.create(
        found, functions, jvm.scala.Option.empty()
    )
    target = plan.left().withNewChildren(_sequence(jvm, relation))
    source = plan.right().withNewChildren(_sequence(jvm, keys._jdf.logicalPlan()))
    merge = plan.withNewChildren(_sequence(jvm, target, source))
    jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, merge)


def _quoted(name: str) -> str:
    return ".".join(f"`{re.sub('`', '``', part)}`" for part in name.split("."))


def _sequence(jvm: Any, *values: Any) -> Any:
    """Give a Scala `Seq`."""
    found = jvm.java.util.ArrayList()
    for value in values:
        found.add(value)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(found).toIndexedSeq()
