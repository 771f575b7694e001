"""What a data engineer writes by hand: Kafka → `from_json` → append to an Iceberg table, as one bounded stream."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def main() -> None:
    files, address, topic, folder, columns = sys.argv[1:]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", files)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.ice.type", "hadoop")
        .config("spark.sql.catalog.ice.warehouse", f"{folder}/lakehouse")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    parsed = raw.select(f.from_json(f.col("value").cast("string"), columns).alias("e")).select("e.*")
    spark.sql(f"CREATE TABLE ice.bench.events ({columns}) USING iceberg")
    query = (
        parsed.writeStream.format("iceberg")
        .trigger(availableNow=True)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .toTable("ice.bench.events")
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
