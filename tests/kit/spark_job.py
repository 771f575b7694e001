"""A user's own Spark job with `calve.spark.sink`: `python spark_job.py JARS FOLDER`.

It reads the files of FOLDER/in, one a batch, until all are read. With `KILL_AFTER=n` it ends as by `kill -9` when the
sink has taken its n-th batch of this run, before Spark writes that into the checkpoint.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import calve.spark

COLUMNS = "on_type_mismatch: dlq, schema: {columns: [{name: n, type: int}, {name: text, type: int}]}"
CATALOG = "auto_create: true, catalog: {type: spark, name: job}"
YAML = f"""
orders:
  source: {{spark: {{}}}}
  route: [even: "/n % 2 == 0"]
  sink:
    - iceberg: {{table_identifier: shop.all, {COLUMNS}, {CATALOG}}}
    - iceberg: {{routes: [even], table_identifier: shop.even, identifier_columns: [n], upsert: true, {CATALOG}}}
"""


def session(jars: str, folder: Path) -> SparkSession:
    settings = {
        "spark.driver.extraClassPath": jars,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.catalog.job": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.job.type": "hadoop",
        "spark.sql.catalog.job.warehouse": str(folder / "warehouse"),
    }
    builder = SparkSession.builder.master("local[2]")
    for name, text in settings.items():
        builder = builder.config(name, text)
    return builder.getOrCreate()


def main(jars: str, folder: Path) -> None:
    sink = calve.spark.sink(YAML, state=folder / "state")
    taken, kill_after = 0, int(os.environ.get("KILL_AFTER", "0"))

    def each(frame: DataFrame, epoch: int) -> None:
        nonlocal taken
        sink(frame, epoch)
        taken += 1
        if taken == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)

    spark = session(jars, folder)
    rows = spark.readStream.schema("n long, text string").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    stream = rows.writeStream.foreachBatch(each).trigger(availableNow=True)
    stream.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
