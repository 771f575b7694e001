"""Reads a table whole in a plain Spark: `python -m bench.full_read JARS METADATA.json SUMS` prints SUMS and seconds.

It is read four times; the first read warms the JVM and is not counted. The sums should touch every column.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

from pipeline.plain_spark import session


def main() -> None:
    jars, metadata, sums = sys.argv[1:]
    spark = session(jars, spark_driver_memory="2g")
    spark.sparkContext.setLogLevel("ERROR")
    taken = []
    for _ in range(4):
        started = time.monotonic()
        [found] = spark.read.format("iceberg").load(metadata).selectExpr(*sums.split("; ")).collect()
        taken.append(time.monotonic() - started)
    spark.stop()
    print(json.dumps({"sums": list(found), "seconds": statistics.median(taken[1:])}))


if __name__ == "__main__":
    main()
