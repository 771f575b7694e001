"""A stream and a load of Spark that are killed: `CALVE_KILLS=20 pytest tests/crash/test_spark_source.py` is the long run."""

from __future__ import annotations

import os
import sqlite3
from itertools import cycle, islice

import pytest

KILLS = int(os.environ.get("CALVE_KILLS", "2"))
POINTS = (
    "pipeline.after-stage:2",
    "ledger.before-begin:2",  # the rows are kept, and Spark repeats the batch
    "ledger.after-begin:2",
    "commit.after-swap:2",
    "commit.before-swap:3",
    "pipeline.after-acknowledge:2",
    "ledger.after-stage:3",
)
ROWS = 40
PARTS = 4 + 3 * KILLS
YAML = """
stream:
  source:
    spark:
      format: json
      schema: "n long, o struct<amount: decimal(12,2)>"
      options: {{path: {folder}/in, maxFilesPerTrigger: 1}}
      poll_interval: 10ms
  sink: [{{iceberg: {{table_identifier: shop.stream, {common}}}}}]
load:
  source:
    spark:
      format: jdbc
      read: batch
      options:
        url: jdbc:sqlite:{folder}/shop.db
        dbtable: orders
        partitionColumn: n
        lowerBound: 0
        upperBound: {rows}
        numPartitions: {parts}
  sink: [{{iceberg: {{table_identifier: shop.load, {common}}}}}]
"""
COMMON = "auto_create: true, commit_interval: 50ms, flush_interval: 10ms, max_batch_bytes: 1kb"


@pytest.mark.crash
@pytest.mark.spark
def test_a_stream_and_a_load_of_spark_are_exact_through_kills(doomed, tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("create table orders (n bigint not null, name varchar(20))")
        database.executemany("insert into orders values (?, 'x')", [(n,) for n in range(PARTS * ROWS)])
    calve = doomed(YAML.format(folder=tmp_path, common=COMMON, rows=PARTS * ROWS, parts=PARTS))
    for number in range(PARTS):
        rows = [{"n": number * ROWS + n, "o": {"amount": 7.25}} for n in range(ROWS)]
        calve.feed(number, rows, f'{{"n": "{number}"}}')
    for point in islice(cycle(POINTS), KILLS):
        calve.dies_at(point)
    assert calve.once() == 0, calve.said()[-4000:]
    assert sorted(calve.rows("shop.stream")["n"].to_pylist()) == list(range(PARTS * ROWS))
    assert sorted(calve.rows("shop.load")["n"].to_pylist()) == list(range(PARTS * ROWS))
    assert calve.once() == 0, calve.said()[-4000:]
    assert (len(calve.rows("shop.stream")), len(calve.rows("shop.load"))) == (PARTS * ROWS, PARTS * ROWS)
    letters = [letter["event"] for letter in calve.dead_letters("stream")]
    assert sorted(letters) == sorted(f'{{"n": "{number}"}}' for number in range(PARTS))
