"""What a data engineer writes by hand: Kafka → `from_json` → append to an Iceberg table, as one bounded batch."""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

PACKAGES = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
SCHEMA = (
    "id bigint, tenant string, user_id bigint, kind string, at string, amount double, country string, ok boolean, "
    "page string, session string, n bigint"
)


def main() -> None:
    address, topic, folder = sys.argv[1:]
    from calve.engine import jars

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(map(str, jars.resolve(list(PACKAGES)))))
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.ice.type", "hadoop")
        .config("spark.sql.catalog.ice.warehouse", folder)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    started = time.monotonic()
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    parsed = raw.select(f.from_json(f.col("value").cast("string"), SCHEMA).alias("e")).select("e.*")
    spark.sql(f"CREATE TABLE ice.bench.events ({SCHEMA}) USING iceberg")
    query = (
        parsed.writeStream.format("iceberg")
        .trigger(availableNow=True)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .toTable("ice.bench.events")
    )
    query.awaitTermination()
    took = time.monotonic() - started
    rows = spark.table("ice.bench.events").count()
    spark.stop()
    print(json.dumps({"rows": rows, "inside": took}))


if __name__ == "__main__":
    main()
