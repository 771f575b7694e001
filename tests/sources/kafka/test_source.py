"""The kafka source against a real broker."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo

from calve.errors import CalveError, PositionLostError, SourceError, SourceUnavailableError
from calve.sources.kafka.settings import KafkaSettings, TopicSettings
from calve.sources.kafka.source import KafkaSource
from calve.sources.kafka.source import open as open_source
from calve.sources.source import Position, Split
from services.kafka import Kafka

pytestmark = pytest.mark.services

PLENTY = 1 << 40
_names = (f"topic-{number}" for number in itertools.count())


@pytest.fixture
def topic(kafka_broker: Kafka) -> str:
    """A fresh topic with one partition."""
    name = next(_names)
    kafka_broker.create_topic(name)
    return name


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with Kafka(tmp_path_factory.mktemp("mortal")) as broker:
        yield broker


@pytest.fixture
def own_broker(mortal: Kafka) -> Kafka:
    """A broker that a test may kill."""
    return mortal if mortal.pid else mortal.start()


def source(broker: Kafka, *topics: str, once: bool = False, **more: Any) -> KafkaSource:
    """A source that has begun without a position; options of a topic are told from the source's by name."""
    own = {key: more.pop(key) for key in list(more) if key in TopicSettings.__dataclass_fields__}
    listed = [TopicSettings(name=topic, **own) for topic in topics]
    made = open_source(KafkaSettings(bootstrap_servers=broker.address, topics=listed, **more), Path("none"), "test")
    made.start(None, once)
    return made


def read(of: KafkaSource, splits: list[Split]) -> list[bytes | None]:
    """What a task gets, from a reader that was shipped to it."""
    reader = pickle.loads(pickle.dumps(of.reader))
    return [event for split in splits for batch in reader.read(split) for event in batch["event"].to_pylist()]


def drain(of: KafkaSource, position: Position | None = None, max_bytes: int = PLENTY) -> tuple[list[Any], Position]:
    """Read everything that waits, batch by batch."""
    events: list[Any] = []
    while planned := of.plan(position, max_bytes):
        events += read(of, planned.splits)
        position = planned.position
    assert position is not None
    return events, position


def numbered(count: int, since: int = 0) -> list[bytes]:
    return [b'{"id":%d}' % number for number in range(since, since + count)]


