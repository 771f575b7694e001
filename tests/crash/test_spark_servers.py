"""Spark's Kafka source and JDBC with real servers: `CALVE_PACKAGES=1 pytest tests/crash/test_spark_servers.py`.

Spark fetches the connectors from Maven. The checkpoint of the stream is on an object store; the run is killed once.
"""

from __future__ import annotations

import datetime
import json
import os
import signal
from decimal import Decimal

import pytest

from calve.stop_point import VARIABLE
from kit.running import Calve
from services.kafka import Kafka
from services.objects import ACCESS_KEY, BUCKET, SECRET_KEY, ObjectStore
from services.postgres import PASSWORD, Postgres

ROWS = 200
YAML = """
stream:
  source:
    spark:
      format: kafka
      options: {{kafka.bootstrap.servers: "{kafka}", subscribe: spark, maxOffsetsPerTrigger: 50}}
      packages:
        - org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3
        - org.apache.hadoop:hadoop-aws:3.4.2
      select: ["cast(value as string) message", "partition", "offset", "key", "timestamp"]
      checkpoint: s3a://{bucket}/checkpoint
      poll_interval: 10ms
  processor: [{{parse_json: {{}}}}]
  sink: [{{iceberg: {{table_identifier: shop.stream, {common}}}}}]
load:
  source:
    spark:
      format: jdbc
      read: batch
      options:
        url: "jdbc:postgresql://127.0.0.1:{postgres}/postgres?user=postgres&password={password}"
        driver: org.postgresql.Driver
        dbtable: types
        partitionColumn: id
        lowerBound: 0
        upperBound: {rows}
        numPartitions: 4
      packages: ["org.postgresql:postgresql:42.7.8"]
  sink: [{{iceberg: {{table_identifier: shop.load, {common}}}}}]
"""
COMMON = "auto_create: true, commit_interval: 50ms, flush_interval: 10ms, max_batch_bytes: 1kb"
COLUMNS = """
    id bigint primary key, n numeric, d numeric(12, 2), at timestamptz, local timestamp, day date, u uuid, j jsonb,
    a int[], b bytea, t text, f float8, ok boolean, small smallint
"""
VALUES = """
    n, n + 0.5, n + 0.25, '2026-01-02T03:04:05.678901+02', '2026-01-02T03:04:05.678901', '2026-01-02',
    '00000000-0000-4000-8000-000000000001', '{"k": 1}', array[n, null], '\\x00ff', 'ä' || n, 'NaN', n % 2 = 0, 7
"""


def s3a(objects: ObjectStore) -> list[str]:
    """What Hadoop needs to reach the store."""
    options = {"endpoint": objects.endpoint, "path.style.access": "true", "access.key": ACCESS_KEY}
    options |= {"secret.key": SECRET_KEY, "endpoint.region": "us-east-1"}
    return [word for key, value in options.items() for word in ("--conf", f"spark.hadoop.fs.s3a.{key}={value}")]


def jars() -> list[str]:
    """What replaces a jar that a registry lacks in this version: `CALVE_TOKEN_PROVIDER` is its file."""
    file = os.environ.get("CALVE_TOKEN_PROVIDER")
    excluded = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
    return ["--conf", f"spark.jars={file}", "--conf", f"spark.jars.excludes={excluded}"] if file else []


@pytest.mark.crash
@pytest.mark.services
@pytest.mark.skipif("CALVE_PACKAGES" not in os.environ, reason="fetches jars from Maven: CALVE_PACKAGES=1 runs it")
def test_kafka_and_postgres_through_spark_are_exact_with_a_checkpoint_on_s3(
    kafka_broker: Kafka, object_store: ObjectStore, tmp_path
) -> None:
    kafka_broker.create_topic("spark", 3)
    kafka_broker.produce("spark", [json.dumps({"id": n}) for n in range(ROWS)] + ["broken", b"\xff"], (0, 1, 2))
    password = PASSWORD.replace(" ", "%20")
    with Postgres() as postgres:
        postgres.run(
            f"create table types ({COLUMNS})",
            f"insert into types select {VALUES} from generate_series(0, {ROWS - 1}) n",
        )
        places = {"kafka": kafka_broker.address, "postgres": postgres.port, "bucket": BUCKET, "password": password}
        calve = Calve(tmp_path, YAML.format(**places, rows=ROWS, common=COMMON))
        arguments = ["--once", *s3a(object_store), *jars()]
        code = calve.start(*arguments, environment={VARIABLE: "commit.after-swap:2"}).wait(900)
        assert code == -signal.SIGKILL, calve.said()[-4000:]
        for _ in range(2):
            assert calve.start(*arguments).wait(900) == 0, calve.said()[-4000:]
            assert sorted(calve.rows("shop.stream")["id"].to_pylist()) == list(range(ROWS))
            rows = sorted(calve.rows("shop.load").to_pylist(), key=lambda row: row["id"])
            assert [row["id"] for row in rows] == list(range(ROWS))
    assert sorted(letter["code"] for letter in calve.dead_letters("stream")) == ["MALFORMED", "PROCESSOR_FAILED"]
    at = datetime.datetime(2026, 1, 2, 1, 4, 5, 678901, tzinfo=datetime.UTC)
    assert (rows[1]["n"], rows[1]["d"], rows[1]["at"]) == (Decimal("1.5"), Decimal("1.25"), at)
    assert (rows[1]["a"], rows[1]["b"], rows[1]["j"]) == ([1, None], b"\x00\xff", '{"k": 1}')
