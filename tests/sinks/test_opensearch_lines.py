"""Events become lines of `_bulk` with their text as it was."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from calve.columns.fields import ALL_FIELDS, Fields
from calve.sinks.opensearch.lines import BulkLines, compile_shape
from calve.sinks.opensearch.settings import Action, OpenSearchSettings

EVENTS = ['{"id":"a\\"b","n":1.10,"op":"x"}', '{"id":2,\n "n":[1,  2],"op":"delete"}', '{"n":12345678901234567890.5}']


def lines(texts: list[str], fields: Fields = ALL_FIELDS, **settings: Any) -> BulkLines:
    events = pa.table({"json": pa.array(texts), "event_version": pa.array(range(16, 16 + len(texts)), pa.int64())})
    shape = compile_shape(OpenSearchSettings(hosts=["http://a:1"], index="i", **settings), (), "p-")
    return shape.lines(events, fields)


def test_without_an_id_a_document_is_created_under_its_place_and_its_text_is_not_touched() -> None:
    found = lines(EVENTS).text.to_pylist()
    assert found[0] == '{"create":{"_id":"p-10"}}\n' + EVENTS[0] + "\n"
    assert found[1] == '{"create":{"_id":"p-11"}}\n' + EVENTS[1].replace("\n", " ") + "\n"
    assert found[2] == '{"create":{"_id":"p-12"}}\n' + EVENTS[2] + "\n"


def test_rows_that_one_event_has_become_have_ids_of_their_own() -> None:
    events = pa.table({"json": ["{}"] * 5, "event_version": pa.array([5, 5, 6, 7, 7], pa.int64())})
    shape = compile_shape(OpenSearchSettings(hosts=["http://a:1"], index="i"), (), "p-")
    ids = [
        json.loads(line.split("\n")[0])["create"]["_id"] for line in shape.lines(events, ALL_FIELDS).text.to_pylist()
    ]
    assert ids == ["p-5", "p-5-1", "p-6", "p-7", "p-7-1"]


def test_a_part_of_a_split_event_has_the_same_id_when_it_is_replayed_alone() -> None:
    def ids(parts: list[str | None]) -> list[str]:
        count = len(parts)
        versions = pa.array([5] * count, pa.int64())
        events = pa.table(
            {"json": ["{}"] * count, "event_version": versions, "event_part": pa.array(parts, pa.string())}
        )
        shape = compile_shape(OpenSearchSettings(hosts=["http://a:1"], index="i"), (), "p-")
        found = shape.lines(events, ALL_FIELDS).text.to_pylist()
        return [json.loads(line.split("\n")[0])["create"]["_id"] for line in found]

    assert ids(["0", "1", "2.1"]) == ["p-5-p0", "p-5-p1", "p-5-p2.1"]
    assert ids(["2.1"]) == ["p-5-p2.1"]
    assert ids([None]) == ["p-5"]


def test_with_an_id_the_version_of_the_event_travels_along() -> None:
    found = lines(EVENTS, document_id="${/id}", routing="r-${/op}", pipeline="clean").text.to_pylist()
    head = json.loads(found[0].split("\n")[0])["index"]
    assert head == {"_id": 'a"b', "version": 16, "version_type": "external_gte", "routing": "r-x", "pipeline": "clean"}
    assert json.loads(found[2].split("\n")[0]) == {"create": {"_id": "p-12", "routing": "r-", "pipeline": "clean"}}


def test_the_first_action_whose_condition_is_true_counts_and_a_delete_has_no_document() -> None:
    actions = [Action(type="delete", when='/op == "delete"'), Action(type="INDEX")]
    found = lines(EVENTS[:2], document_id="${/id}", actions=actions).text.to_pylist()
    assert found[0].startswith('{"index":')
    assert found[1] == '{"delete":{"_id":"2","version":17,"version_type":"external_gte"}}\n'


def test_of_an_update_that_a_table_tells_only_the_new_row_is_written() -> None:
    told = {
        "json": ['{"v":1}', '{"v":2}', '{"v":3}', '{"v":4}'],
        "event_version": pa.array(range(16, 20), pa.int64()),
        "document_id": ["a", "a", "b", "c"],
        "bulk_action": ["delete", "index", "delete", "index"],
    }
    settings = OpenSearchSettings(
        hosts=["http://a:1"],
        index="i",
        document_id='${getMetadata("document_id")}',
        action='${getMetadata("bulk_action")}',
    )
    shape = compile_shape(settings, ("document_id", "bulk_action"), "p-")
    assert not shape.reads
    found = shape.lines(pa.table(told), ALL_FIELDS)
    assert (found.overwritten, found.rejects) == (1, None)
    kept = [line and line.partition(":")[0] for line in found.text.to_pylist()]
    assert kept == [None, '{"index"', '{"delete"', '{"index"']
    assert compile_shape(settings, (), "p-").reads  # any other source may say anything


@pytest.mark.parametrize(
    "named",
    [{"document_id_field": "document_id"}, {"document_id": "${document_id}"}, {"document_id": "${/document_id}"}],
)
def test_the_attribute_document_id_is_the_id_of_events_without_such_a_field(named: dict[str, str]) -> None:
    changes = {
        "json": ['{"v":1}', '{"v":2,"document_id":"own"}', '{"v":3,"document_id":null}', '{"v":4}'],
        "event_version": pa.array(range(16, 20), pa.int64()),
        "document_id": ["a", "b", "c", None],
    }
    settings = OpenSearchSettings(hosts=["http://a:1"], index="i", **named)
    shape = compile_shape(settings, ("document_id",), "p-")
    assert shape.metadata == {"document_id"}
    documents = shape.lines(pa.table(changes), ALL_FIELDS)
    heads = [next(iter(json.loads(line.split("\n")[0]).values())) for line in documents.text.to_pylist()]
    assert [head["_id"] for head in heads] == ["a", "own", "c", "p-13"]
    assert documents.derived == 1


def test_ids_that_an_event_lacks_are_counted_where_the_sink_has_a_document_id() -> None:
    assert (lines(EVENTS).derived, lines(EVENTS, document_id="${/id}").derived) == (0, 1)


def test_what_is_left_out_leaves_the_rest_byte_for_byte() -> None:
    found = lines(EVENTS, Fields(exclude=frozenset({"id", "op"}))).text.to_pylist()
    assert [one.split("\n")[1] for one in found] == ['{"n":1.10}', '{"n":[1,  2]}', '{"n":12345678901234567890.5}']


@pytest.mark.parametrize(
    ("settings", "event", "code", "field"),
    [
        ({"action": "${/op}"}, '{"op":"merge"}', "UNKNOWN_OPERATION", "action"),
        ({"action": "${/op}"}, "{}", "UNKNOWN_OPERATION", "action"),
        ({"action": "${/op}", "document_id": "${/id}"}, '{"op":"update"}', "NO_KEY", "document_id"),
        ({"action": "delete", "document_id": "${id}"}, "{}", "NO_KEY", "document_id"),
        ({"document_id": "${/id}"}, '{"id":"%s"}' % ("é" * 257), "NO_KEY", "document_id"),
        ({"document_id": "a", "document_version": "${/v}"}, '{"v":1.5}', "EXPRESSION_ERROR", "document_version"),
        ({"document_id": "a", "document_version": "${/v}"}, "{}", "EXPRESSION_ERROR", "document_version"),
        (
            {"document_id": "a", "document_version": "${/v}"},
            '{"v":9999999999999999999}',
            "EXPRESSION_ERROR",
            "document_version",
        ),
    ],
)
def test_an_event_that_says_nothing_that_can_be_done_is_rejected_and_the_others_are_not(
    settings: dict[str, Any], event: str, code: str, field: str
) -> None:
    good = '{"id":1,"v":5,"op":"index"}'
    found = lines([good, event, good], **settings)
    assert found.rejects is not None
    assert [(one["row"], one["code"], one["field"]) for one in found.rejects.to_pylist()] == [(1, code, field)]
    if found.steps is None:
        assert [line is None for line in found.text.to_pylist()] == [False, True, False]


@pytest.mark.parametrize("document_id", ["${/id}", "${id}", "${/id}${/more}", '${getMetadata("document_id")}'])
@pytest.mark.parametrize("action", ["index", "delete", "create", "upsert"])
def test_an_empty_text_is_no_missing_id_but_a_reject_of_every_action(document_id: str, action: str) -> None:
    events = {"json": ['{"id":""}', '{"id":"a"}', "{}"], "event_version": pa.array([16, 17, 18], pa.int64())}
    settings = OpenSearchSettings(hosts=["http://a:1"], index="i", document_id=document_id, action=action)
    shape = compile_shape(settings, ("document_id",), "p-")
    rejects = shape.lines(pa.table(events | {"document_id": ["", "a", None]}), ALL_FIELDS).rejects
    assert rejects is not None
    reasons = {one["row"]: (one["code"], one["reason"]) for one in rejects.to_pylist()}
    assert reasons.pop(0) == ("NO_KEY", "is an empty text, which OpenSearch does not accept as an id")
    assert list(reasons) == ([2] if action in ("delete", "upsert") else [])
