"""Section 3 of the RFC of the iceberg source: its pipeline, with the name of an index, makes the index equal the table."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from calve.catalog.catalog import embedded
from kit.running import Calve
from services.opensearch import OpenSearch

pytestmark = [pytest.mark.spark, pytest.mark.services]

YAML = """
iceberg-cdc-pipeline:
  source:
    iceberg:
      tables:
        - table_name: "my_database.my_table"
          catalog: {catalog}
          disable_export: false
          identifier_columns: ["region", "category"]
      polling_interval: "PT30S"
  sink:
    - opensearch:
        hosts: ["{address}"]
        index: changes-of-my-table
        document_id_field: "document_id"
        action: "${{getMetadata(\\"bulk_action\\")}}"
"""
LOADED = {"us|toys": 1, "us|books": 2, "eu|toys": 3}
CHANGES = (
    "update {table} set n = 20 where region = 'us' and category = 'books'",
    "delete from {table} where region = 'eu'",
    "insert into {table} values ('eu', 'games', 4)",
)
CHANGED = {"us|toys": 1, "us|books": 20, "eu|games": 4}


def test_the_example_keeps_the_index_equal_to_the_table(
    spark: SparkSession, calve: Callable[..., Calve], opensearch: OpenSearch
) -> None:
    running = calve("")
    (running.folder / "lakehouse").mkdir()
    tables, table = running.shared_spark(), "lakehouse.my_database.my_table"
    tables.sql("create namespace lakehouse.my_database")
    tables.sql(f"create table {table} (region string, category string, n int) tblproperties ('format-version' = '2')")
    tables.sql(f"insert into {table} values ('us', 'toys', 1), ('us', 'books', 2), ('eu', 'toys', 3)")
    catalog = embedded(running.folder / "lakehouse")
    running.configure(YAML.format(catalog=catalog, address=opensearch.address))
    assert running.once() == 0, running.said()[-4000:]
    assert documents(opensearch) == LOADED
    for change in CHANGES:
        tables.sql(change.format(table=table))
    assert running.once() == 0, running.said()[-4000:]
    assert documents(opensearch) == CHANGED
    assert running.dead_letters("iceberg-cdc-pipeline") == []
    assert "document_id" not in running.said()


def documents(node: OpenSearch) -> dict[str, int]:
    """Return a number of each document, by its id."""
    return {name: row["n"] for name, row in node.documents("changes-of-my-table").items()}
