"""Reads tables of the embedded catalog in a Spark that knows nothing of Calve: `python plain_spark.py JARS LAKEHOUSE`.

Standard input is a JSON array of queries; standard output an array of their rows.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession


def main() -> None:
    jars, lakehouse = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.extraClassPath", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.catalog.lakehouse", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.lakehouse.type", "jdbc")
        .config("spark.sql.catalog.lakehouse.uri", f"jdbc:sqlite:{lakehouse}/catalog.db")
        .config("spark.sql.catalog.lakehouse.jdbc.schema-version", "V1")
        .config("spark.sql.catalog.lakehouse.warehouse", lakehouse)
        .getOrCreate()
    )
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(
                pool.map(lambda query: [list(row) for row in spark.sql(query).collect()], json.load(sys.stdin))
            )
        print(json.dumps(found, default=str))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
