"""Reads tables of embedded catalogs in a Spark that knows nothing of Calve: `python plain_spark.py JARS JAVA_OPTIONS`.

Each line of standard input is a JSON array of a lakehouse's folder and of queries, each of standard output one of their
rows, or a text that says what failed.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from pyspark.sql import SparkSession


def session(jars: str, **more: str) -> SparkSession:
    """Start a Spark that is nobody's, with Iceberg's jars; a `_` in the name of a setting stands for a dot."""
    builder = SparkSession.builder.master("local[2]").config("spark.driver.extraClassPath", jars)
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
    for name, value in more.items():
        builder = builder.config(name.replace("_", "."), value)
    return builder.getOrCreate()


def opened(spark: SparkSession, lakehouse: str) -> SparkSession:
    """Give a session with the embedded catalog of a folder, and no memory of another."""
    fresh = spark.newSession()
    catalog = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{lakehouse}/catalog.db",
        ".jdbc.schema-version": "V1",
        ".warehouse": lakehouse,
    }
    for name, value in catalog.items():
        fresh.conf.set(f"spark.sql.catalog.lakehouse{name}", value)
    return fresh


def answer(spark: SparkSession, query: str) -> list[list[object]]:
    return [list(row) for row in spark.sql(query).collect()]


def main() -> None:
    options = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {sys.argv[2]}"
    quick = {"spark_sql_codegen_wholeStage": "false", "spark_driver_extraJavaOptions": options}
    spark = session(sys.argv[1], spark_sql_session_timeZone="UTC", spark_sql_shuffle_partitions="1", **quick)
    with ThreadPoolExecutor(4) as pool:
        for line in sys.stdin:
            lakehouse, queries = json.loads(line)
            try:
                found = list(pool.map(partial(answer, opened(spark, lakehouse)), queries))
            except Exception as error:  # others go on asking
                found = str(error)
            print(json.dumps(found, default=str), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
