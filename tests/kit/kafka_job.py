"""A user's own Spark job that reads Kafka and writes with `calve.spark.sink`: `python kafka_job.py SETTINGS.json`.

Each start is a new release of the job, whose DataFrame may have more columns. It says when the stream
begins, and `batch <n>` after each one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import calve.spark


def main(settings: dict[str, Any]) -> None:
    builder = SparkSession.builder.master(settings["master"])
    for name, text in settings["conf"].items():
        builder = builder.config(name, text)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    sink = calve.spark.sink(settings["pipeline"], state=settings["state"])

    def write(frame: DataFrame, epoch: int) -> None:
        sink(frame, epoch)
        print(f"batch {epoch}", flush=True)

    records = spark.readStream.format("kafka").options(**settings["kafka"]).load()
    stream = records.selectExpr(*settings["columns"]).writeStream.foreachBatch(write)
    if settings["once"]:
        stream = stream.trigger(availableNow=True)
    query = stream.option("checkpointLocation", settings["checkpoint"]).start()
    print("the stream begins", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
