"""Snapshots tell through which time a table is complete, over restarts, for sinks that know `event_time`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kit.documents import runnable, yamls
from kit.running import Calve, post, until
from services.process import free_ports

pytestmark = pytest.mark.spark

FILE = {"file": {"path": "in/*.ndjson"}}
KEYS = ("calve.max-event-time", "calve.valid-through")


def configuration(source: dict[str, Any], **sink: Any) -> str:
    return json.dumps({"shop": {"source": source, "sink": [{"iceberg": {"auto_create": True, **sink}}]}})


def feed(job: Calve, name: str, *events: dict[str, Any]) -> None:
    (job.folder / "in").mkdir(exist_ok=True)
    unfinished = job.folder / f".{name}"
    unfinished.write_text("".join(json.dumps(each) + "\n" for each in events))
    unfinished.rename(job.folder / "in" / f"{name}.ndjson")


def told(job: Calve, table: str) -> list[tuple[str | None, ...]]:
    """What each snapshot says, in the order of the commits."""
    snapshots = sorted(job.catalog().load_table(table).metadata.snapshots, key=lambda one: one.sequence_number)
    return [tuple(one.summary.additional_properties.get(key) for key in KEYS) for one in snapshots]


def test_the_documented_query_says_when_a_day_is_complete(calve) -> None:
    [yaml], [sql] = yamls("docs/event-time.md"), runnable("docs/event-time.md")
    job: Calve = calve(yaml)
    feed(job, "a", {"id": 1, "at": "2026-01-01T23:59:59Z"})
    assert job.once() == 0, job.said()
    assert job.shared_spark().sql(sql).collect()[0][0] is False
    feed(job, "b", {"id": 2, "at": "2026-01-02T00:00:00Z"})
    assert job.once() == 0, job.said()
    assert job.shared_spark().sql(sql).collect()[0][0] is True


def test_what_was_told_is_not_taken_back_by_late_events_nor_by_a_crash(calve) -> None:
    job: Calve = calve(configuration(FILE, table_identifier="shop.orders", event_time="at"))
    feed(job, "a", {"id": 1, "at": "2026-01-02T10:00:00+02:00"}, {"id": 2, "at": None}, {"id": 3, "at": "2026-01-01"})
    assert job.once() == 0, job.said()
    feed(job, "b", {"id": 4, "at": "2026-01-01T00:00:00Z"})
    job.killed_at("commit.before-swap")
    feed(job, "c", {"id": 5, "at": "2026-01-03T00:00:00.5Z"})
    assert job.once() == 0, job.said()
    first, last = "2026-01-02T08:00:00.000000Z", "2026-01-03T00:00:00.500000Z"
    assert told(job, "shop.orders")[0] == (first, first)
    assert told(job, "shop.orders")[-1] == (last, last)
    through = [each[1] for each in told(job, "shop.orders")]
    assert through == sorted(through)
    assert job.status("shop")["tables"]["shop.orders"]["valid_through"] == "2026-01-03T00:00:00.500000Z"
    feed(job, "d", {"id": 6, "at": None})
    assert job.once() == 0, job.said()
    assert told(job, "shop.orders")[-1] == (last, last)


def test_tables_of_an_http_stream_are_told_apart_and_one_without_the_column_just_tells_nothing(calve) -> None:
    [port] = free_ports(1)
    sink = {"table_identifier": "web.${/kind}", "flush_interval": "200ms", "commit_interval": "200ms"}
    job: Calve = calve(configuration({"http": {"port": port}}, event_time="at", **sink))
    with job.running():
        events = [{"kind": "a", "at": "2026-02-01T00:00:00Z"}, {"kind": "b", "at": "2026-02-02T00:00:00Z"}]
        until(lambda: post(port, [*events, {"kind": "c", "x": 1}, {"kind": "d", "x": 1}]) == 200, "the source listens")
        until(lambda: len(job.status("shop").get("tables", {})) == 4, "the events are committed")
    assert [told(job, f"web.{kind}")[-1][1] for kind in "abcd"] == [
        "2026-02-01T00:00:00.000000Z",
        "2026-02-02T00:00:00.000000Z",
        None,
        None,
    ]
    assert job.said().count("has no event time") == 1


def test_a_static_table_without_such_a_column_is_refused_at_the_start(calve) -> None:
    schema = {"columns": [{"name": "id", "type": "long"}]}
    job: Calve = calve(configuration(FILE, table_identifier="shop.orders", schema=schema))
    feed(job, "a", {"id": 1})
    assert job.once() == 0, job.said()
    job.configure(configuration(FILE, table_identifier="shop.orders", event_time="id"))
    assert job.once() == 1
    assert (
        "event_time of the table shop.orders: the column 'id' is a long, not a timestamp, timestamptz or date. "
        "Set another column, or add this one to the table"
    ) in job.said()


def test_events_without_such_a_field_do_not_stop_the_next_run(calve) -> None:
    job: Calve = calve(configuration(FILE, table_identifier="shop.orders", event_time="at", schema_evolution=True))
    feed(job, "a", {"id": 1})
    assert job.once() == 0, job.said()
    feed(job, "b", {"id": 2, "at": "2026-01-01T00:00:00Z"})
    assert job.once() == 0, job.said()
    assert "has no event time" in job.said()
    assert told(job, "shop.orders")[-1][0] == "2026-01-01T00:00:00.000000Z"


@pytest.mark.services
def test_without_a_column_the_times_of_the_records_count_and_the_slower_partition_decides(calve, kafka_broker) -> None:
    kafka_broker.create_topic("record-times", partitions=2)
    producer = kafka_broker.producer()
    for partition, at in ((0, 1_767_300_000_000), (0, 1_767_300_001_000), (1, 1_767_290_000_000)):
        producer.produce("record-times", b'{"id": 1}', partition=partition, timestamp=at)
    kafka_broker.arrived(producer)
    source = {"kafka": {"bootstrap_servers": kafka_broker.address, "topics": [{"name": "record-times"}]}}
    job: Calve = calve(configuration(source, table_identifier="shop.records"))
    assert job.once() == 0, job.said()
    assert told(job, "shop.records")[-1] == ("2026-01-01T20:40:01.000000Z", "2026-01-01T17:53:20.000000Z")
    assert job.rows("shop.records").column_names == ["id"]


def test_what_an_http_source_has_accepted_is_complete_and_late_events_are_counted(calve) -> None:
    [port] = free_ports(1)
    sink = {"flush_interval": "200ms", "commit_interval": "200ms"}
    yaml = json.loads(configuration({"http": {"port": port}}, table_identifier="web.plain", **sink))
    yaml["shop"]["sink"] += [
        {"iceberg": {"auto_create": True, "table_identifier": "web.timed", "event_time": "at", **sink}}
    ]
    job: Calve = calve(json.dumps(yaml))
    with job.running():
        until(lambda: post(port, [{"at": "2026-02-02T00:00:00Z"}]) == 200, "the source listens")
        until(lambda: len(job.status("shop").get("tables", {})) == 2, "the events are committed")
        assert post(port, [{"at": "2026-02-01T00:00:00Z"}, {"at": "2026-02-03T00:00:00Z"}]) == 200
        until(lambda: job.status("shop")["tables"]["web.timed"]["rows"] == 3, "the late event is committed")
    assert told(job, "web.plain")[-1][1] > "2026-11"
    tables = job.status("shop")["tables"]
    assert (tables["web.timed"]["late_events"], tables["web.plain"]["late_events"]) == (1, 0)


@pytest.mark.services
def test_a_held_commit_waits_for_the_slower_partition_which_is_quiet_but_not_idle(calve, kafka_broker) -> None:
    kafka_broker.create_topic("held-days", partitions=2)

    def produce(*events: tuple[int, str]) -> None:
        producer = kafka_broker.producer()
        for partition, at in events:
            producer.produce("held-days", json.dumps({"at": at}).encode(), partition=partition)
        kafka_broker.arrived(producer)

    def rows(table: str) -> int:
        return int(job.status("shop").get("tables", {}).get(table, {}).get("rows", 0))

    source = {"kafka": {"bootstrap_servers": kafka_broker.address, "topics": [{"name": "held-days"}]}}
    timed = {"event_time": "at", "partition_by": ["day(at)"], "flush_interval": "200ms", "commit_interval": "200ms"}
    yaml = json.loads(
        configuration(source, table_identifier="days.held", commit_on="watermark", idle_after="1h", **timed)
    )
    yaml["shop"]["sink"] += [{"iceberg": {"auto_create": True, "table_identifier": "days.free", **timed}}]
    job: Calve = calve(json.dumps(yaml))
    produce((0, "2026-01-01T23:00:00Z"), (1, "2026-01-01T12:00:00Z"))
    with job.running():
        until(lambda: rows("days.free") == 2, "the first events are read")
        produce((0, "2026-01-02T01:00:00Z"))
        until(lambda: rows("days.free") == 3, "an event of the next day is read from one partition")
        assert rows("days.held") == 0, "the other partition is not idle, and still in the first day"
        produce((1, "2026-01-02T02:00:00Z"))
        until(lambda: rows("days.held") == 4, "the first day is complete, and committed while the run goes on")
    assert told(job, "days.held") == [("2026-01-02T02:00:00.000000Z", "2026-01-02T01:00:00.000000Z")]
    assert told(job, "days.free")[1][1] == "2026-01-02T01:00:00.000000Z", (
        "without idle_after a quiet one does not count"
    )
