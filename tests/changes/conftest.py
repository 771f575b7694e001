from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from calve.commit.catalog import Catalog, embedded

_SETTINGS = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.adaptive.enabled": "false",  # these tables are tiny, and it costs a job for each stage
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.catalog.lake.cache-enabled": "false",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
}


@pytest.fixture(scope="package")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """A catalog that Calve and Spark's SQL (as `lake`) both see, with the namespace `db`."""
    properties = embedded(tmp_path_factory.mktemp("lakehouse")) | {"name": "lake"}
    Path(properties["warehouse"]).mkdir(exist_ok=True)
    settings = {f"spark.sql.catalog.lake.{key}": value for key, value in properties.items() if key != "name"}
    for key, value in {**settings, **_SETTINGS}.items():
        spark.conf.set(key, value)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.db")
    yield Catalog(spark, properties)
    for key in _SETTINGS:
        spark.conf.unset(key)
