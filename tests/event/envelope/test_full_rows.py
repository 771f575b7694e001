"""Envelopes of tables without a key: an update is its old row, which goes, and its new one, which comes."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from calve.event.envelope.decoder import DecodedEnvelopes, EnvelopeDecoder, Envelopes
from calve.event.envelope.exact import RequestedAttributes
from event.envelope.debezium import envelope, text
from event.envelope.decoding import changes

UNSENT = "__debezium_unavailable_value"


def decoded(values: list[Any], form: str = "debezium", operations: list[str | None] | None = None) -> DecodedEnvelopes:
    events = {"event": pa.array(map(text, values), pa.binary())}
    events |= {"operation": pa.array(operations, pa.string())} if operations else {}
    wanted = RequestedAttributes(keys=frozenset({"id"}), full_rows=True)
    return EnvelopeDecoder(Envelopes(form, wanted)).decode(pa.table(events))


def test_an_update_is_both_rows_and_one_of_a_key_deletes_the_old_one() -> None:
    old, new = {"id": 1, "a": None}, {"id": 1, "a": "x"}
    values = [envelope("c", None, old), envelope("u", old, new), envelope("u", new, {"id": 2}), envelope("d", new)]
    assert changes(decoded(values)) == [
        ("insert", old),
        *(("update_before", old), ("update_after", new)),
        *(("delete", new), ("update_after", {"id": 2})),
        ("delete", new),
    ]


def test_values_that_were_not_sent_are_those_of_the_old_row_and_rows_that_lack_some_are_not_deleted() -> None:
    whole, cut = {"id": 1, "text": "long"}, {"id": 1, "text": UNSENT}
    found = decoded([envelope("u", whole, cut), envelope("u", cut, whole), envelope("d", cut), envelope("d")])
    after = ("update_after", whole)
    assert changes(found) == [("update_before", whole), after, ("update", whole)]  # which full rows refuse
    assert [(reject["row"], reject["code"]) for reject in found.rejects.to_pylist()] == [(2, "NO_KEY"), (3, "NO_KEY")]


def test_maxwell_has_the_values_that_changed() -> None:
    update = {"type": "update", "data": {"id": 1, "a": 2, "b": 3}, "old": {"a": None}}
    assert changes(decoded([update, {"type": "delete", "data": {"id": 1}}], "maxwell")) == [
        ("update_before", {"id": 1, "a": None, "b": 3}),
        ("update_after", {"id": 1, "a": 2, "b": 3}),
        ("delete", {"id": 1}),
    ]


def test_a_document_is_not_deleted_by_all_its_fields() -> None:
    document = {"after": None, "op": "d", "source": {"collection": "c"}, "before": json.dumps({"_id": 1})}
    [reject] = decoded([document]).rejects.to_pylist()
    assert (reject["code"], "identifier_columns: [_id]" in reject["reason"]) == ("NO_KEY", True)


@pytest.mark.parametrize("word", ["update_before", "update_after"])
def test_an_event_that_is_sent_again_is_the_row_that_was_rejected(word: str) -> None:
    update = envelope("u", {"id": 1}, {"id": 1, "a": 2})
    found = decoded([envelope("c", None, {"id": 0}), update, update], operations=[None, word, "another"])
    both = ["update_before", "update_after"]
    assert [operation for operation, _ in changes(found)] == ["insert", word, *both]
