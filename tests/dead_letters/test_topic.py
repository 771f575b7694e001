"""The record of a dead letter: what becomes of it, and what is read of it again."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from confluent_kafka import Message
from hypothesis import given
from hypothesis import strategies as st

from calve.dead_letters.reader import DeadLetter
from calve.dead_letters.topic import _entry, _place_of, record_of
from calve.event.dead_letter import _original

PLACE = ("orders-1-00000001-a-0.ndjson", 3, 10, 20)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
HEADERS = st.lists(st.tuples(TEXTS.filter(lambda name: "\0" not in name), st.none() | st.binary()))


def read_again(entry: dict[str, Any]) -> dict[str, Any]:
    record = record_of(entry, PLACE, 0)
    message = Message(topic="dead", key=record.key, value=record.value, headers=record.headers)
    place = _place_of(message)
    assert place
    assert (*place,) == PLACE
    return _entry(message)


@given(st.none() | st.binary(), st.none() | st.binary(), HEADERS, TEXTS)
def test_an_entry_comes_back_from_its_record_with_each_byte_of_the_original(
    event: bytes | None, key: bytes | None, headers: list[tuple[str, bytes | None]], reason: str
) -> None:
    record = None if key is None and not headers else msgspec.json.encode((key, headers)).decode()
    metadata = {"kafka_topic": "in", "kafka_partition": 0, "kafka_offset": 7, "kafka_record": record}
    labels = {"pipeline": "orders", "sink": "iceberg", "table": "a.b", "timestamp": "2026-11-28T00:00:00.000Z"}
    entry = {**labels, "reason": reason, "code": "MALFORMED", "field": "", **_original(event), "metadata": metadata}
    again = read_again(entry)
    assert again["metadata"].get("kafka_record") == record
    assert {**again, "metadata": None} == {**entry, "metadata": None}
    sent = record_of(entry, PLACE, 0)
    assert (sent.key, sent.value, sent.headers[: len(headers)]) == (key, event, headers)
    assert msgspec.convert(again, DeadLetter).original() == (event or b"")
    assert dict(sent.headers[len(headers) :])["calve.position"] == b"in/0/7"


def test_a_record_of_a_dead_letter_that_was_read_as_an_event_keeps_both_reasons() -> None:
    first = record_of({"code": "NO_KEY", "event": "{}"}, PLACE, 0)
    original = msgspec.json.encode((first.key, first.headers)).decode()
    again = read_again({"code": "MALFORMED", "event": "{}", "metadata": {"kafka_record": original}})
    assert (again["code"], again["metadata"]["kafka_record"]) == ("MALFORMED", original)


def test_records_of_others_are_no_dead_letters() -> None:
    for headers in ([], [("calve.id", b"\xff")], [("calve.id", None)], [("calve.id", b"a:b:c:d:e")], [("x", b"1")]):
        assert _place_of(Message(topic="dead", value=b"{}", headers=headers)) is None


def test_what_others_wrote_in_the_metadata_is_read_as_none() -> None:
    for text in (b"", b"[1]", b"{", b"\xff"):
        headers = [("calve.id", b"f:1:2:3:0"), ("calve.metadata", text)]
        assert _entry(Message(topic="dead", value=json.dumps({}).encode(), headers=headers))["metadata"] == {}
