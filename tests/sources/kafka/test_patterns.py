"""Topics by pattern, against a real broker: they come, grow, and go."""

from __future__ import annotations

import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from calve.sources.kafka.settings import KafkaSettings, TopicSettings
from calve.sources.kafka.source import KafkaSource
from calve.sources.kafka.source import open as open_source
from calve.sources.source import Planned, Position
from services.kafka import Kafka

pytestmark = pytest.mark.services

PLENTY = 1 << 40
_prefixes = (f"shop{number}." for number in itertools.count())


@pytest.fixture
def prefix() -> str:
    """The beginning of topics that no other test has."""
    return next(_prefixes)


def source(
    broker: Kafka, prefix: str, position: Position | None = None, once: bool = False, **more: Any
) -> KafkaSource:
    own = {key: more.pop(key) for key in list(more) if key in TopicSettings.__dataclass_fields__}
    topics = [TopicSettings(pattern=prefix.replace(".", r"\.") + ".*", exclude=[".*private"], **own)]
    settings = KafkaSettings(bootstrap_servers=broker.address, topics=topics, **more)
    opened = open_source(settings, Path("none"), "test")  # type: ignore[arg-type]
    opened.start(position, once)
    opened._cluster._refresh_seconds = 0.0
    return opened


def read(of: KafkaSource, planned: Planned) -> dict[str, list[int]]:
    reader, events = pickle.loads(pickle.dumps(of.reader)), dict[str, list[int]]()
    for batch in (batch for split in planned.splits for batch in reader.read(split)):
        for row in batch.to_pylist():
            event = json.loads(row["event"]) if row["event"] else row["malformed"]
            events.setdefault(row["kafka_topic"], []).append(event)
    return events


def drain(
    of: KafkaSource, position: Position | None = None, most: int = PLENTY
) -> tuple[dict[str, list[int]], Position]:
    events: dict[str, list[int]] = {}
    while planned := of.plan(position, most):
        for topic, values in read(of, planned).items():
            events.setdefault(topic, []).extend(values)
        position = planned.position
    return events, position or {}


def test_topics_that_match_are_read_and_new_ones_join_from_their_first_record(kafka_broker: Kafka, prefix: str):
    for name in ("a", "b", "private"):
        kafka_broker.create_topic(prefix + name)
        kafka_broker.produce(prefix + name, [b"1"])
    of = source(kafka_broker, prefix)
    events, position = drain(of)
    assert events == {prefix + "a": [1], prefix + "b": [1]}
    kafka_broker.create_topic(prefix + "c", 2)
    kafka_broker.produce(prefix + "c", [b"2", b"3"], [0, 1])
    kafka_broker.add_partitions(prefix + "a", 3)
    kafka_broker.produce(prefix + "a", [b"4"], [2])
    events, position = drain(of, position)
    assert {name: sorted(values) for name, values in events.items()} == {prefix + "c": [2, 3], prefix + "a": [4]}
    assert of.condition == "3 topics"
    assert not of.stopped


def test_latest_counts_once_and_topics_that_come_later_are_read_from_their_start(kafka_broker: Kafka, prefix: str):
    for name in ("old", "quiet"):
        kafka_broker.create_topic(prefix + name)
        kafka_broker.produce(prefix + name, [b"1"])
    of = source(kafka_broker, prefix, auto_offset_reset="latest")
    kafka_broker.produce(prefix + "old", [b"2"])
    events, position = drain(of)
    assert events == {prefix + "old": [2]}
    kafka_broker.create_topic(prefix + "new")
    for name in ("new", "quiet"):
        kafka_broker.produce(prefix + name, [b"3"])
    assert drain(source(kafka_broker, prefix, position, auto_offset_reset="latest"), position)[0] == {
        prefix + "new": [3],
        prefix + "quiet": [3],
    }


def test_a_deleted_topic_is_forgotten_if_it_was_read_and_a_new_one_of_its_name_begins_anew(
    kafka_broker: Kafka, prefix: str
):
    for name in ("a", "b"):
        kafka_broker.create_topic(prefix + name, 2)
        kafka_broker.produce(prefix + name, [b"1", b"2"], [0, 1])
    of = source(kafka_broker, prefix)
    _, position = drain(of)
    kafka_broker.delete_topic(prefix + "a")
    kafka_broker.produce(prefix + "b", [b"3"], [0])
    events, position = drain(of, position)
    assert (events, of.stopped) == ({prefix + "b": [3]}, {})
    assert prefix + "a" not in position
    kafka_broker.create_topic(prefix + "a")
    kafka_broker.delete_topic(prefix + "b")
    kafka_broker.create_topic(prefix + "b")
    for name in ("a", "b"):
        kafka_broker.produce(prefix + name, [b"5", b"6"])
    assert drain(of, position)[0] == {prefix + "a": [5, 6], prefix + "b": [5, 6]}
    assert not of.stopped


