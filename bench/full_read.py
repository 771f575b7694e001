"""Reads a table whole in a plain Spark: `python -m bench.full_read JARS METADATA.json SUMS READS`.

Prints SUMS and seconds. The first of several reads warms the JVM and does not count. SUMS should touch every column.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

from kit.plain_spark import session


def main() -> None:
    jars, metadata, sums, reads = sys.argv[1:]
    spark = session(jars, spark_driver_memory="2g")
    spark.sparkContext.setLogLevel("ERROR")
    taken = []
    for _ in range(int(reads)):
        started = time.monotonic()
        [found] = spark.read.format("iceberg").load(metadata).selectExpr(*sums.split("; ")).collect()
        taken.append(time.monotonic() - started)
    spark.stop()
    print(json.dumps({"sums": list(found), "seconds": statistics.median(taken[1:] or taken)}))


if __name__ == "__main__":
    main()
