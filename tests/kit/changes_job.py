"""A stream of the changes of a table in a user's own Spark job: `python changes_job.py JARS FOLDER`.

It writes the rows of each batch into FOLDER/out, and at the end those of the table into FOLDER/table.json. With
`KILL_AFTER=n` it ends as by `kill -9` in its n-th batch of this run: with `KILL_BEFORE=1` before the rows are written.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import calve.spark
from kit.spark_job import session

TABLE = "job.shop.orders"
MODES = ", ".join(f"'write.{what}.mode' = 'merge-on-read'" for what in ("delete", "update", "merge"))
FIRST = 100
"""The rows of the first snapshot: ids from 0, and the text `v0`."""
BUSY = "Python worker failed to connect back"
"""Spark gives a new process ten seconds, however busy the machine is."""


def write_table(spark: SparkSession, snapshots: int) -> None:
    spark.sql(f"CREATE TABLE {TABLE} (id BIGINT, text STRING) USING iceberg TBLPROPERTIES ({MODES})")
    for number in range(snapshots):
        rows = f"range({number * FIRST}, {number * FIRST + FIRST})"
        statements = (
            f"INSERT INTO {TABLE} SELECT id, 'v{number}' FROM {rows}",
            f"UPDATE {TABLE} SET text = 'v{number}' WHERE id % 5 = {number % 5}",
            f"DELETE FROM {TABLE} WHERE id % 7 = {number % 7}",
        )
        spark.sql(statements[number % 3])


def main(jars: str, folder: Path) -> None:
    taken, kill_after = 0, int(os.environ.get("KILL_AFTER", "0"))
    is_before = "KILL_BEFORE" in os.environ

    def each(frame: DataFrame, epoch: int) -> None:
        nonlocal taken
        taken += 1
        rows = sorted(list(row) for row in frame.collect())
        if taken == kill_after and is_before:
            os.kill(os.getpid(), signal.SIGKILL)
        file = folder / "out" / f"{epoch}.json"
        if file.exists():
            assert rows == json.loads(file.read_text()), f"the batch {epoch} has other rows"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(rows))
        if taken == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)

    spark = session(jars, folder)
    if not (folder / "warehouse").exists():
        write_table(spark, int(os.environ["SNAPSHOTS"]))
    calve.spark.register(spark)
    is_read = False
    while not is_read:
        first = spark.sql(f"SELECT snapshot_id FROM {TABLE}.history ORDER BY made_current_at LIMIT 1").head()[0]
        changes = spark.readStream.format("calve_changes").option("table", TABLE).option("max_snapshots", 1)
        changes = changes.option("start_snapshot_id", first).option("identifier_columns", "id")
        stream = changes.load().writeStream.foreachBatch(each)
        query = stream.option("checkpointLocation", str(folder / "checkpoint")).start()
        try:
            query.processAllAvailable()
            is_read = True
        except StreamingQueryException as error:
            if BUSY not in str(error):
                raise
        query.stop()
    (folder / "table.json").write_text(json.dumps(sorted(list(row) for row in spark.table(TABLE).collect())))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
