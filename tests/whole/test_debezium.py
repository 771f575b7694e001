"""Debezium's changes come from a real Kafka, by configuration alone, and the table is what the source's table was."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from event.envelope.debezium import envelope, text
from kit.debezium_events import Changes
from kit.running import Calve
from services.kafka import Kafka

pytestmark = [pytest.mark.spark, pytest.mark.services]

COUNT, KEYS = 2_000, 500
COLUMNS = {
    "id": "long",
    "name": "string",
    "city": "string",
    "amount": "decimal(12, 2)",
    "visits": "int",
    "score": "double",
    "active": "boolean",
    "born": "date",
    "changed": "timestamp",
}
"""What the schema in the records says; nobody else does."""
BROKEN = {
    b'{"op":"c"': "MALFORMED",
    b'{"op":"t","source":{"table":"orders"}}': "UNKNOWN_OPERATION",
    b'{"op":"d"}': "NO_KEY",
    text(envelope("c", None, {"id": None, "n": 1}, table="t0")): "NO_KEY",  # a row that its table refuses
}


NOTES = {"columns": [{"name": "id", "type": "long"}, {"name": "body", "type": "string", "required": True}]}
NOTES["columns"].append({"name": "n", "type": "long"})
UNTOLD = "__debezium_unavailable_value"


def _configuration(address: str) -> str:
    def source(topic: str) -> dict[str, Any]:
        return {"kafka": {"bootstrap_servers": [address], "topics": [{"name": topic, "serde_format": "debezium"}]}}

    keyed = {"identifier_columns": ["id"], "auto_create": True, "max_batch_bytes": "8mb"}
    customers = {"table_identifier": "shop.customers", **keyed}
    many = {"table_identifier": 'shop.${getMetadata("debezium_source_table")}', **keyed}
    kept = {"table_identifier": "shop.notes", "schema": NOTES, "write_mode": "merge-on-read", "partial_updates": "keep"}
    pipelines = {
        "notes": {"source": source("notes"), "sink": [{"iceberg": {**keyed, **kept, "max_batch_bytes": "4kb"}}]},
        "customers": {"source": source("customers"), "sink": [{"iceberg": customers}]},
        "shop": {"source": source("shop"), "sink": [{"iceberg": many}]},
    }
    return json.dumps(pipelines)


def _micros(moment: int) -> str:
    return (datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=moment)).isoformat(sep=" ")


def _shown(row: dict[str, Any]) -> list[Any]:
    cents = row["cents"]
    amount = f"{'-' * (cents < 0)}{abs(cents) // 100}.{abs(cents) % 100:02d}"
    born = datetime.date(1970, 1, 1) + datetime.timedelta(row["born"])
    return [row["id"], row["city"], amount, f"{row['score']!r}", born.isoformat(), _micros(row["changed"])]


def _orders() -> list[tuple[bytes, bytes | None]]:
    """Changes of two tables in one topic, rejects and a tombstone among them."""
    records: list[tuple[bytes, bytes | None]] = []
    for number in range(4):
        after = {"id": number, "n": number * 10}
        records.append((b'{"id":%d}' % number, text(envelope("c", None, after, table=f"t{number % 2}"))))
    records += [(b'"x"', broken) for broken in BROKEN]
    records.append((b'{"id":1}', text(envelope("d", None, table="t1"))))  # the record's key tells the row
    records.append((b'{"id":1}', None))
    records.append((b'{"id":2}', text(envelope("u", {"id": 2, "n": 20}, {"id": 5, "n": 20}, table="t0"))))
    return records


def _notes() -> list[tuple[bytes, bytes | None]]:
    """Changes of rows with a large text, which Postgres tells only when it changes; several batches of them."""
    rows: list[tuple[str, Any, Any]] = [("c", None, {"id": key, "body": f"text {key}", "n": 0}) for key in range(4)]
    rows += [("u", None, {"id": number % 3, "body": UNTOLD, "n": number}) for number in range(30)]
    rows += [("u", None, {"id": 0, "body": "new", "n": 30}), ("u", None, {"id": 0, "body": UNTOLD, "n": None})]
    rows += [("d", {"id": 1}, None), ("c", None, {"id": 1, "body": "again", "n": 31})]
    return [(b"%d" % number, text(envelope(*row, table="notes"))) for number, row in enumerate(rows)]


def test_changes_from_kafka_make_the_table_that_debezium_told_of(kafka_broker: Kafka, calve) -> None:
    told = Changes(COUNT, KEYS, wrapped=True)
    records = list(told)
    kafka_broker.create_topic("customers", partitions=2)
    kafka_broker.produce("customers", [value for _, value in records], keys=[key for key, _ in records])
    kafka_broker.create_topic("shop")
    kafka_broker.produce("shop", [value for _, value in _orders()], keys=[key for key, _ in _orders()])
    kafka_broker.create_topic("notes")
    kafka_broker.produce("notes", [value for _, value in _notes()], keys=[key for key, _ in _notes()])
    job: Calve = calve(_configuration(kafka_broker.address))
    assert job.once() == 0, job.said()[-2000:]
    shown = "id, city, cast(amount as string), cast(score as string), cast(born as string), cast(changed as string)"
    queries = [f"select {shown} from lakehouse.shop.customers order by id"]
    queries += [f"select id, n from lakehouse.shop.t{number} order by id" for number in range(2)]
    queries += ["select id, body, n from lakehouse.shop.notes order by id"]
    spark = job.shared_spark()
    customers, even, odd, notes = ([[*row] for row in spark.sql(query).collect()] for query in queries)
    wanted = [_shown(row) for _, row in sorted(told.rows.items())]
    made = job.catalog().load_table("shop.customers").schema().fields
    assert {each.name: str(each.field_type) for each in made} == COLUMNS
    assert [each.name for each in made if each.required] == ["id"]
    assert [_trimmed(row) for row in customers] == [_trimmed(row) for row in wanted]
    assert (even, odd) == ([[0, 0], [5, 20]], [[3, 30]])
    assert notes == [[0, "new", None], [1, "again", 31], [2, "text 2", 29], [3, "text 3", 0]]
    assert job.dead_letters("notes") == []
    deletes = sum(value is None for _, value in records)
    assert job.status("customers")["passed_over"] == deletes > 0
    assert job.dead_letters("customers") == []
    rejects = job.dead_letters("shop")
    assert {one["event"].encode(): one["code"] for one in rejects} == BROKEN
    assert len(rejects) == len(BROKEN)
    assert {one["metadata"]["kafka_key"] for one in rejects} == {'"x"'}  # what a replay needs


def _trimmed(row: list[Any]) -> list[Any]:
    """Spark shows no zeros at the end of a fraction of a second."""
    return [*row[:-1], row[-1].rstrip("0") if "." in row[-1] else row[-1]]
