"""Pipelines that are right each, and cannot work together or at all, are errors with file and line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from calve.pipeline.plugins import PLUGINS
from calve.settings import SettingsErrors, parse_text

KEYLESS = "a table that is created would have no key, which {} needs: add identifier_columns"


def told(**pipelines: Any) -> list[str]:
    try:
        parse_text(json.dumps(pipelines), PLUGINS, environment={})
    except SettingsErrors as error:
        return [f"{problem.path}: {problem.message}" for problem in error.problems]
    return []


PROCESSED = {
    "processor": [{"add_entries": {"entries": [{"key": "a", "value": 1}]}}, {"flatten": {"source": "a", "target": ""}}]
}


@pytest.mark.parametrize(
    "source", [{"file": {"path": "a", "codec": {"debezium": {}}}}, {"iceberg": {"tables": [{"table_name": "a.b"}]}}]
)
def test_processors_without_known_columns_are_refused_where_events_are_rows_of_tables(source: dict[str, Any]) -> None:
    [found] = [one for one in told(one={**pipeline(source, auto_create=True), **PROCESSED}) if "processor" in one]
    assert "processor[1].flatten: cannot change rows of tables" in found


def pipeline(source: dict[str, Any], **sink: Any) -> dict[str, Any]:
    return {"source": source, "sink": [{"iceberg": {"table_identifier": "a.b", **sink}}]}


def kafka(group: str | None = None, servers: str = "h:1", **topic: Any) -> dict[str, Any]:
    group_id = {"group_id": group} if group else {}
    return {"kafka": {"bootstrap_servers": servers, "topics": [{"name": "t", **group_id, **topic}]}}


HTTP = {"http": {}}


@pytest.mark.parametrize(
    ("source", "sink", "why"),
    [
        (HTTP, {"upsert": True}, "upsert"),
        (HTTP, {"operation": "${/op}"}, "operation"),
        (kafka(serde_format="debezium"), {}, "debezium"),
        ({"file": {"path": "x", "codec": {"dms": {}}}}, {}, "dms"),
    ],
)
def test_a_table_that_is_created_for_changes_needs_a_key(
    source: dict[str, Any], sink: dict[str, Any], why: str
) -> None:
    [problem] = told(p=pipeline(source, auto_create=True, **sink))
    assert problem.startswith(f"p.sink[0].iceberg.auto_create: {KEYLESS.format(why)}")
    assert told(p=pipeline(source, auto_create=True, identifier_columns=["id"], **sink)) == []
    assert told(p=pipeline(source, **sink)) == []  # a table that exists may have identifier fields


def test_rows_without_a_key_need_changes_and_whole_old_rows() -> None:
    stream, mysql = kafka(serde_format="debezium"), {"mysql": {"host": "h", "username": "u", "password": "p"}}
    full: dict[str, Any] = {"auto_create": True, "identifier_columns": "full_row"}
    assert told(p=pipeline(stream, **full)) == []
    assert told(p=pipeline(HTTP, operation="${/op}", **full)) == []
    for source, sink, where, why in [
        (HTTP, {}, "identifier_columns", "full_row is for rows that are deleted: set operation"),
        (stream, {"upsert": True}, "upsert", "full_row has none: set upsert: false"),
        (stream, {"write_mode": "copy-on-write"}, "write_mode", "deleted by position: set write_mode: merge-on-read"),
        (stream, {"partial_updates": "keep"}, "partial_updates", "keep finds an older row by its key"),
        (mysql, {}, "identifier_columns", "set its no_key: mirror instead of full_row"),
    ]:
        *_, problem = told(p=pipeline(source, **full, **sink))
        assert problem.startswith(f"p.sink[0].iceberg.{where}: "), problem
        assert why in problem
    both = pipeline(stream, **full)
    both["sink"].append({"opensearch": {"hosts": ["http://h:1"], "index": "i"}})
    [problem] = told(p=both)
    assert "another sink has full_row, whose updates are two events each" in problem
    both["sink"][1] = {"iceberg": {"table_identifier": "a.c", "identifier_columns": "from_key"}}
    [problem] = told(p=both)
    assert problem.startswith("p.sink[1].iceberg.identifier_columns: from_key and full_row do not go together")


def test_mirrors_have_the_key_of_their_source_and_appends_need_none() -> None:
    source = {"iceberg": {"tables": [{"table_name": "a.c"}]}}
    assert told(p=pipeline(source, auto_create=True, operation='${getMetadata("iceberg_operation")}')) == []
    assert told(p=pipeline(HTTP, auto_create=True)) == []


def test_a_sink_of_a_pipeline_that_is_fed_is_told_where_it_stands() -> None:
    first = {"source": HTTP, "sink": [{"pipeline": {"name": "second"}}]}
    second = pipeline({"pipeline": {"name": "first"}}, auto_create=True, upsert=True)
    [problem] = told(first=first, second=second)
    assert problem.startswith("second.sink[0].iceberg.auto_create: ")


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ({}, {}, True),
        ({"host": "0.0.0.0"}, {}, True),
        ({"host": "10.0.0.1"}, {}, False),
        ({"port": 1}, {"port": 2}, False),
        ({"port": 0}, {"port": 0}, False),
    ],
)
def test_two_pipelines_cannot_listen_on_one_port(one: dict[str, Any], other: dict[str, Any], clash: bool) -> None:
    found = told(one=pipeline({"http": one}), other=pipeline({"http": other}))
    assert [problem.partition("; ")[0] for problem in found] == clash * [
        "other.source.http.port: the pipeline one also listens on port 2021"
    ]


def test_two_pipelines_do_not_share_a_topic_as_one_group() -> None:
    [problem] = told(one=pipeline(kafka("g")), other=pipeline(kafka("g")))
    assert problem.startswith(
        "other.source.kafka.topics[0].group_id: the pipeline one also reads the topic t as the group g"
    )
    for different in (kafka("h"), kafka(), kafka("g", "other:1"), kafka("g", name="u")):
        assert told(one=pipeline(kafka("g")), other=pipeline(different)) == []


@pytest.mark.parametrize(
    ("source", "known"),
    [
        (HTTP, "batch, ingestion_time"),
        ({"http": {"metadata_headers": ["x-a"]}}, "batch, ingestion_time"),
        ({"file": {"path": "x"}}, "batch, file_path, file_row, ingestion_time"),
    ],
)
def test_metadata_that_the_source_does_not_have_cannot_be_a_column(source: dict[str, Any], known: str) -> None:
    good, bad = ({"metadata_columns": {"_at": name}} for name in ("ingestion_time", "headers"))
    assert told(one=pipeline(source, **good)) == []
    message = f"unknown metadata attribute 'headers' (known: {known})"
    assert told(one=pipeline(source, **bad)) == [f"one.sink[0].iceberg.metadata_columns._at: {message}"]


def test_metadata_of_a_change_stream_can_be_a_column() -> None:
    columns = {"_at": "debezium_ts_ms", "_table": "debezium_source_table", "_offset": "kafka_offset"}
    assert told(one=pipeline(kafka(serde_format="debezium"), metadata_columns=columns)) == []


def test_topics_of_dead_letters_with_one_name_have_the_same_settings() -> None:
    def sink(**topic: Any) -> dict[str, Any]:
        return {
            "iceberg": {"table_identifier": "a.b", "dlq": {"kafka": {"topic": "t", "bootstrap_servers": "b:1"} | topic}}
        }

    source = {"file": {"path": "a"}}
    assert told(p={"source": source, "sink": [sink(), sink()]}) == []
    assert told(p={"source": source, "sink": [sink(), sink(topic="u", bootstrap_servers="c:1")]}) == []
    [problem] = told(p={"source": source, "sink": [sink(), sink(bootstrap_servers="c:1")]})
    assert "other settings of the topic t" in problem


def test_sinks_of_a_branch_have_the_same_rules_for_its_commits() -> None:
    def gated(publish: Any = None, **sink: Any) -> dict[str, Any]:
        return pipeline(HTTP, **({"publish": publish} if publish else {}), **sink)

    rules, other = {"when": {"min_rows": 5}}, {"when": {"min_rows": 6}}
    why = "another sink commits to this branch of the table by other rules; give both the same `publish`"
    one, two = gated(rules), gated(other)
    one["sink"].append(two["sink"][0])
    assert [said for said in told(one=one) if why in said] == [f"one.sink[1].iceberg.publish: {why}"]
    for branch_without in ({"publish": other}, {"branch": "audit"}):
        said = told(one=gated(rules), two={**gated(**branch_without), "source": {"http": {"port": 2022}}})
        assert [problem for problem in said if why in problem] == [f"two.sink[0].iceberg.publish: {why}"]
    for unlike in ({"publish": rules}, {"branch": "other"}, {"publish": {**other, "branch": "b"}}, {}):
        said = told(one=gated(rules), two={**gated(**unlike), "source": {"http": {"port": 2022}}})
        assert not [problem for problem in said if why in problem]
