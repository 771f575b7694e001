"""Records of hostile topics, read with the compiled core and without it: nothing tells the two apart."""

from __future__ import annotations

import gc
import itertools
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from calve.compiled import library
from calve.errors import CalveError, PositionLostError, SourceError, SourceUnavailableError
from calve.sources.kafka import librdkafka
from calve.sources.kafka.librdkafka import NativeConsumer, UnsupportedSettingsError
from calve.sources.kafka.reader import KafkaReader
from calve.sources.kafka.record import COSTLY
from calve.sources.kafka.settings import KafkaSettings, TopicSettings
from calve.sources.source import Split
from services import process
from services.kafka import Kafka

pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(librdkafka.load() is None, reason="there is no compiled core"),
]

_names = (f"columns-{number}" for number in itertools.count())
BINARY = bytes(range(256))
VALUES = [None, b"", b"{}", b"\0", BINARY, b"\xff", "ø".encode(), b'{"a": "' + b"x" * 900_000 + b'"}']
KEYS = [None, b"", b"key", "ø".encode(), b"\xff", b"\0", b'"', BINARY]
HEADERS: list[list[tuple[str, bytes | None]]] = [
    [],
    [("h", b"1")],
    [("h", b"1"), ("n", None), ("h", b"2"), ("", b"")],
    [("same", b"1"), ("other", None), ("same", None)],
    [("binary", BINARY), ("broken", b"\xed\xa0\x80"), ("text", "ø😀\u2028\x7f".encode())],
    [('"\\/\b\f\n\r\t\x01\x1f\x7fø😀', b'"\\/\b\f\n\r\t\x01\x1f\x7f')],
    [(f"h{number % 50}", b"%d" % number) for number in range(200)],
]


@pytest.fixture
def topic(kafka_broker: Kafka) -> str:
    name = next(_names)
    kafka_broker.create_topic(name)
    return name


def reader(address: str, topic: str, **more: Any) -> KafkaReader:
    own = {key: more.pop(key) for key in list(more) if key in TopicSettings.__dataclass_fields__}
    settings = KafkaSettings(bootstrap_servers=address, topics=[TopicSettings(name=topic, **own)], **more)
    return KafkaReader.of(settings, "test")


def hostile(broker: Kafka, topic: str) -> int:
    """Send every value with every key, and all headers; return how many there are."""
    producer = broker.producer()
    kinds = itertools.zip_longest(itertools.product(VALUES[:-1], KEYS), HEADERS, fillvalue=[])
    for number, (pair, headers) in enumerate(kinds):
        value, key = pair
        producer.produce(topic, value, key, 0, timestamp=number * 1_000_000_007 + 1, headers=headers)
    producer.produce(topic, VALUES[-1], b"large", 0)
    broker.arrived(producer)
    return (len(VALUES) - 1) * len(KEYS) + 1


