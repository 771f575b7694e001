"""The main job: many events of a real broker in one table, and in twenty, each exactly once."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kit.running import Calve, until
from services.kafka import Kafka

pytestmark = [pytest.mark.spark, pytest.mark.services]

EVENTS = 100_000
TABLES = 20
PARTITIONS = 4
KAFKA = '{{kafka: {{bootstrap_servers: ["{address}"], topics: [{{name: {topic}, serde_format: json}}]}}}}'
MANY = """
one:
  source: {source}
  sink:
    - iceberg: {{table_identifier: main.one, auto_create: true}}
many:
  source: {source}
  sink:
    - iceberg: {{table_identifier: "main.t${{/t}}", auto_create: true}}
"""
MIXED = """
broken:
  source: {missing}
  sink:
    - iceberg: {{table_identifier: mixed.never, auto_create: true}}
routed:
  source: {source}
  route:
    - errors: '/level == "error"'
    - large: '/n >= 50'
  sink:
    - iceberg: {{table_identifier: mixed.errors, routes: [errors], auto_create: true, commit_interval: 200ms, flush_interval: 200ms}}
    - iceberg: {{table_identifier: mixed.large, routes: [large], auto_create: true, commit_interval: 200ms, flush_interval: 200ms}}
    - iceberg: {{table_identifier: mixed.rest, routes: [_default], auto_create: true, commit_interval: 200ms, flush_interval: 200ms}}
"""


def amount(number: int) -> int:
    """A number that has no order, so that sums tell rows apart."""
    return number * 2_654_435_761 % 1_000_003


def name(number: int) -> str:
    return f"user-{amount(number):x}"


def many() -> Iterator[bytes]:
    for number in range(EVENTS):
        yield b'{"id": %d, "t": %d, "amount": %d, "name": "%s"}' % (
            number,
            number % TABLES,
            amount(number),
            name(number).encode(),
        )


def names(numbers: range) -> str:
    """A checksum of all names in the order of ids."""
    return hashlib.sha256("".join(map(name, numbers)).encode()).hexdigest()


def check(rows: pa.Table, numbers: range) -> None:
    """Compare a table with what was produced, by nothing of Calve."""
    rows = rows.sort_by("id")
    assert rows["id"].to_pylist() == list(numbers)
    assert pc.sum(rows["amount"]).as_py() == sum(map(amount, numbers))
    assert hashlib.sha256("".join(rows["name"].to_pylist()).encode()).hexdigest() == names(numbers)


def test_many_events_are_in_one_table_and_in_twenty_exactly_once(kafka_broker: Kafka, calve) -> None:
    kafka_broker.create_topic("many", partitions=PARTITIONS)
    assert kafka_broker.produce("many", many(), partitions=range(PARTITIONS)) == EVENTS
    job: Calve = calve(MANY.format(source=KAFKA.format(address=kafka_broker.address, topic="many")))
    assert job.once() == 0, job.said()[-2000:]
    snapshots = _check_all(job)
    assert job.once() == 0, job.said()[-2000:]
    assert _check_all(job) == snapshots  # the second run found nothing to add


def _check_all(job: Calve) -> dict[str, int]:
    assert sorted(job.tables("main")) == sorted(["main.one", *(f"main.t{number}" for number in range(TABLES))])
    check(job.rows("main.one"), range(EVENTS))
    for number in range(TABLES):
        check(job.rows(f"main.t{number}"), range(number, EVENTS, TABLES))
    assert job.dead_letters("one") == job.dead_letters("many") == []
    return {table: job.catalog().load_table(table).metadata.current_snapshot_id for table in job.tables("main")}


def test_a_failing_pipeline_leaves_the_other_running_and_routes_copy_or_default(kafka_broker: Kafka, calve) -> None:
    kafka_broker.create_topic("mixed", partitions=2)
    events = [{"id": number, "level": ("info", "error")[number % 10 == 0], "n": number % 100} for number in range(400)]
    kafka_broker.produce("mixed", [json.dumps(each).encode() for each in events[:200]], partitions=range(2))
    source, missing = (KAFKA.format(address=kafka_broker.address, topic=topic) for topic in ("mixed", "missing"))
    job: Calve = calve(MIXED.format(source=source, missing=missing))
    more = [json.dumps(each).encode() for each in events[200:]]
    wanted = {
        "mixed.errors": [each["id"] for each in events if each["level"] == "error"],
        "mixed.large": [each["id"] for each in events if each["n"] >= 50],
        "mixed.rest": [each["id"] for each in events if each["level"] != "error" and each["n"] < 50],
    }
    with job.running(fails=True):
        until(lambda: job.status("broken").get("state") == "failed", "the broken pipeline fails")
        kafka_broker.produce("mixed", more, partitions=range(2))
        until(lambda: _counts(job) == {table: len(ids) for table, ids in wanted.items()}, "all rows are committed")
    for table, ids in wanted.items():
        assert Counter(job.rows(table)["id"].to_pylist()) == Counter(ids)
    assert "The topic missing does not exist" in job.said()


def _counts(job: Calve) -> dict[str, int]:
    return {table: one["rows"] for table, one in job.status("routed").get("tables", {}).items()}
