"""A table of changes: what the conversion of its equality deletes costs, and full reads before, after, and compacted.

    python -m bench.maintain --events 1000000 --keys 500000 [--version 3] [--rewrite]

`calve run --once` upserts events of few keys in many batches; then Spark reads all columns of all rows, the median of
five reads each time. CPU is that of this process and its JVM, and bytes are those of new files. With `--rewrite` the
conversion rewrites data files, as Iceberg's action does. The compacted table is the same one, all of it rewritten.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from bench.changes import cpu_seconds
from calve.catalog.catalog import Catalog, embedded
from calve.commit.mark import CommitTarget
from calve.engine import session
from calve.engine.engine import Engine
from calve.maintenance.context import MaintenanceContext
from calve.maintenance.equality_deletes import convert, remove_unneeded
from calve.maintenance.rewrite import ANY_DELETE, NO_SIZE, rewrite

READS = 5
BATCHES = 20
COLUMNS = {"id": "long", "amount": "double", "country": "string", "session": "string", "note": "string"}


def make(folder: Path, events: int, keys: int, version: int) -> None:
    """Write the events, and a pipeline that upserts them."""
    rnd = random.Random(1)
    for number in range(BATCHES):
        lines = [json.dumps(event(rnd, keys)) + "\n" for _ in range(events // BATCHES)]
        (folder / f"{number:02d}.ndjson").write_text("".join(lines))
    sink = {
        "table_identifier": "bench.t",
        "auto_create": True,
        "upsert": True,
        "write_mode": "equality-delete",
        "table_properties": {"format-version": str(version)},
        "identifier_columns": ["id"],
        "equality_delete_limit": 0,
        "max_batch_bytes": f"{(folder / '00.ndjson').stat().st_size}b",
        "schema": {"columns": [{"name": name, "type": kind} for name, kind in COLUMNS.items()]},
    }
    source = {"file": {"path": "*.ndjson"}}
    (folder / "p.yaml").write_text(json.dumps({"p": {"source": source, "sink": [{"iceberg": sink}]}}))


def event(rnd: random.Random, keys: int) -> dict[str, object]:
    """Give an event of about 150 bytes."""
    return {
        "id": rnd.randrange(keys),
        "amount": round(rnd.random() * 1000, 2),
        "country": rnd.choice(("DE", "FR", "US")),
        "session": f"{rnd.getrandbits(64):016x}",
        "note": f"{rnd.getrandbits(240):060x}",
    }


def read(spark: SparkSession) -> float:
    """Read the whole table; give the median of the seconds."""
    times = []
    for _ in range(READS):
        start = time.perf_counter()
        spark.table("lakehouse.bench.t").write.format("noop").mode("overwrite").save()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def timed(engine: Engine, folder: Path, action: Callable[[], object]) -> str:
    """Do something; say the seconds, the CPU seconds and the megabytes that it took."""
    before, start, cpu = size(folder), time.perf_counter(), time.process_time() + cpu_seconds(engine.session)
    action()
    seconds, cpu = time.perf_counter() - start, time.process_time() + cpu_seconds(engine.session) - cpu
    return f"made in {seconds:6.1f} s  CPU {cpu:6.2f} s  wrote {(size(folder) - before) / 1e6:7.2f} MB"


def size(folder: Path) -> int:
    """Give the bytes of the data and delete files of the table, old ones too."""
    files = (path for path in (folder / "lakehouse").rglob("*") if path.suffix in (".parquet", ".puffin"))
    return sum(path.stat().st_size for path in files)


def by_rewrite(context: MaintenanceContext) -> None:
    """Convert equality deletes by Iceberg's action."""
    rewrite(context, ANY_DELETE | NO_SIZE)
    remove_unneeded(context)


def measure(folder: Path, conversion: Callable[[MaintenanceContext], object]) -> None:
    """Read, convert, read, compact, read; print a line for each."""
    properties = embedded(folder / "lakehouse")
    prefix = "spark.sql.catalog.lakehouse"
    conf = {f"{prefix}.{key}": value for key, value in properties.items() if key != "name"}
    conf |= {prefix: "org.apache.iceberg.spark.SparkCatalog", f"{prefix}.cache-enabled": "false"}
    engine = session.start(conf={**conf, "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"})
    spark = engine.session
    try:
        bench = MaintenanceContext(engine, Catalog(engine, properties), CommitTarget("bench.t"))
        read(spark)  # the JVM warms up
        for name, action in {
            "with equality deletes": lambda: None,
            "converted": lambda: conversion(bench),
            "compacted": lambda: rewrite(bench, {"rewrite-all": "true"}),
        }.items():
            spent = timed(engine, folder, action)
            found = bench.count()
            print(
                f"{name:22} read {read(spark):6.2f} s  {spent}  {found.data_files:4} data files  "
                f"{found.equality_deletes:9,} equality deletes",
                flush=True,
            )
    finally:
        session.stop(engine)


def main() -> None:
    """Make the table in a folder that is thrown away, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=500_000)
    parser.add_argument("--version", type=int, default=2, help="of the table's format")
    parser.add_argument("--rewrite", action="store_true", help="convert by rewriting data files")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="maintain-") as folder:
        make(Path(folder), given.events, given.keys, given.version)
        command = [sys.executable, "-m", "calve", "run", "p.yaml", "--once", "--metrics-port", "0"]
        subprocess.run(command, cwd=folder, check=True, stderr=subprocess.DEVNULL, env=os.environ.copy())
        measure(Path(folder), by_rewrite if given.rewrite else convert)


if __name__ == "__main__":
    main()
