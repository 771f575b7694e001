"""`source: spark` as a user has it: a stream, a load, and what goes wrong with them."""

from __future__ import annotations

import datetime
import json
import shutil
import sqlite3
from collections.abc import Callable
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from calve.engine import session
from calve.errors import SourceError
from calve.sources.spark.formats import java_frame
from calve.sources.spark.settings import SparkSettings
from kit.running import Calve

pytestmark = pytest.mark.spark
YAML = """
stream:
  source:
    spark:
      format: json
      schema: "id long, amount decimal(12,2), at timestamp, tags array<struct<k: string>>"
      options: {path: "FOLDER/in"}
      select: ["*", "id % 2 = 0 as `is even`"]
  sink: [{iceberg: {table_identifier: shop.stream, auto_create: true}}]
load:
  source:
    spark:
      format: jdbc
      read: batch
      options: {url: "jdbc:sqlite:FOLDER/shop.db", dbtable: orders}
      load_id: LOAD
  sink: [{iceberg: {table_identifier: shop.load, auto_create: true}}]
"""


def test_a_stream_and_a_load_are_typed_rows_that_come_once(calve: Callable[..., Calve]) -> None:
    running = calve("")
    folder = running.folder
    running.configure(YAML.replace("FOLDER", str(folder)).replace("LOAD", "monday"))
    (folder / "in").mkdir()
    events = [{"id": n, "amount": 12.25, "at": "2026-01-02T03:04:05Z", "tags": [{"k": "x"}]} for n in range(3)]
    broken = ['{"id": 3, "amount": "dear"}', '{"id": 4, "tags": [{"k": "x"}, 5]}', '{"id": 5']
    (folder / "in" / "1.json").write_text("\n".join([*map(json.dumps, events), *broken]))
    with sqlite3.connect(folder / "shop.db") as database:
        database.execute("create table orders (id bigint, name varchar(20))")
        database.execute("insert into orders values (9007199254740993, 'ä')")
    for _ in range(2):
        assert running.once() == 0, running.said()[-4000:]
        assert running.rows("shop.load").to_pylist() == [{"id": 9007199254740993, "name": "ä"}]
        rows = sorted(running.rows("shop.stream").to_pylist(), key=lambda row: row["id"])
        assert [row["id"] for row in rows] == [0, 1, 2]
        at = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
        typed = {"amount": Decimal("12.25"), "at": at, "tags": [{"k": "x"}], "is even": True}
        assert rows[2] == {"id": 2, **typed}
        letters = running.dead_letters("stream")
        assert sorted(letter["event"] for letter in letters) == sorted(broken)
        assert {letter["code"] for letter in letters} == {"MALFORMED"}
    checkpoint = folder / "calve-state" / "stream" / "spark" / "checkpoint"
    assert not checkpoint.stat().st_mode & 0o077, "only this user reads it"
    shutil.rmtree(checkpoint)
    running.configure(YAML.replace("FOLDER", str(folder)).replace("LOAD", "tuesday"))
    assert running.once() == 1
    assert "Spark's checkpoint is gone, and the tables have the stream up to its batch 0" in running.said()
    assert len(running.rows("shop.load")) == 2
    assert len(running.rows("shop.stream")) == 3


def test_what_spark_cannot_read_is_said_with_what_helps(spark: SparkSession) -> None:
    for settings, said, hint in (
        ({"format": "kinesis"}, "Spark has no source of the format kinesis", "packages: "),
        ({"format": "kafka"}, "Spark has no source of the format kafka", "packages: "),
        ({"format": "jdbc", "options": {"url": "jdbc:sqlite:x", "dbtable": "t"}}, "as a stream", "read: batch"),
        ({"format": "rate", "read": "batch"}, "as a batch", "read: stream"),
        ({"format": "jdbc", "read": "batch", "options": {"url": "jdbc:x:y", "dbtable": "t"}}, "driver", "packages: "),
        ({"format": "rate", "options": {"rowsPerSecond": "many"}}, "many", "`options`"),
        ({"format": "json", "schema": "id lang", "options": {"path": "/"}}, "LANG", "`options`"),
        ({"format": "rate", "select": ["nothing"]}, "nothing", "`options`"),
        ({"format": "rate", "select": ["interval 1 month as i"]}, "has the type interval", "Cast it"),
    ):
        with pytest.raises(SourceError, match=said) as error:
            java_frame(session.start(), SparkSettings(**settings))
        assert hint in error.value.hint, error.value
        assert "\n" not in str(error.value)
