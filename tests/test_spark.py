"""`calve.spark` on a session that exists already, as a user's job has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import calve.spark
from calve.catalog.sqlite import embedded
from calve.errors import CalveError, PositionLostError, SettingsError, SourceError

pytestmark = pytest.mark.spark
ROWS = """select id, id % 3 k, cast(id as decimal(12, 2)) amount, timestamp'2026-01-01 10:00:00Z' at,
  timestamp_ntz'2026-01-01 10:00:00' local, date'2026-01-02' day, array(id) list, map('x', id) map,
  named_struct('q', id, 'z', 's') nested, binary('ab') bytes, cast(null as string) nothing from range(0, 20, 1, 3)"""
NEW = ("INSERT", "UPDATE_AFTER")
YAML = """
orders:
  source: {spark: {}}
  route: [paid: '/status == "paid"']
  sink:
    - iceberg: {table_identifier: shop.all, schema: {columns: [{name: id, type: int}, {name: status, type: string}]}, CATALOG}
    - iceberg: {routes: [paid], table_identifier: "shop.${/kind}", identifier_columns: [id], upsert: true, CATALOG}
"""
CATALOG = "auto_create: true, schema_evolution: true, on_type_mismatch: dlq, catalog: {type: spark, name: job}"


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Any:
    """A session of a user's job, with the catalog `job`, in which tables are read."""
    session = spark.newSession()
    (tmp_path / "lakehouse").mkdir()
    session.conf.set("spark.sql.catalog.job", "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set("spark.sql.catalog.job.cache-enabled", "false")
    for key, value in (embedded(tmp_path / "lakehouse") | {"name": ""}).items():
        if value:
            session.conf.set(f"spark.sql.catalog.job.{key}", value)
    return session


def rows(spark: SparkSession, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(query).collect()]


def test_a_dataframe_is_one_batch_with_its_types_and_comes_once_by_its_id(job: SparkSession, tmp_path: Path) -> None:
    frame, state = job.sql(ROWS), tmp_path / "state"
    before = dict(job.conf.getAll)
    assert calve.spark.write(frame, "job.shop.orders", batch_id="first", state=state) == 20
    assert calve.spark.write(frame.limit(3), "job.shop.orders", batch_id="first", state=state) == 0
    table = job.table("job.shop.orders")
    assert table.dtypes == frame.dtypes
    assert sorted(map(str, table.collect())) == sorted(map(str, frame.collect()))
    newer = frame.selectExpr("id", "k", "id + 1 as total")
    calve.spark.write(newer, "shop.orders", catalog="job", identifier_columns="id", upsert=True, state=state)
    assert rows(job, "select count(*), sum(total), count(amount) from job.shop.orders") == [(20, 210, 0)]
    assert rows(job, "select count(*) from job.shop.orders.snapshots") == [(2,)]
    assert dict(job.conf.getAll) == before
    keyless = job.sql("select cast(null as long) id, 5l k union all select 77l, 7l")
    with pytest.raises(CalveError, match=r"Rows of job\.shop\.orders were rejected: NO_KEY 1"):
        calve.spark.write(keyless, "job.shop.orders", identifier_columns=["id"], upsert=True, state=state)
    assert rows(job, "select count(*) from job.shop.orders") == [(21,)]
    with pytest.raises(SourceError, match=r"Spark cannot compute the DataFrame: .*DIVIDE_BY_ZERO"):
        calve.spark.write(job.sql("select 1 / (id - id) x from range(3)"), "job.shop.broken", state=state)


def test_the_changes_of_a_table_are_a_dataframe_of_the_users_session(job: SparkSession, tmp_path: Path) -> None:
    def write(query: str, **options: Any) -> int:
        calve.spark.write(job.sql(query), "job.shop.parts", state=tmp_path / "state", **options)
        return rows(job, "select snapshot_id from job.shop.parts.refs where name = 'main'")[0][0]

    keyed = {"identifier_columns": ["id"], "upsert": True}
    first = write("select id, 'old' `a.b` from range(4)", **keyed)
    second = write("select id, 'new' `a.b` from range(1, 5)", **keyed)
    write("select 7l id, 'more' `a.b`", **keyed)
    job.sql("create or replace temp view names as select 1l id, 'one' name")
    with calve.spark.changes(job, "job.shop.parts", identifier_columns="id", end_snapshot_id=second) as changes:
        changes.createOrReplaceTempView("parts")
        table = {}
        for row in sorted(changes.collect(), key=lambda row: (row._change_ordinal, row._change_type in NEW)):
            table.update({row.id: row["a.b"]}) if row._change_type in NEW else table.pop(row.id)
        assert table == {0: "old", **dict.fromkeys(range(1, 5), "new")}
        query = "select name, `a.b`, _change_type, _commit_snapshot_id from parts join names using (id) order by 2, 3"
        assert rows(job, query) == [
            ("one", "new", "UPDATE_AFTER", second),
            ("one", "old", "INSERT", first),
            ("one", "old", "UPDATE_BEFORE", second),
        ]
    with calve.spark.changes(
        job, "shop.parts", catalog="job", start_snapshot_id=second, end_snapshot_id=second
    ) as unchanged:
        assert unchanged.dtypes == changes.dtypes
        assert unchanged.collect() == []
    for arguments, said in (
        ({"start_snapshot_id": second, "end_snapshot_id": first}, "comes before"),
        ({"start_snapshot_id": str(first)}, "is '.*', and not the id of a snapshot"),
        ({"start_snapshot_id": 7}, "has no snapshot 7"),
        ({"identifier_columns": ["no"]}, "key column no of shop.parts does not exist"),
    ):
        with pytest.raises(CalveError, match=said), calve.spark.changes(job, "job.shop.parts", **arguments):
            pass


def test_arguments_that_are_no_dataframe_or_name_no_catalog_say_what_to_do(job: SparkSession, tmp_path: Path) -> None:
    frame, stream = job.range(1), job.readStream.format("rate").load()
    for wrong, table, said in (
        ([{"id": 1}], "a.b", "list is not a DataFrame of Spark"),
        (stream, "a.b", "is a stream, which has no end"),
        (frame, "shop.orders", "has no catalog spark_catalog of Iceberg"),
        (frame, "orders", "'orders' is not the name of a table"),
        (frame, None, "None is not the name of a table"),
    ):
        with pytest.raises(CalveError, match=said):
            calve.spark.write(wrong, table, state=tmp_path)
    with pytest.raises(SettingsError, match="outside of a stream"):
        calve.spark.sink(YAML.replace("CATALOG", CATALOG), state=tmp_path)(frame, 0)
    with pytest.raises(SettingsError, match="reads from http, and not from a Spark job"):
        calve.spark.sink(YAML.replace("spark", "http").replace("CATALOG", "auto_create: true"))


def test_a_stream_goes_through_a_pipeline_and_a_new_checkpoint_is_refused(job: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    schema = "id string, status string, kind string"
    sink = calve.spark.sink(YAML.replace("CATALOG", CATALOG), pipeline="orders", state=tmp_path / "state")
    refused: list[CalveError] = []

    def each(frame: DataFrame, epoch: int) -> None:
        try:
            sink(frame, epoch)
        except CalveError as error:
            refused.append(error)
            raise

    def run(checkpoint: str) -> None:
        stream = job.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
        started = stream.writeStream.foreachBatch(each).trigger(availableNow=True)
        started.option("checkpointLocation", str(tmp_path / checkpoint)).start().awaitTermination()

    for number in range(2):
        events = [
            {"id": str(row), "status": "paid" if row else "open", "kind": "retail" if row % 2 else "trade"}
            for row in range(3 + number)
        ]
        events.append({"id": "many", "status": "open", "kind": "retail"})
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(map(json.dumps, events)))
    run("checkpoint")
    assert rows(job, "select count(*) from job.shop.all") == [(7,)]
    assert rows(job, "select id from job.shop.retail order by 1") == [("1",), ("3",)]
    assert rows(job, "select id from job.shop.trade") == [("2",)]
    published = tmp_path.glob("state/orders/dlq/[!._]*")
    letters = [json.loads(line) for file in published for line in file.read_text().splitlines()]
    assert [(letter["code"], letter["field"]) for letter in letters] == [("NOT_COERCIBLE", "id")] * 2
    for file in tmp_path.glob("checkpoint/commits/*1*"):  # as if killed between the commit and Spark's checkpoint
        file.unlink()
    run("checkpoint")
    assert (tmp_path / "checkpoint/commits/1").exists()
    with pytest.raises(StreamingQueryException):
        run("other")
    assert [type(error) for error in refused] == [PositionLostError]
    assert "the checkpoint was deleted or replaced" in refused[0].message
    assert rows(job, "select count(*) from job.shop.all") == [(7,)]
