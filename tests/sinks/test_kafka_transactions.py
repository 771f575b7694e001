"""What a broker refuses, and who may send: each batch is in its topics once, whatever came before."""

from __future__ import annotations

import dataclasses
import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calve.errors import OvertakenError, SinkRefusedError, SinkUnavailableError
from calve.sinks.kafka import brokers, transaction
from calve.sinks.kafka.refusals import RecordRefusals
from calve.sinks.kafka.settings import KafkaSinkSettings, TargetTopic
from calve.sinks.kafka.transaction import _Sender, send
from calve.sinks.records.record import OutgoingRecord
from services.kafka import Kafka

pytestmark = pytest.mark.services("kafka")

DEATHS = os.environ.get("CALVE_BROKER_DEATHS", "task.before-send").split(",")
"""Where the broker dies, one after the other; also `records` (among them) and `task.after-send`."""


@pytest.fixture(autouse=True)
def no_senders() -> Iterator[None]:
    """Keep no client of the broker."""
    yield
    transaction._open.clear()


class World:
    """A sink whose events name their topics, and some topics."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka, self.id = kafka, uuid.uuid4().hex[:8]
        self.settings = KafkaSinkSettings(bootstrap_servers=kafka.address, topic=f"{self.id}-${{/t}}")
        kafka.create_topic(self.topic("a"), 2)

    def topic(self, name: str) -> str:
        return f"{self.id}-{name}"

    def records(self, *parts: tuple[str, str | None, str]) -> list[OutgoingRecord]:
        return [
            OutgoingRecord(self.topic(topic), key and key.encode(), value.encode(), [], 0, row)
            for row, (topic, key, value) in enumerate(parts)
        ]

    def send(
        self, batch: int, records: list[OutgoingRecord], settings: KafkaSinkSettings | None = None
    ) -> RecordRefusals:
        topics = {record.target for record in records}
        return send(settings or self.settings, f"calve-{self.id}", batch, topics, lambda: records)

    def values(self, name: str) -> list[str]:
        return sorted((record.value() or b"").decode() for record in self.kafka.committed(self.topic(name)))


@pytest.fixture
def world(kafka_broker: Kafka) -> World:
    return World(kafka_broker)


def test_what_a_topic_refuses_is_known_and_all_else_is_there_once(world: World) -> None:
    world.kafka.create_topic(world.topic("small"), 1, max_message_bytes="2000")
    world.kafka.create_topic(world.topic("keyed"), 1, cleanup_policy="compact")
    records = world.records(
        ("small", "k", "good"), ("small", "k", "x" * 5000), ("keyed", None, "lost"), ("keyed", "k", "kept"),
        ("missing", "k", "nowhere"), ("a", None, "well"), ("small", "k", "y" * 3000), ("small", "k", "good, too"),
    )  # fmt: skip
    refusals = world.send(1, records)
    refused = {record.row: refusals.reason(record) or "" for record in records if refusals.reason(record)}
    assert sorted(refused) == [1, 2, 4, 6]
    assert "5001 bytes, more than the topic" in refused[1]
    assert "without a key" in refused[2]
    assert "Unknown topic" in refused[4]
    assert (world.values("small"), world.values("keyed"), world.values("a")) == (
        ["good", "good, too"],
        ["kept"],
        ["well"],
    )
    transaction._open.clear()  # as a new process, after the topics could take all
    assert world.send(1, records) == refusals
    assert world.values("small") == ["good", "good, too"]


def test_what_the_client_refuses_is_known_and_all_else_is_there_once(world: World) -> None:
    properties = {"message.max.bytes": 2000}
    settings = dataclasses.replace(world.settings, client_properties=properties)
    records = world.records(("a", "k", "good"), ("a", "k", "x" * 5000), ("a", "k", "good, too"))
    refusals = world.send(1, records, settings)
    assert [record.row for record in records if refusals.reason(record)] == [1]
    assert world.values("a") == ["good", "good, too"]


def test_the_only_topic_is_waited_for_or_created(world: World) -> None:
    one = dataclasses.replace(world.settings, topic=world.topic("one"))
    with pytest.raises(SinkRefusedError, match=r"does not exist|Unknown topic") as refused:
        world.send(1, world.records(("one", "k", "v")), one)
    assert "create_topic" in refused.value.hint
    created = dataclasses.replace(one, topic=TargetTopic(name=world.topic("one"), create_topic=True))
    assert not world.send(1, world.records(("one", "k", "v")), created)
    assert world.values("one") == ["v"]


def test_who_was_overtaken_begins_anew_and_repeats_nothing(world: World) -> None:
    world.send(1, world.records(("a", "k", "1")))
    other = _Sender(world.settings, f"calve-{world.id}")
    other.send(2, {world.topic("a")}, lambda: world.records(("a", "k", "2")))
    world.send(2, world.records(("a", "k", "2")))
    world.send(3, world.records(("a", "k", "3")))
    assert world.values("a") == ["1", "2", "3"]


def test_an_older_copy_of_a_state_is_refused(world: World) -> None:
    world.send(5, world.records(("a", "k", "5")))
    transaction._open.clear()
    with pytest.raises(OvertakenError, match=r"batch 5 .* sends batch 4"):
        world.send(4, world.records(("a", "k", "4")))
    assert world.values("a") == ["5"]


def test_a_call_that_ignores_its_timeout_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "PATIENCE_SECONDS", 0.05)
    never = threading.Event()
    with pytest.raises(TimeoutError):
        transaction.bounded(never.wait)
    never.set()
    with pytest.raises(ZeroDivisionError):
        transaction.bounded(divmod, 1, 0)


def test_a_transaction_that_hangs_is_tried_again_by_another_producer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, records = f"calve-{world.id}", world.records(("a", "k", "1"))
    sender, never = _Sender(world.settings, name), threading.Event()
    hanging: Any = HangingProducer(sender._producer, never)
    sender._producer = hanging
    monkeypatch.setattr(transaction, "PATIENCE_SECONDS", 0.05)
    with pytest.raises(SinkUnavailableError):
        sender.send(1, {world.topic("a")}, lambda: records)
    monkeypatch.undo()
    world.send(1, records)
    never.set()
    assert world.values("a") == ["1"]


def test_a_broker_that_dies_within_a_transaction_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Kafka(tmp_path) as broker:
        world = World(broker)
        world.send(1, world.records(("a", "k", "begun")))
        for patched in (brokers, transaction):
            monkeypatch.setattr(patched, "ANSWER_SECONDS", 3.0)
        for batch, point in enumerate(DEATHS, 2):
            records = world.records(*(("a", f"k{row}", f"{point} {row}") for row in range(20)))
            with monkeypatch.context() as patch:
                deaths = Deaths(broker, point)
                patch.setattr(transaction, "stop_at", deaths.at)
                topics = {world.topic("a")}
                try:
                    send(world.settings, f"calve-{world.id}", batch, topics, lambda to=records, d=deaths: d.among(to))
                except SinkUnavailableError:
                    assert point != "task.after-send"
            if point == "task.after-send":
                transaction._open.clear()  # the process died, too
            broker.start()
            until_sent(world, batch, records)
        expected = ["begun", *(f"{point} {row}" for point in DEATHS for row in range(20))]
        assert world.values("a") == sorted(expected)


def until_sent(world: World, batch: int, records: list[OutgoingRecord]) -> None:
    """Send a batch again as the pipeline does, until the broker takes it."""
    for attempt in range(10):
        try:
            world.send(batch, records)
        except SinkUnavailableError:
            assert attempt < 9
        else:
            return


class Deaths:
    """Kills a broker once: at a point, or when half of the records were given."""

    def __init__(self, broker: Kafka, point: str) -> None:
        self._broker, self._point = broker, point

    def at(self, point: str) -> None:
        """Kill it if this is the point."""
        if point == self._point:
            self._broker.kill()

    def among(self, records: list[OutgoingRecord]) -> Iterator[OutgoingRecord]:
        """Yield records, and kill it among them."""
        for number, record in enumerate(records):
            if number == len(records) // 2:
                self.at("records")
            yield record


class HangingProducer:
    """A producer whose offsets wait for an event."""

    def __init__(self, producer: Any, until: threading.Event) -> None:
        self._producer, self._until = producer, until

    def send_offsets_to_transaction(self, *_: Any) -> None:
        self._until.wait()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def __len__(self) -> int:
        return len(self._producer)
