"""Reads a table whole in a plain Spark and prints sums and seconds: `python full_read.py JARS METADATA.json`.

It is read four times; the first read warms the JVM and is not counted.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from pipeline.plain_spark import session


def main() -> None:
    jars, metadata = sys.argv[1:]
    spark = session(jars, spark_driver_memory="2g")
    spark.sparkContext.setLogLevel("ERROR")
    taken = []
    for _ in range(4):
        started = time.monotonic()
        table = spark.read.format("iceberg").load(metadata)
        [found] = table.selectExpr("count(*)", "sum(n)", "sum(amount)", "max(name)", "max(note)").collect()
        taken.append(time.monotonic() - started)
    spark.stop()
    print(json.dumps({"rows": found[0], "total": found[1], "seconds": statistics.median(taken[1:])}))


if __name__ == "__main__":
    main()
