"""Documents of MongoDB in Debezium's envelope become rows: their types, updates, deletes by the record's key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calve.event.envelope.documents import DocumentError, row_of
from calve.event.envelope.exact import text_of
from calve.event.envelope.extended_json import plain
from calve.event.exact_json import dump, parse_object
from event.envelope.debezium import envelope
from event.envelope.decoding import changes, decoded

WRITTEN = Path(__file__).with_name("extended_json.txt").read_text().splitlines()
"""One document as bson's json_util (pymongo 4) writes it: legacy, as Debezium does, canonical and relaxed."""
PLAIN = {
    "oid": "596e275826f08b2730779e1f",
    "int": 7,
    "long": 1 << 60,
    "small_long": 5,
    "double": 1.5,
    "whole": 2.0,
    "decimal": "12.3400",
    "date": "2024-02-03T04:05:06.789Z",
    "early": "1950-01-01T00:00:00Z",
    "bytes": "AP8=",
    "uuid": "f79c3e09-677c-4bbd-a479-3f349cb785e7",
    "stamp": {"t": 1700000000, "i": 3},
    "code": '{"$code":"f()"}',
    "text": "$oid",
    "flag": True,
    "null": None,
    "list": [1, {"d": "0.1"}],
    "in": {"$a": 1, "b": {"c": "0" * 24}},
    "min": '{"$minKey":1}',
}
KEY = '{"id":"{\\"$oid\\": \\"596e\\"}"}'
OLD = {"_id": {"$oid": "596e"}, "n": {"$numberLong": "1"}, "in": {"a": 1, "b": 2}, "l": [1, 2, 3]}


def change(operation: str, after: Any = None, before: Any = None, update: Any = None) -> dict[str, Any]:
    """An envelope as the connector for MongoDB writes it; documents are texts."""
    texts = [None if document is None else json.dumps(document) for document in (before, after)]
    description = update and {"removedFields": None, "truncatedArrays": None, **update}
    return {**envelope(operation, *texts, connector="mongodb", collection="c"), "updateDescription": description}


@pytest.mark.parametrize("text", WRITTEN)
def test_every_mode_of_extended_json_has_the_same_values(text: str) -> None:
    values = json.loads(dump(plain(parse_object(text))))
    assert json.loads(values.pop("regex")) in (
        {"$regex": "^a", "$options": "i"},
        {"$regularExpression": {"pattern": "^a", "options": "i"}},
    )
    assert (values.pop("nan", "NaN"), values.pop("inf", "-Infinity")) == ("NaN", "-Infinity")
    assert values == PLAIN


@pytest.mark.parametrize(
    "value",
    [
        {"$oid": 5},
        {"$date": {}},
        {"$date": 1e300},
        {"$binary": 1},
        {"$numberLong": None},
        {"$oid": "1", "x": 2},
        {"$date": {"$numberLong": "9" * 30}},
    ],
)
def test_what_is_no_value_of_extended_json_stays(value: Any) -> None:
    read = plain(parse_object(json.dumps({"v": value}))["v"])
    assert json.loads(read if isinstance(read, str) else dump(read)) == value


def test_each_operation_gives_its_row() -> None:
    new = {**OLD, "n": 5}
    row = {"_id": "596e", "n": 1, "in": {"a": 1, "b": 2}, "l": [1, 2, 3]}
    found = decoded(
        [change("c", OLD), change("r", OLD), change("u", new), change("d"), change("d", None, OLD), None], [KEY] * 6
    )
    words = ["insert", "insert", "update", "delete", "delete"]
    assert changes(found) == list(zip(words, [row, row, {**row, "n": 5}, {"_id": "596e"}, row], strict=True))
    assert (found.skipped, len(found.rejects)) == (1, 0)


@pytest.mark.parametrize(
    ("id", "value"),
    [
        ('"a\\"b"', 'a"b'),
        ("1234", 1234),
        ('{"$numberLong": "5"}', 5),
        ("plain", "plain"),
        ('{"a": {"$oid": "1"}}', {"a": "1"}),
    ],
)
def test_a_delete_has_the_id_of_the_key_with_and_without_a_schema(id: str, value: Any) -> None:
    key = {"id": id}
    field = {"type": "string", "optional": False, "field": "id"}
    wrapped = {"schema": {"type": "struct", "fields": [field]}, "payload": key}
    found = decoded([change("d")] * 2, [json.dumps(key), json.dumps(wrapped)])
    assert changes(found) == [("delete", {"_id": value})] * 2


def test_an_update_without_the_whole_document_is_applied_to_the_one_before() -> None:
    update = {
        "updatedFields": json.dumps({"n": 9, "in.a": {"$numberLong": "7"}, "in.c.d": 1, "l.0": 5, "l.2": 6}),
        "removedFields": ["in.b", "gone"],
        "truncatedArrays": [{"field": "l", "size": 2}],
    }
    found = decoded([change("u", None, OLD, update)], [KEY])
    assert changes(found) == [("update", {"_id": "596e", "n": 9, "in": {"a": 7, "c": {"d": 1}}, "l": [5, 2]})]


@pytest.mark.parametrize(
    ("value", "key", "code", "reason"),
    [
        (
            change("u", update={"updatedFields": '{"n":1}'}),
            KEY,
            "MALFORMED",
            "capture.mode to change_streams_update_full",
        ),
        (change("d"), None, "NO_KEY", "record key with an id"),
        (change("u", None, OLD, {"updatedFields": '{"n.x.y":1}'}), KEY, "MALFORMED", "does not fit the document"),
        (envelope("c", None, "[1]"), KEY, "MALFORMED", "is no document"),
        (change("c"), KEY, "MALFORMED", "capture.mode"),
    ],
)
def test_a_change_without_a_document_is_rejected_with_the_way_out(
    value: Any, key: str | None, code: str, reason: str
) -> None:
    found = decoded([value, change("c", OLD)], [key, KEY])
    [reject] = found.rejects.to_pylist()
    assert (reject["code"], reason in reject["reason"]) == (code, True), reject
    assert len(found.rows) == 1


NAMES = st.sampled_from(
    [
        "$oid",
        "$type",
        "$binary",
        "$date",
        "$numberLong",
        "$timestamp",
        "$uuid",
        "$undefined",
        "$code",
        "_id",
        "a",
        "b.0",
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "AA==", "x", "04", "1e400", "[", "-1", "0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(NAMES, ANYTHING, max_size=3)
TEXTS = DOCUMENTS.map(json.dumps) | ANYTHING
UPDATES = st.fixed_dictionaries(
    {}, optional={"updatedFields": TEXTS, "removedFields": ANYTHING, "truncatedArrays": ANYTHING}
)


@given(TEXTS, TEXTS, UPDATES | ANYTHING, st.fixed_dictionaries({}, optional={"id": TEXTS}), st.sampled_from("ud"))
def test_whatever_a_change_holds_there_is_a_row_or_a_reason(
    after: Any, before: Any, update: Any, key: dict[str, Any], letter: str
) -> None:
    text = json.dumps({"after": after, "before": before, "updateDescription": update})
    operation = {"u": "update", "d": "delete"}[letter]
    try:
        row = row_of(parse_object(text), operation, parse_object(json.dumps(key)))
    except DocumentError:
        return
    assert parse_object(text_of(row)) is not None
