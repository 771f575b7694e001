"""Records as columns, without a broker."""

import json
from typing import Any

import pytest
from confluent_kafka import Message

from calve.sources.kafka.record import EventForm, Records


def rows(form: EventForm, *messages: dict[str, Any], metadata: frozenset[str] | None = None) -> list[dict[str, Any]]:
    records = Records("t", 3, form, metadata)
    records.add([Message(topic="t", partition=3, offset=i, **each) for i, each in enumerate(messages)])
    return records.batch().to_pylist()


def test_a_json_record_is_the_event_byte_for_byte_and_a_tombstone_is_null():
    got = rows(EventForm(), {"value": b' {"a" : 1} '}, {"value": None}, {"value": b"no json \xff"})
    assert [row["event"] for row in got] == [b' {"a" : 1} ', None, b"no json \xff"]


def test_all_metadata_of_a_record_is_told():
    message = {"value": b"{}", "key": b"k", "headers": [("h", b"1"), ("n", None), ("h", b"2"), ("b", b"\xff")]}
    (got,) = rows(EventForm(), {**message, "timestamp": (1, 1234)})
    assert json.loads(got.pop("kafka_headers")) == {"h": ["1", "2"], "n": None, "b": "/w=="}
    assert got == {
        "event": b"{}",
        "kafka_topic": "t",
        "kafka_partition": 3,
        "kafka_offset": 0,
        "kafka_key": "k",
        "kafka_timestamp": 1234,
        "kafka_timestamp_type": "CreateTime",
        "kafka_record": '["aw==",[["h","MQ=="],["n",null],["h","Mg=="],["b","/w=="]]]',
    }


def test_only_the_costly_metadata_that_is_wanted_is_built():
    (got,) = rows(EventForm(), {"value": b"{}", "key": b"k"}, metadata=frozenset({"kafka_key"}))
    assert set(got) == {"event", "kafka_topic", "kafka_partition", "kafka_offset", "kafka_key"}


def test_a_key_is_text_or_base64_or_absent():
    got = rows(EventForm(), {"key": "ø".encode()}, {"key": b"\xff\x00"}, {"key": None}, {"key": b""})
    assert [row["kafka_key"] for row in got] == ["ø", "/wA=", None, ""]
    assert [row["kafka_key"] for row in rows(EventForm(key_mode="discard"), {"key": b"k"})] == [None]


def test_text_and_bytes_become_a_message():
    assert (
        rows(EventForm("plaintext"), {"value": b'say "hi"', "key": b"k"})[0]["event"] == b'{"message":"say \\"hi\\""}'
    )
    assert rows(EventForm("bytes"), {"value": b"\xff\x00", "key": b"k"})[0]["event"] == b'{"message":"/wA="}'
    assert rows(EventForm("plaintext"), {"value": b"\xff"})[0]["event"] == b"\xff"


def test_text_is_named_by_its_key_when_keys_are_fields():
    form = EventForm("plaintext", "include_as_field")
    got = rows(form, {"value": b"x", "key": b"k"}, {"value": b"y"}, {"value": None, "key": b"k"})
    assert [row["event"] for row in got] == [b'{"k":"x"}', b'{"message":"y"}', None]


@pytest.mark.parametrize(
    ("value", "event"),
    [
        (b'{"a":1}', {"a": 1, "kafka_key": 'k"'}),
        (b" { } \n", {"kafka_key": 'k"'}),
        (b'{"kafka_key":"other"}', {"kafka_key": 'k"'}),
        (b'{"a":{}}', {"a": {}, "kafka_key": 'k"'}),
        (b'{"a":1', None),
        (b"[1]", None),
    ],
)
def test_a_key_as_a_field_wins_and_spoils_nothing(value: bytes, event: dict[str, Any] | None):
    (got,) = rows(EventForm("json", "include_as_field"), {"value": value, "key": b'k"'})
    assert got["event"] == value if event is None else json.loads(got["event"]) == event


def test_offsets_with_gaps_are_the_records_own():
    records = Records("t", 0, EventForm(), frozenset())
    records.add([Message(topic="t", partition=0, offset=offset, value=b"{}") for offset in (5, 6, 9)])
    assert records.batch()["kafka_offset"].to_pylist() == [5, 6, 9]