def test_every_record_is_read_once_whatever_the_size_of_batches(kafka_broker: Kafka):
    name = next(_names)
    kafka_broker.create_topic(name, 4)
    kafka_broker.produce(name, numbered(5000), range(4))
    of = source(kafka_broker, name)
    backlog = of.backlog(None)
    assert backlog.rows == 5000
    assert backlog.size_bytes > 0
    events, position = drain(of, max_bytes=backlog.size_bytes // 7)
    assert sorted(events) == sorted(numbered(5000))
    assert position[name] == {"0": 1250, "1": 1250, "2": 1250, "3": 1250}
    assert not of.backlog(position)


def test_a_batch_tells_of_which_partitions_more_waits(kafka_broker: Kafka):
    name = next(_names)
    kafka_broker.create_topic(name, 2)
    kafka_broker.produce(name, numbered(99), [0])
    kafka_broker.produce(name, numbered(1), [1])
    of = source(kafka_broker, name)
    first = of.plan(None, 50)
    assert first
    assert first.waiting == (f"{name}/0",)
    rest = of.plan(first.position, PLENTY)
    assert rest
    assert rest.waiting == ()


def test_large_ranges_are_divided_and_stay_in_order(kafka_broker: Kafka, topic: str):
    kafka_broker.produce(topic, numbered(300_000))
    planned = source(kafka_broker, topic).plan(None, PLENTY)
    assert planned
    assert len(planned.splits) == 2
    assert all(split.size_bytes > 0 for split in planned.splits)
    assert read(source(kafka_broker, topic), planned.splits) == numbered(300_000)


def test_a_split_read_again_gives_the_same_events(kafka_broker: Kafka, topic: str):
    kafka_broker.produce(topic, numbered(100))
    of = source(kafka_broker, topic)
    split = Split({"topic": topic, "partition": 0, "start": 20, "end": 60})
    assert read(of, [split, split]) == numbered(40, 20) * 2


def test_events_of_several_topics_are_told_apart(kafka_broker: Kafka):
    names = [next(_names), next(_names)]
    for name in names:
        kafka_broker.create_topic(name)
        kafka_broker.produce(name, [name])
    of = source(kafka_broker, *names, serde_format="plaintext")
    planned = of.plan(None, PLENTY)
    assert planned
    batches = [batch for split in planned.splits for batch in of.reader.read(split)]
    assert batches[0].schema == batches[1].schema
    told = {(row["kafka_topic"], row["event"]) for batch in batches for row in batch.to_pylist()}
    assert told == {(name, b'{"message":"%s"}' % name.encode()) for name in names}


def test_aborted_records_are_left_out_and_open_ones_wait(kafka_broker: Kafka, topic: str):
    producer = kafka_broker.producer(**{"transactional.id": topic})
    producer.init_transactions()

    def transact(values: list[bytes]) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
        producer.flush()

    of = source(kafka_broker, topic)
    transact(numbered(10))
    assert not of.backlog(None)  # the transaction is open
    producer.commit_transaction()
    transact(numbered(10, 100))
    producer.abort_transaction()
    transact(numbered(10, 200))
    producer.commit_transaction()
    transact(numbered(10, 300))
    events, position = drain(of)
    assert events == numbered(10) + numbered(10, 200)
    assert position[topic] == {"0": 33}  # behind the third marker
    producer.abort_transaction()
    assert drain(of, position)[0] == []  # aborted records and markers are skipped
    split = Split({"topic": topic, "partition": 0, "start": 10, "end": 11})
    assert read(of, [split]) == []  # a range that is one marker, with records behind it


def test_read_uncommitted_gives_all_records(kafka_broker: Kafka, topic: str):
    producer = kafka_broker.producer(**{"transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"{}")
    producer.flush()
    assert drain(source(kafka_broker, topic, isolation_level="read_uncommitted"))[0] == [b"{}"]
    producer.abort_transaction()


def test_offsets_that_compaction_took_are_passed_over(kafka_broker: Kafka):
    name = next(_names)
    quick = {"cleanup_policy": "compact", "segment_ms": "50", "min_cleanable_dirty_ratio": "0.001"}
    kafka_broker.create_topic(name, 1, **quick, max_compaction_lag_ms="100", delete_retention_ms="1")
    for _ in range(3):
        kafka_broker.produce(name, numbered(50), keys=[b"k%d" % (number % 5) for number in range(50)])
    events, position = drain(source(kafka_broker, name))  # compacted by now or not: each key's last is there
    assert set(numbered(5, 45)) <= set(events)
    assert position[name] == {"0": 150}


def test_a_partition_that_is_added_while_running_is_read_from_its_start(kafka_broker: Kafka, topic: str):
    of = source(kafka_broker, topic, auto_offset_reset="latest")
    kafka_broker.produce(topic, numbered(5))
    events, position = drain(of)
    kafka_broker.add_partitions(topic, 2)
    kafka_broker.produce(topic, numbered(5, 100), [1])
    assert (events, drain(of, position)[0]) == (numbered(5), numbered(5, 100))


def test_latest_begins_where_the_source_started(kafka_broker: Kafka, topic: str):
    kafka_broker.produce(topic, numbered(5))
    of = source(kafka_broker, topic, auto_offset_reset="latest")
    assert not of.backlog(None)
    kafka_broker.produce(topic, numbered(5, 5))
    assert drain(of)[0] == numbered(5, 5)


def test_once_leaves_what_comes_later(kafka_broker: Kafka, topic: str):
    kafka_broker.produce(topic, numbered(5))
    of = source(kafka_broker, topic, once=True)
    kafka_broker.produce(topic, numbered(5, 5))
    events, position = drain(of)
    assert events == numbered(5)
    later = source(kafka_broker, topic)
    assert drain(later, position)[0] == numbered(5, 5)


def test_headers_keys_and_times_are_told(kafka_broker: Kafka, topic: str):
    producer = kafka_broker.producer()
    producer.produce(topic, b"{}", b"key", headers={"h": b"1"}, timestamp=1_700_000_000_123)
    kafka_broker.arrived(producer)
    of = source(kafka_broker, topic)
    planned = of.plan(None, PLENTY)
    assert planned
    (batch,) = of.reader.read(planned.splits[0])
    assert batch.drop_columns(["event", "kafka_topic", "kafka_timestamp_type"]).to_pylist() == [
        {
            "kafka_partition": 0,
            "kafka_offset": 0,
            "kafka_key": "key",
            "kafka_timestamp": 1_700_000_000_123,
            "kafka_headers": '{"h":"1"}',
            "kafka_record": '["a2V5",[["h","MQ=="]]]',
        }
    ]


def test_the_group_learns_what_is_committed(kafka_broker: Kafka, topic: str):
    kafka_broker.produce(topic, numbered(5))
    of = source(kafka_broker, topic, group_id="lag-tools")
    planned = of.plan(None, PLENTY)
    assert planned
    of.acknowledge(planned)
    of.acknowledge(planned)
    consumer = Consumer(kafka_broker.client(**{"group.id": "lag-tools"}))
    assert consumer.committed([TopicPartition(topic, 0)], 10)[0].offset == 5
    consumer.close()


def test_a_topic_that_is_missing_at_the_start_is_an_error_with_its_name(kafka_broker: Kafka):
    with pytest.raises(SourceError, match="topic no-such-topic does not exist") as caught:
        source(kafka_broker, "no-such-topic")
    assert "topics[0].name" in caught.value.hint


def test_a_property_that_librdkafka_does_not_know_is_an_error(kafka_broker: Kafka):
    with pytest.raises(SourceError, match=r'No such configuration property: "no\.such"'):
        source(kafka_broker, "t", client_properties={"no.such": "1"})


def test_a_deleted_topic_is_told(kafka_broker: Kafka, topic: str):
    kafka_broker.produce(topic, numbered(5))
    of = source(kafka_broker, topic)
    planned = of.plan(None, PLENTY)
    assert planned
    kafka_broker.delete_topic(topic)
    with pytest.raises(PositionLostError, match=f"topic {topic}: it was deleted"):
        of.plan(planned.position, PLENTY)


def test_a_topic_made_again_is_told_even_when_it_is_longer_now(kafka_broker: Kafka, topic: str):
    kafka_broker.produce(topic, numbered(5))
    _, position = drain(source(kafka_broker, topic))
    kafka_broker.delete_topic(topic)
    kafka_broker.create_topic(topic)
    kafka_broker.produce(topic, numbered(9, 50))
    with pytest.raises(PositionLostError, match="recreated"):
        source(kafka_broker, topic).backlog(position)
    allowed = source(kafka_broker, topic, on_lost_position="earliest")
    assert drain(allowed, position)[0] == numbered(9, 50)


def test_records_that_retention_took_are_told(kafka_broker: Kafka, topic: str, caplog: pytest.LogCaptureFixture):
    kafka_broker.produce(topic, numbered(10))
    of = source(kafka_broker, topic)
    read_to_3: Position = {topic: {"0": 3}}
    kafka_broker.delete_records(topic, 0, 7)
    with pytest.raises(PositionLostError, match="from offset 3: the oldest offset left is 7; 4 were deleted"):
        of.plan(read_to_3, PLENTY)
    with pytest.raises(PositionLostError, match="offsets 3 to 9"):
        read(of, [Split({"topic": topic, "partition": 0, "start": 3, "end": 10})])
    allowed = source(kafka_broker, topic, on_lost_position="earliest")
    assert drain(allowed, read_to_3)[0] == numbered(3, 7)
    assert "4 were deleted" in caplog.text


def test_a_partition_that_ends_before_the_position_is_told(kafka_broker: Kafka, topic: str):
    kafka_broker.produce(topic, numbered(5))
    of = source(kafka_broker, topic)
    with pytest.raises(PositionLostError, match="ends at offset 5"):
        of.plan({topic: {"0": 9}}, PLENTY)
    with pytest.raises(PositionLostError):
        read(of, [Split({"topic": topic, "partition": 0, "start": 9, "end": 12})])


def test_a_broker_that_is_down_is_told_and_reading_goes_on_when_it_is_back(own_broker: Kafka):
    own_broker.create_topic("t", 2)
    own_broker.produce("t", numbered(20_000), range(2))
    of = source(own_broker, "t")
    planned = of.plan(None, PLENTY)
    assert planned
    reading = of.reader.read(planned.splits[0])
    own_broker.kill()
    with pytest.raises(SourceUnavailableError, match=r"does not answer.*refused") as caught:
        of.plan(None, PLENTY)
    assert "bootstrap_servers" in caught.value.hint
    own_broker.start()
    got = [event for batch in reading for event in batch["event"].to_pylist()]
    assert sorted(got + read(of, planned.splits[1:])) == sorted(numbered(20_000))
    assert not of.backlog(planned.position)


def test_an_answer_without_an_offset_is_an_outage_and_not_a_lost_position(
    kafka_broker: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch
):
    kafka_broker.produce(topic, numbered(10))
    of = source(kafka_broker, topic, on_lost_position="earliest")
    planned = of.plan(None, PLENTY)
    assert planned
    unknown: Future[ListOffsetsResultInfo] = Future()
    unknown.set_result(ListOffsetsResultInfo(OFFSET_INVALID, -1, -1))
    with monkeypatch.context() as patched:  # what librdkafka answers when the broker is killed in mid-answer
        patched.setattr(AdminClient, "list_offsets", lambda _, asked, **__: dict.fromkeys(asked, unknown))
        with pytest.raises(SourceUnavailableError, match=r"does not answer .offsets of topic"):
            of.plan(planned.position, PLENTY)
    assert of.plan(planned.position, PLENTY) is None


def test_a_topic_that_is_gone_is_believed_of_its_description_only(
    kafka_broker: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch
):
    of = source(kafka_broker, topic)
    unknown: Future[ListOffsetsResultInfo] = Future()
    unknown.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
    monkeypatch.setattr(AdminClient, "list_offsets", lambda _, asked, **__: dict.fromkeys(asked, unknown))
    with pytest.raises(SourceUnavailableError):
        of.plan(None, PLENTY)


def test_a_broker_killed_in_mid_read_costs_no_event(own_broker: Kafka):
    own_broker.create_topic("killed")
    own_broker.produce("killed", numbered(400_000))
    of = source(own_broker, "killed")
    planned = of.plan(None, PLENTY)
    assert planned
    events, killed = [], False
    for split in planned.splits:
        for batch in of.reader.read(split):
            events += batch["event"].to_pylist()
            if not killed:
                own_broker.kill()
                own_broker.start()
                killed = True
    assert events == numbered(400_000)


def test_a_read_from_a_broker_that_stays_down_ends_with_an_error(
    own_broker: Kafka,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr("calve.sources.kafka.consumer.IDLE_SECONDS", 2.0)
    own_broker.create_topic("stays-down")
    own_broker.produce("stays-down", numbered(10))
    of = source(own_broker, "stays-down", group_id="stays")
    planned = of.plan(None, PLENTY)
    assert planned
    of.acknowledge(planned)
    own_broker.kill()
    with pytest.raises(SourceUnavailableError, match="does not answer"):
        read(of, planned.splits)
    with pytest.raises(SourceUnavailableError):
        source(own_broker, "stays-down")
    assert caplog.text == ""
    of.acknowledge(planned)
    assert "offsets not committed to the consumer group" in caplog.text
    assert capfd.readouterr().err == ""


def test_errors_of_tasks_survive_their_way_to_the_driver(
    kafka_broker: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("calve.sources.kafka.consumer.IDLE_SECONDS", 2.0)
    of = source(kafka_broker, topic)
    with pytest.raises(PositionLostError) as caught:
        read(of, [Split({"topic": topic, "partition": 7, "start": 0, "end": 1})])
    back = CalveError.from_dict(caught.value.to_dict())
    assert isinstance(back, PositionLostError)
    assert str(back) == str(caught.value)
