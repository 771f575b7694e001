"""Which records events become: keys, headers, tombstones, Debezium's envelope; without a broker."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from calve.columns.fields import ALL_FIELDS, Fields
from calve.dead_letters.rejects import DeadLetterLocation
from calve.errors import SettingsError
from calve.expression import compile_format
from calve.route.sink_route import SinkRoute
from calve.sinks.kafka import job as sink_job
from calve.sinks.kafka.job import RecordJob, RecordWriter
from calve.sinks.kafka.refusals import RecordRefusals
from calve.sinks.kafka.settings import KafkaSinkSettings, TargetTopic
from calve.sinks.kafka.sink import record_options
from calve.sinks.records.shape import RecordShape, compile_shape
from calve.sources.kafka.access import topic_fault

CHANGES = ("iceberg_operation", "document_id", "iceberg_table_name")


def settings(**more: Any) -> KafkaSinkSettings:
    return KafkaSinkSettings(**{"bootstrap_servers": "b:9092", "topic": "t"} | more)


def job_of(shape: RecordShape, fields: Fields = ALL_FIELDS, **options: Any) -> RecordJob:
    route, location = SinkRoute(compile_format("t")), DeadLetterLocation("/nowhere")
    return RecordJob("s", route, location, settings(**options), shape, "n", 1, 5000, fields)


def converted(
    events: list[Any],
    metadata: dict[str, list[Any]] | None = None,
    topics: tuple[str, ...] = ("t",),
    fields: Fields = ALL_FIELDS,
    **options: Any,
) -> tuple[list[tuple[Any, ...]], list[tuple[int, str]]]:
    """Return the records (topic, key, value, headers) and the rejects of events, which go to topics in turn."""
    columns = {name: pa.array(values, pa.string()) for name, values in (metadata or {}).items()}
    shape = compile_shape(record_options(settings(**options)), columns)
    work: Any = SimpleNamespace()
    writer = RecordWriter(job_of(shape, fields, **options), work)
    rows = pa.table({"json": [event if isinstance(event, str) else json.dumps(event) for event in events], **columns})
    numbers = np.arange(len(rows), dtype=np.int32) % len(topics)
    rejects = [reject for _, table in writer.write(topics, rows, numbers) for reject in table.to_pylist()]
    records = [(record.target, record.key, record.value, record.headers) for record in writer._records()]
    return records, [(reject["row"], reject["code"]) for reject in rejects]


def test_a_record_is_the_text_of_its_event_unchanged() -> None:
    text = '{"id": 1.0, "é":"x",\n "a":[ ]}'
    assert converted([text]) == ([("t", None, text.encode(), [])], [])


def test_a_key_is_a_text_or_an_object_of_columns() -> None:
    event = {"id": 7, "tenant": 'a"b', "at": None}
    assert converted([event], key="${/tenant}-${/id}")[0][0][1] == b'a"b-7'
    assert json.loads(converted([event], key_columns=["id", "tenant"])[0][0][1]) == {"id": 7, "tenant": 'a"b'}
    assert converted([event], key_columns=["id"])[0][0][1] == b'{"id":7}'
    odd = {"a /b~": 12345678901234567890123, "d": 1.5}
    assert converted([odd], key_columns=[*odd])[0][0][1] == b'{"a /b~":12345678901234567890123,"d":1.5}'


def test_an_event_without_a_value_of_its_key_is_rejected() -> None:
    events = [{"id": 1}, {"id": None}, {}, {"id": ""}]
    assert converted(events, key="${/id}")[1] == [(1, "NO_KEY"), (2, "NO_KEY"), (3, "NO_KEY")]
    assert converted(events, key_columns=["id"])[1] == [(1, "NO_KEY"), (2, "NO_KEY")]


def test_headers_without_a_value_are_left_out() -> None:
    headers = {"trace": "${/trace}", "kind": "order"}
    records, _ = converted([{"trace": "x"}, {}], headers=headers)
    assert [record[3] for record in records] == [[("trace", b"x"), ("kind", b"order")], [("kind", b"order")]]


def test_only_chosen_fields_are_written_byte_for_byte() -> None:
    [[_, _, value, _]], _ = converted(['{"a": 1.50, "b": [1,  2], "c": 3}'], fields=Fields(exclude=frozenset("c")))
    assert value == b'{"a":1.50,"b":[1,  2]}'


def test_changes_have_the_rows_key_and_a_delete_is_a_tombstone() -> None:
    events = [{"n": number} for number in range(4)]
    words = ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"]
    records, rejects = converted(events, {"iceberg_operation": words, "document_id": ["k"] * 4})
    assert [record[1:3] for record in records] == [(b"k", b'{"n": 0}'), (b"k", b'{"n": 2}'), (b"k", None)]
    assert rejects == []


def test_unknown_operations_and_deletes_without_a_key_are_rejected_alone() -> None:
    metadata = {"iceberg_operation": ["no such", "DELETE", "INSERT"], "document_id": [None, None, None]}
    records, rejects = converted([{"n": 0}] * 3, metadata)
    assert len(records) == 1
    assert rejects == [(0, "UNKNOWN_OPERATION"), (1, "NO_KEY")]


def test_an_envelope_has_the_old_and_the_new_row_and_a_delete_a_tombstone() -> None:
    events = [{"n": number} for number in range(5)]
    words = ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE", "UPDATE_AFTER"]
    metadata = {"iceberg_operation": words, "document_id": ["k"] * 5, "iceberg_table_name": ["s.t"] * 5}
    records, _ = converted(events, metadata, serde_format="debezium")
    values = [json.loads(record[2]) for record in records if record[2]]
    assert [(value["op"], value["before"], value["after"]) for value in values] == [
        ("c", None, {"n": 0}),
        ("u", {"n": 1}, {"n": 2}),
        ("d", {"n": 3}, None),
        ("u", None, {"n": 4}),
    ]
    assert values[0]["source"] == {"connector": "calve", "iceberg_table": "s.t"}
    assert values[0]["ts_ms"] == 5000
    assert [record[2] for record in records][3] is None


def test_a_row_that_moves_to_another_topic_is_deleted_in_the_first() -> None:
    words = {"iceberg_operation": ["UPDATE_BEFORE", "UPDATE_AFTER"], "document_id": ["k", "k"]}
    records, _ = converted([{"n": 0}, {"n": 1}], words, topics=("a", "b"), serde_format="debezium")
    assert [(record[0], record[2] and json.loads(record[2])["op"]) for record in records] == [
        ("b", "u"),
        ("a", "d"),
        ("a", None),
    ]


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "é", "x" * 250])
def test_a_name_that_kafka_refuses_is_no_topic(name: str) -> None:
    assert topic_fault(name)


def test_settings_that_exclude_each_other_are_refused() -> None:
    wrong = settings(key="x", key_columns=["id"], client_properties={"acks": "1"}, dlq="")
    assert [path for path, _ in wrong.check()] == ["key_columns", "client_properties", "dlq"]
    assert [path for path, _ in settings(topic="a b").check()] == ["topic"]
    assert [path for path, _ in settings(operation="${/op}").faults(None, False, {})] == ["operation"]
    assert settings(topic=TargetTopic(name="x")).target.name == "x"
    with pytest.raises(SettingsError):
        compile_format("${")


class FakeWork:
    """A task, whose rejects are kept."""

    def __init__(self, is_probe: bool = False) -> None:
        self.is_probe = is_probe
        self.rejects: list[tuple[str, list[int]]] = []

    def timed(self, step: str, function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    def reject(self, topic: str, events: pa.Table, rejects: pa.Table) -> None:
        self.rejects.append((topic, rejects["row"].to_pylist()))


def written(work: Any) -> RecordWriter:
    writer = RecordWriter(job_of(compile_shape(record_options(settings(key="${/id}")), ())), work)
    for first in (0, 3):
        rows = pa.table({"json": [json.dumps({"id": first + row, "x": "x" * row * 100}) for row in range(3)]})
        assert all(not len(rejects) for _, rejects in writer.write(("a", "b"), rows, np.array([0, 1, 1], np.int32)))
    return writer


def test_a_pass_that_looks_for_bad_events_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sink_job, "send")
    assert written(FakeWork(is_probe=True)).finish() == []


def test_what_kafka_refuses_is_rejected_and_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    work = FakeWork()
    monkeypatch.setattr(sink_job, "send", lambda *_: RecordRefusals(sizes={"b": 200}))
    writer = written(work)
    writer.finish()
    assert work.rejects == [("b", [2]), ("b", [2])]
    assert {index.index: index.rows for index in writer.close({}).documents} == {"a": 2, "b": 2}