def test_a_topic_that_lost_records_stops_alone(kafka_broker: Kafka, prefix: str):
    for name in ("a", "b", "c"):
        kafka_broker.create_topic(prefix + name)
        kafka_broker.produce(prefix + name, [b"1", b"2", b"3"])
    position: Position = {prefix + name: {"0": 1} for name in "abc"}
    kafka_broker.delete_records(prefix + "a", 0, 2)
    kafka_broker.delete_topic(prefix + "b")
    of = source(kafka_broker, prefix, position)
    events, after = drain(of, position)
    assert events == {prefix + "c": [2, 3]}
    assert {name.removeprefix(prefix) for name in of.stopped} == {"a", "b"}
    assert "1 were deleted before they were read" in of.condition
    assert after[prefix + "a"] == {"0": 1}
    allowed = source(kafka_broker, prefix, after, on_lost_position="earliest")
    assert drain(allowed, after)[0] == {prefix + "a": [3]}


def test_what_was_planned_of_a_topic_that_is_deleted_before_it_is_read_is_a_dead_letter(
    kafka_broker: Kafka, prefix: str
):
    for name in ("a", "b", "c"):
        kafka_broker.create_topic(prefix + name)
        kafka_broker.produce(prefix + name, [b"1", b"2"])
    of = source(kafka_broker, prefix)
    planned = of.plan(None, PLENTY)
    assert planned
    kafka_broker.delete_topic(prefix + "a")
    kafka_broker.delete_topic(prefix + "b")
    kafka_broker.create_topic(prefix + "b")
    kafka_broker.produce(prefix + "b", [b"7", b"8", b"9"])
    events = read(of, planned)
    assert events.pop(prefix + "c") == [1, 2]
    assert set(events) == {prefix + "a", prefix + "b"}
    assert all("offsets 0 to 1 were deleted with their topic" in str(values[0]) for values in events.values())
    assert drain(of, planned.position)[0] == {prefix + "b": [7, 8, 9]}


def test_short_ranges_of_many_topics_share_splits_and_batches(kafka_broker: Kafka, prefix: str):
    names = [f"{prefix}{number:03}" for number in range(70)]
    kafka_broker.create_topics(names)
    producer = kafka_broker.producer()
    for name in names:
        producer.produce_batch(name, [{"value": value} for value in (b"1", b"2", b"3")])
    kafka_broker.arrived(producer)
    kafka_broker.produce(names[0], [b'"%s"' % (b"x" * 1000)] * 1000)
    of = source(kafka_broker, prefix)
    planned = of.plan(None, PLENTY)
    assert planned
    assert len(planned.splits) == 2, "one for the hot topic, one for all others"
    batches = list(of.reader.read(planned.splits[1]))
    assert len(batches) == 1
    events = read(of, planned)
    assert {name: values[:3] for name, values in events.items()} == {name: [1, 2, 3] for name in names}
    assert len(events[names[0]]) == 1003
    some = of.plan(None, 300_000)
    assert some
    parts = read(of, some)
    assert all(parts[name] == [1, 2, 3] for name in names[1:]), "quiet topics are complete beside a hot one"


def test_a_topic_that_the_user_may_not_read_is_left_out_until_it_may(
    kafka_broker: Kafka, prefix: str, monkeypatch: pytest.MonkeyPatch
):
    for name in ("a", "b"):
        kafka_broker.create_topic(prefix + name)
        kafka_broker.produce(prefix + name, [b"1"])
    of = source(kafka_broker, prefix)
    with monkeypatch.context() as patched:
        unreadable = lambda name, description: name.endswith("a") and bool(of._cluster.refused.setdefault(name, "no"))  # noqa: E731
        patched.setattr(of._cluster, "_is_unreadable", unreadable)
        events, position = drain(of)
        assert (events, of.stopped) == ({prefix + "b": [1]}, {prefix + "a": "no"})
    assert drain(of, position)[0] == {prefix + "a": [1]}
    assert not of.stopped
