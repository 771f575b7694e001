"""A table into OpenSearch and into another table: wherever the pipeline dies, both are what the table is."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from calve.catalog.catalog import Catalog
from calve.stop_point import VARIABLE
from kit.running import Calve
from services.opensearch import OpenSearch

pytestmark = [
    pytest.mark.crash,
    pytest.mark.spark,
    pytest.mark.services,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark's, of `collect`
]

YAML = """
out:
  source:
    iceberg:
      tables: [{{table_name: db.{name}, identifier_columns: [id]}}]
      catalog: {catalog}
  sink:
    - opensearch:
        hosts: ["{address}"]
        index: "{name}"
        document_id: ${{getMetadata("document_id")}}
        action: ${{getMetadata("bulk_action")}}
    - iceberg:
        table_identifier: copies.{name}
        catalog: {catalog}
        operation: ${{getMetadata("iceberg_operation")}}
        identifier_columns: [id]
        auto_create: true
        schema_evolution: true
"""
POINTS = (
    "spool.before-publish",
    "pipeline.after-acknowledge",
    "commit.after-swap",
    "ledger.after-begin",
    "pipeline.after-stage",
    "ledger.before-begin",
    "commit.before-swap",
    "ledger.before-committed",
)
KILLS = int(os.environ.get("CALVE_KILLS", "1"))
"""How often the pipeline is killed: at these points in turn; `test_stop_points` has those behind the first."""


class Orders:
    """A table, and random changes of it."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self.spark, self.name = spark, f"lake.db.{name}"
        self.random = random.Random(7)
        self.next = 0
        spark.sql(
            f"CREATE TABLE {self.name} (id INT, name STRING, total DECIMAL(12, 2), day DATE, at TIMESTAMP, "
            "tags ARRAY<STRING>, place STRUCT<lat: DOUBLE, city: STRING>) USING iceberg "
            "TBLPROPERTIES ('format-version'='2')"
        )

    def change(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            mode = self.random.choice(("copy-on-write", "merge-on-read"))
            modes = ", ".join(f"'write.{what}.mode'='{mode}'" for what in ("update", "delete", "merge"))
            self.spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({modes})")
            self.random.choice((self.insert, self.insert, self.update, self.delete, self.merge))()

    def insert(self) -> None:
        count = self.random.randint(1, 300)
        self.spark.sql(f"INSERT INTO {self.name} {self._rows(self.next, self.next + count)}")
        self.next += count

    def update(self) -> None:
        number = self.random.randrange(7)
        self.spark.sql(f"UPDATE {self.name} SET total = total + 1, place.city = '{number}' WHERE id % 7 = {number}")

    def delete(self) -> None:
        self.spark.sql(f"DELETE FROM {self.name} WHERE id % 11 = {self.random.randrange(11)}")

    def merge(self) -> None:
        start = self.random.randrange(max(self.next, 1))
        self.spark.sql(
            f"MERGE INTO {self.name} t USING ({self._rows(start, start + 20)}) u ON t.id = u.id "
            "WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        self.next = max(self.next, start + 20)

    def _rows(self, start: int, end: int) -> str:
        return (
            f"SELECT CAST(id AS INT) id, concat('n', id) name, CAST(id AS DECIMAL(12, 2)) / 4 total, "
            f"date_add(DATE'2026-01-01', CAST(id AS INT) % 50) day, "
            f"timestamp_seconds(1767225600.25 + id) at, IF(id % 3 = 0, NULL, array('a', concat('t', id))) tags, "
            f"named_struct('lat', id / 8.0D, 'city', 'c') place FROM range({start}, {end})"
        )

    def rows(self) -> list[dict[str, Any]]:
        return _rows(self.spark, self.name)


def _rows(spark: SparkSession, name: str) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in spark.table(name).orderBy("id").collect()]


def document(row: dict[str, Any]) -> dict[str, Any]:
    """A row as a document: what the reference says of each type."""
    moment = row["at"].isoformat().rstrip("0") + "Z"
    return {**row, "total": str(row["total"]), "day": row["day"].isoformat(), "at": moment}


def test_wherever_the_pipeline_dies_the_index_and_the_copy_are_what_the_table_is(
    spark: SparkSession, lake: Catalog, opensearch: OpenSearch, tmp_path: Path
) -> None:
    name = f"orders{KILLS}"
    orders = Orders(spark, name)
    orders.insert()
    orders.change()
    catalog = {"name": "lake", **lake.properties}
    calve = Calve(tmp_path, YAML.format(name=name, catalog=catalog, address=opensearch.address), spark)
    try:
        for kill in range(KILLS):
            orders.change()
            point = POINTS[kill % len(POINTS)]
            code = calve.start("--once", environment={VARIABLE: point}).wait(240)
            assert code != 0, f"{point} was never reached: {calve.said()[-1500:]}"
        assert calve.once() == 0, calve.said()[-1500:]
    finally:
        calve.end()
    rows = orders.rows()
    assert _rows(spark, f"lake.copies.{name}") == rows
    assert opensearch.documents(name) == {str(row["id"]): document(row) for row in rows}
    mapping = opensearch.call("GET", f"{name}/_mapping")[name]["mappings"]["properties"]
    assert (mapping["total"]["type"], mapping["day"]["type"]) == ("keyword", "date")
    assert calve.status("out")["rejects"] == {}
    left = [folder.name for folder in (tmp_path / "calve-state/out/iceberg").iterdir() if folder.is_dir()]
    assert left == []
    shutil.rmtree(tmp_path / "calve-state")
