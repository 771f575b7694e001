"""Compacted topics as tables: the records' keys are the tables' keys, and records without a value delete rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kit.documents import yamls
from kit.running import Calve
from services.kafka import Kafka

pytestmark = [pytest.mark.spark, pytest.mark.services]


def example(broker: Kafka) -> str:
    """Return the example of the guide, for a broker that other tests use, too."""
    [text] = [block for block in yamls("docs/upserts.md") if "from_key" in block]
    return text.replace("127.0.0.1:9092", broker.address).replace("customers", "members")


def send(broker: Kafka, topic: str, *records: tuple[Any, Any]) -> None:
    written = [[part if isinstance(part, bytes | None) else json.dumps(part) for part in record] for record in records]
    broker.produce(topic, [value for _, value in written], (0,), keys=[key for key, _ in written])


def rows(running: Calve, table: str) -> list[dict[str, Any]]:
    return sorted(running.rows(table).to_pylist(), key=str)


def test_the_example_of_the_guide_keeps_the_newest_value_of_each_key(
    calve: Callable[..., Calve], kafka_broker: Kafka
) -> None:
    for topic in ("members", "stock"):
        kafka_broker.create_topic(topic)  # a compacted one would take no record without a key
    send(
        kafka_broker,
        "members",
        ({"id": 1}, {"name": "a"}),
        ({"id": 2}, {"name": "b"}),
        ({"id": 1}, {"name": "c"}),
        ({"id": 2}, None),
        ({"id": 3}, {"id": 3, "name": "d"}),
        ({"id": 4}, {"id": 5, "name": "differs"}),
        (None, {"id": 6, "name": "no key"}),
        ({"number": 7}, {"name": "another key"}),
    )
    send(kafka_broker, "stock", (b"bolt", {"count": 5}), (b"nut", {"count": 1}), (b"bolt", {"count": 4}))
    running = calve(example(kafka_broker))
    assert running.once() == 0, running.said()[-4000:]
    assert rows(running, "shop.members") == [{"id": 1, "name": "c"}, {"id": 3, "name": "d"}]
    assert rows(running, "shop.stock") == [{"kafka_key": "bolt", "count": 4}, {"kafka_key": "nut", "count": 1}]
    letters = {letter["code"]: letter for letter in running.dead_letters("tables")}
    assert [letter["code"] for letter in running.dead_letters("tables")].count("KEY_MISMATCH") == 2
    assert letters["NO_KEY"]["event"] == '{"id": 6, "name": "no key"}'

    send(kafka_broker, "members", ({"id": 1}, None), ({"id": 3}, {"name": "e"}), ({"id": 8}, {"name": "f"}))
    send(kafka_broker, "members", ({"number": 3}, None))
    send(kafka_broker, "stock", (b"bolt", None))
    assert running.once() == 0, running.said()[-4000:]
    assert rows(running, "shop.members") == [{"id": 3, "name": "e"}, {"id": 8, "name": "f"}]
    assert rows(running, "shop.stock") == [{"kafka_key": "nut", "count": 1}]
    last = running.dead_letters("tables")[-1]
    assert (last["code"], last["event"]) == ("KEY_MISMATCH", None)
    assert last["reason"] == "the record's key has other columns than the key of the table, id"