class Ways:
    """Reads with the core and without it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def both(self, of: KafkaReader, split: Split) -> list[Any]:
        """Return what reading without the core and with it gives, or raises."""
        fast = self._read(of, split)
        with self._patch.context() as patched:
            patched.setattr("calve.sources.kafka.reader.load", lambda: None)
            return [self._read(of, split), fast]

    def rows(self, of: KafkaReader, start: int, end: int) -> pa.Table:
        """Return what both give, once they are equal."""
        plain, fast = self.both(of, Split({"topic": of.topics.names[0], "partition": 0, "start": start, "end": end}))
        assert [batch.schema for batch in fast] == [batch.schema for batch in plain]
        if not plain:
            return pa.table({"event": pa.array([], pa.binary())})
        for batch in fast:
            batch.validate(full=True)
        found, expected = pa.Table.from_batches(fast), pa.Table.from_batches(plain)
        assert found.equals(expected)
        return found

    def error(self, of: KafkaReader, split: Split) -> CalveError:
        """Return the error that both raise, once they are equal."""
        plain, fast = self.both(of, split)
        assert isinstance(fast, CalveError)
        assert type(fast) is type(plain)
        assert fast.to_dict() == plain.to_dict()
        return fast

    def _read(self, of: KafkaReader, split: Split) -> Any:
        try:
            return list(of.read(split))
        except CalveError as error:
            return error


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    return Ways(monkeypatch)


def test_values_keys_times_and_headers_of_any_kind_are_the_same(kafka_broker: Kafka, topic: str, ways: Ways):
    count = hostile(kafka_broker, topic)
    of = reader(kafka_broker.address, topic)
    found = ways.rows(of, 0, count)
    assert found["event"].to_pylist()[: len(KEYS)] == [None] * len(KEYS)
    assert found["kafka_key"].to_pylist()[:5] == [None, "", "key", "ø", "/w=="]
    assert found["kafka_timestamp"].to_pylist()[:2] == [1, 1_000_000_008]
    assert found["kafka_headers"].to_pylist()[1:4] == [
        '{"h":"1"}',
        '{"h":["1","2"],"n":null,"":""}',
        '{"same":["1",null],"other":null}',
    ]
    for start, end in [(0, 1), (3, 4), (7, 40), (count - 2, count)]:
        assert ways.rows(of, start, end)["kafka_offset"].to_pylist() == list(range(start, end))
    discarding = reader(kafka_broker.address, topic, key_mode="discard")
    assert ways.rows(discarding, 0, count)["kafka_key"].null_count == count


@pytest.mark.parametrize("names", [(), *((name,) for name in COSTLY), ("kafka_key", "kafka_headers")])
def test_only_the_metadata_that_is_wanted_is_there(kafka_broker: Kafka, topic: str, ways: Ways, names: tuple[str, ...]):
    count = hostile(kafka_broker, topic)
    of = replace(reader(kafka_broker.address, topic), metadata=frozenset(names))
    assert set(ways.rows(of, 0, count).column_names) == {
        "event",
        "kafka_offset",
        "kafka_topic",
        "kafka_partition",
        *names,
    }


def test_the_time_that_a_record_was_appended_is_told_from_the_one_it_was_made(kafka_broker: Kafka, ways: Ways):
    name = next(_names)
    kafka_broker.create_topic(name, message_timestamp_type="LogAppendTime")
    kafka_broker.produce(name, [b"{}", None])
    found = ways.rows(reader(kafka_broker.address, name), 0, 2)
    assert found["kafka_timestamp_type"].to_pylist() == ["LogAppendTime"] * 2
    assert found["kafka_timestamp"].null_count == 0


@pytest.mark.parametrize("form", ["plaintext", "bytes", "debezium"])
def test_every_form_of_an_event_is_the_same(kafka_broker: Kafka, topic: str, ways: Ways, form: Any):
    count = hostile(kafka_broker, topic)
    assert ways.rows(reader(kafka_broker.address, topic, serde_format=form), 0, count).num_rows == count


def transact(producer: Producer, topic: str, values: list[bytes], commit: bool) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.flush()
    producer.commit_transaction() if commit else producer.abort_transaction()


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_of_transactions_the_same_records_are_left_out(kafka_broker: Kafka, topic: str, ways: Ways, level: Any):
    producer = kafka_broker.producer(**{"transactional.id": topic})
    producer.init_transactions()
    for number, commit in enumerate([True, False, False, True, False]):
        transact(producer, topic, [b"%d" % number] * 3, commit)
    of = reader(kafka_broker.address, topic, isolation_level=level)
    expected = b"000" + b"333" if level == "read_committed" else b"000111222333444"
    assert b"".join(ways.rows(of, 0, 20)["event"].to_pylist()) == expected
    for start, end in itertools.combinations(range(0, 21, 2), 2):
        ways.rows(of, start, end)
    for at in range(20):
        ways.rows(of, at, at + 1)


def test_gaps_of_compaction_are_the_same(kafka_broker: Kafka, ways: Ways):
    name = next(_names)
    quick = {"cleanup_policy": "compact", "segment_ms": "50", "min_cleanable_dirty_ratio": "0.001"}
    kafka_broker.create_topic(name, 1, **quick, max_compaction_lag_ms="100", delete_retention_ms="1")

    def has_gaps() -> bool:
        kafka_broker.produce(name, [b"{}", b"{}"], keys=[b"a", b"b"])
        rows = sum(batch.num_rows for batch in of.read(Split({"topic": name, "partition": 0, "start": 0, "end": 20})))
        return rows < 20

    of = reader(kafka_broker.address, name)
    kafka_broker.produce(name, [b"{}"] * 20, keys=[b"k%d" % (number % 5) for number in range(20)])
    process.wait_until(has_gaps, "the topic is compacted", seconds=60)
    for start in range(0, 20, 4):
        ways.rows(of, start, 20)


def test_batches_are_bounded_and_outlive_what_read_them(
    kafka_broker: Kafka, topic: str, ways: Ways, monkeypatch: pytest.MonkeyPatch
):
    for module in ("reader", "columns"):
        monkeypatch.setattr(f"calve.sources.kafka.{module}.READ_ROWS", 2500)
    kafka_broker.produce(topic, [b'{"id":%d}' % number for number in range(10_000)])
    of = reader(kafka_broker.address, topic)
    assert ways.rows(of, 0, 10_000).num_rows == 10_000
    batches = list(of.read(Split({"topic": topic, "partition": 0, "start": 0, "end": 10_000})))
    assert all(batch.num_rows <= 2500 for batch in batches)
    events = [batch["event"] for batch in batches]
    del batches
    gc.collect()
    assert [event for each in events for event in each.to_pylist()] == [b'{"id":%d}' % n for n in range(10_000)]


def test_batches_end_where_their_bytes_are_enough(kafka_broker: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("calve.sources.kafka.columns.READ_BYTES", 1 << 20)
    kafka_broker.produce(topic, [b"x" * 100_000] * 300)
    of, split = reader(kafka_broker.address, topic), Split({"topic": topic, "partition": 0, "start": 0, "end": 300})
    sizes = [batch.num_rows for batch in of.read(split)]
    assert sum(sizes) == 300
    assert max(sizes) <= 200  # 100 of unknown size at first, then blocks of 8 MiB


def test_a_connection_is_used_again_until_it_failed(kafka_broker: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch):
    made: list[object] = []
    monkeypatch.setattr(
        NativeConsumer, "assign", lambda self, *at, do=NativeConsumer.assign: (made.append(self), do(self, *at))
    )
    kafka_broker.produce(topic, [b"{}"] * 1000)
    of = reader(kafka_broker.address, topic, group_id=topic)
    for start in (0, 100, 0):
        assert len(list(of.read(Split({"topic": topic, "partition": 0, "start": start, "end": 1000})))) == 1
    assert len(set(map(id, made))) == 1
    with pytest.raises(PositionLostError):
        list(of.read(Split({"topic": topic, "partition": 0, "start": 2000, "end": 3000})))
    assert len(list(of.read(Split({"topic": topic, "partition": 0, "start": 0, "end": 1000})))) == 1
    assert len(set(map(id, made))) == 2


def test_errors_of_a_partition_are_the_same(
    kafka_broker: Kafka, topic: str, ways: Ways, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("calve.sources.kafka.consumer.IDLE_SECONDS", 2.0)
    kafka_broker.produce(topic, [b"{}"] * 10)
    kafka_broker.delete_records(topic, 0, 7)
    of = reader(kafka_broker.address, topic)
    for partition, start, end, expected in [(0, 3, 9, "its records are gone"), (0, 20, 22, "its records are gone")]:
        error = ways.error(of, Split({"topic": topic, "partition": partition, "start": start, "end": end}))
        assert isinstance(error, PositionLostError)
        assert expected in str(error)
    unknown = ways.error(of, Split({"topic": topic, "partition": 7, "start": 0, "end": 1}))
    assert isinstance(unknown, PositionLostError)
    assert "the topic or the partition does not exist" in str(unknown)
    earliest = reader(kafka_broker.address, topic, on_lost_position="earliest")
    assert ways.rows(earliest, 3, 10)["kafka_offset"].to_pylist() == [7, 8, 9]


def test_errors_of_the_broker_are_the_same(ways: Ways, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("calve.sources.kafka.consumer.IDLE_SECONDS", 2.0)
    [port] = process.free_ports(1)
    split = Split({"topic": "t", "partition": 0, "start": 0, "end": 1})
    down = ways.both(reader(f"127.0.0.1:{port}", "t"), split)
    assert [type(error) for error in down] == [SourceUnavailableError] * 2
    assert all("refused" in str(error) for error in down)
    assert down[0].hint == down[1].hint


def test_a_broker_that_is_killed_and_comes_back_costs_no_record(tmp_path: Any):
    with Kafka(tmp_path) as broker:
        broker.create_topic("t")
        broker.produce("t", [b"{}"] * 300_000)
        batches = reader(broker.address, "t").read(Split({"topic": "t", "partition": 0, "start": 0, "end": 300_000}))
        rows = next(batches).num_rows
        broker.kill()
        broker.start()
        assert rows + sum(batch.num_rows for batch in batches) == 300_000


def test_a_login_that_the_broker_does_not_know_is_the_same_error(
    kafka_broker: Kafka, topic: str, ways: Ways, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("calve.sources.kafka.consumer.IDLE_SECONDS", 2.0)
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "a"}
    of = reader(kafka_broker.address, topic, client_properties=login | {"sasl.password": "b"})
    plain, fast = ways.both(of, Split({"topic": topic, "partition": 0, "start": 0, "end": 1}))
    assert [type(plain), type(fast)] == [SourceUnavailableError] * 2
    assert fast.hint == plain.hint


def test_settings_that_are_wrong_are_the_same_error(kafka_broker: Kafka, topic: str, ways: Ways):
    for properties in (
        {"no.such": "1"},
        {"fetch.min.bytes": "x"},
        {"ssl.ca.location": "/none", "security.protocol": "SSL"},
    ):
        of = reader(kafka_broker.address, topic, client_properties=properties)
        error = ways.error(of, Split({"topic": topic, "partition": 0, "start": 0, "end": 1}))
        assert type(error) is SourceError
        assert "refuses its settings" in str(error)


def test_settings_that_need_python_are_for_the_consumer_of_python(kafka_broker: Kafka, topic: str, ways: Ways):
    kafka_broker.produce(topic, [b"{}"])
    properties = {"sasl.oauthbearer.config": "principal=x"}
    of = reader(kafka_broker.address, topic, client_properties=properties)
    native = librdkafka.load()
    assert native
    with pytest.raises(UnsupportedSettingsError):
        NativeConsumer(native, of.client(topic))
    assert ways.rows(of, 0, 1)["event"].to_pylist() == [b"{}"]


def test_without_the_core_records_are_python_s_as_before(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(library, "load", lambda: None)
    assert librdkafka.load.__wrapped__() is None


def test_a_library_without_these_functions_is_as_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(librdkafka, "FUNCTIONS", ("rd_kafka_no_such_function",))
    assert librdkafka.load.__wrapped__() is None
