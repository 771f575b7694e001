"""`spark.read.format("calve_changes")` gives the rows of `calve.spark.changes`, and a stream of them the table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

import calve.spark
from calve.catalog.catalog import Catalog
from changes.history import Kind, Table
from kit.changes_job import BUSY

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark's, of `collect`
]
KINDS = [
    Kind("copy-on-write", 2, "p", has_key=True),
    Kind("merge-on-read", 3, "", has_key=False),  # tests/crash has position deletes
]
CHANGES = ("_change_type", "_change_ordinal", "_commit_snapshot_id", "_row_id")
OLD = ("DELETE", "UPDATE_BEFORE")


@pytest.fixture
def read(spark: SparkSession, lake: Catalog) -> Callable[..., DataFrame]:
    """Return the changes of a table by the format's name; `stream=True`: as a stream."""
    calve.spark.register(spark)

    def load(table: str, stream: bool = False, **options: Any) -> DataFrame:
        reader = spark.readStream if stream else spark.read
        return reader.format("calve_changes").option("table", table).options(**options).load()

    return load


def head(table: Table) -> int:
    return int(table.java().currentSnapshot().snapshotId())


def total(rows: list[Any]) -> Counter[str]:
    """The rows that changes leave, without those of the changes."""
    sums: Counter[str] = Counter()
    for row in rows:
        values = {name: value for name, value in row.asDict().items() if name not in CHANGES}
        sums[str(values)] += -1 if row["_change_type"] in OLD else 1
    return +sums if all(count >= 0 for count in sums.values()) else sums


def content(spark: SparkSession, table: Table) -> Counter[str]:
    return Counter(str(row.asDict()) for row in spark.table(table.name).collect())


def finish(stream: DataStreamWriter) -> None:
    """Run a stream until it has read everything."""
    while True:
        query = stream.start()
        try:
            return query.processAllAvailable()
        except StreamingQueryException as error:
            if BUSY not in str(error):
                raise
        finally:
            query.stop()


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_format_has_the_changes_of_a_table_as_batch_and_stream(
    spark: SparkSession, lake: Catalog, kind: Kind, read: Callable[..., DataFrame], tmp_path: Path
) -> None:
    table = Table(spark, lake, kind, seed=f"format {kind}")
    for change in (table.append, table.update):
        change()
    first = head(table)
    batches: list[list[Any]] = []

    def follow() -> None:
        stream = read(table.name, stream=True, max_snapshots=2, folder=str(tmp_path / "rows")).writeStream
        stream = stream.foreachBatch(lambda frame, _: batches.append(frame.collect()))
        finish(stream.option("checkpointLocation", str(tmp_path / "checkpoint")))

    follow()
    assert total(batches[0]) == content(spark, table)
    assert {(row["_change_type"], row["_commit_snapshot_id"]) for row in batches[0]} == {("INSERT", first)}
    spark.catalog.setCurrentCatalog("lake")
    before, early = read(table.identifier), content(spark, table)
    spark.catalog.setCurrentCatalog("spark_catalog")  # the DataFrame stays with its table
    for change in (table.append, table.merge, table.compact, table.delete):
        change()
    follow()
    assert len(batches) == 3
    assert total([row for batch in batches for row in batch]) == content(spark, table)
    for start in (None, first):
        with calve.spark.changes(spark, table.name, start_snapshot_id=start) as changes:
            frame = read(table.name, **({"start_snapshot_id": start} if start else {}))
            assert frame.dtypes == changes.dtypes
            assert sorted(map(str, frame.collect())) == sorted(map(str, changes.collect()))
    assert total(read(table.name).collect()) == content(spark, table)
    assert total(before.collect()) == early  # a DataFrame does not change


def test_what_cannot_be_read_is_refused_with_the_reason_alone(
    spark: SparkSession, lake: Catalog, read: Callable[..., DataFrame]
) -> None:
    table = Table(spark, lake, Kind("copy-on-write", 2), seed="refused")
    table.append()
    for options, reason in (
        ({"tabel": "x"}, "unknown option 'tabel'; did you mean table?"),
        ({"start_snapshot_id": "first"}, "start_snapshot_id is 'first', and not a whole number"),
        ({"max_snapshots": "0"}, "max_snapshots is 0"),
        ({"identifier_columns": "no"}, "The key column no of .* does not exist"),
        ({"catalog": "none"}, "has no catalog none of Iceberg"),
        ({"start_snapshot_id": 7}, "has no snapshot 7: it has expired"),
    ):
        with pytest.raises(PySparkException, match=reason) as refused:
            read(table.name, **options).count()
        assert "Traceback" not in str(refused.value)
    frame = read(table.name)
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMN more INT")
    with pytest.raises(PySparkException, match="have changed since load"):
        frame.count()
    with pytest.raises(PySparkException, match="has a schema of its own"):
        spark.read.format("calve_changes").schema("id INT").option("table", table.name).load().count()
