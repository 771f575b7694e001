"""Rows of updates that lack a value of their table: no processor fills it, for the target has it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from calve.event.columns import EVENT, ORIGINAL, SCHEMA, TYPED
from calve.event.envelope.decoder import EnvelopeDecoder, Envelopes
from calve.event.envelope.placeholder import UNAVAILABLE
from calve.event.envelope.schema import Field, text_of
from calve.event.envelope.shape import OPERATION_ATTRIBUTE
from calve.event.typed import with_text
from event.envelope.debezium import envelope, field, text, wrapped
from processors.chains import chain

WITH_NOTE = [field("id", "int64"), field("note", "string"), field("name", "string")]
WITHOUT_NOTE = [field("id", "int64"), field("name", "string")]
FILL = {"add_entries": {"entries": [{"key": "note", "value": "none"}, {"key": "tenant", "value": "a"}]}}
COPY = {"copy_values": {"entries": [{"from_key": "name", "to_key": "note"}]}}
CONVERT = {"convert_type": {"key": "name"}}


def decoded(*changes: tuple[list[Any], str, dict[str, Any]]) -> pa.Table:
    envelopes = [text(wrapped(columns, envelope(operation, None, row))) for columns, operation, row in changes]
    return EnvelopeDecoder(Envelopes("debezium")).decode(pa.table({EVENT: pa.array(envelopes, pa.binary())})).rows


def test_an_update_is_not_filled_where_its_table_has_the_column() -> None:
    rows = decoded(
        (WITH_NOTE, "u", {"id": 1, "note": UNAVAILABLE, "name": "n"}),
        (WITH_NOTE, "c", {"id": 2, "note": "own", "name": "n"}),
        (WITHOUT_NOTE, "u", {"id": 3, "name": "n"}),
        (WITH_NOTE, "u", {"id": 4, "note": None, "name": "n"}),
        (WITH_NOTE, "u", {"id": 5, "note": UNAVAILABLE, "name": "n"}),
    )
    notes = [{}, {"note": "own"}, {"note": "none"}, {"note": None}, {}]
    wanted = [{"id": number, "name": "n", "tenant": "a", **note} for number, note in enumerate(notes, 1)]
    processed = chain(FILL).run(rows)
    assert list(map(json.loads, processed.rows[EVENT].to_pylist())) == wanted
    assert len(chain(FILL).run(rows.slice(0, 0)).rows) == 0
    copied = chain(COPY).run(rows).rows[EVENT].to_pylist()
    assert [json.loads(event).get("note") for event in copied] == [None, "own", "n", None, None]
    overwritten = {"add_entries": {"entries": [{"key": "note", "value": "x", "overwrite_if_key_exists": True}]}}
    assert {json.loads(event)["note"] for event in chain(overwritten).run(rows).rows[EVENT].to_pylist()} == {"x"}


@pytest.mark.parametrize(("entry", "value"), [({"value": "none"}, "none"), ({"value_expression": "/gone"}, None)])
def test_what_typed_updates_lack_stays_absent_beside_filled_rows(entry: dict[str, Any], value: str | None) -> None:
    declared = text_of(Field("", "struct", fields=(Field("id", "int64"), Field("note", "string"))))
    rows = pa.table(
        {
            TYPED: pa.array([{"id": 1}, {"id": 2}, {"id": 3}], pa.struct([("id", pa.int64())])),
            SCHEMA: pa.array([declared] * 3).dictionary_encode(),
            OPERATION_ATTRIBUTE: ["update", "insert", "update"],
        }
    )
    processed = chain({"add_entries": {"entries": [{"key": "note", **entry}]}}).run(rows)
    events = [json.loads(event) for event in with_text(processed.rows)[EVENT].to_pylist()]
    assert events == [{"id": 1}, {"id": 2, "note": value}, {"id": 3}]
    assert [json.loads(event) for event in with_text(processed.rows)[ORIGINAL].to_pylist()] == [
        {"id": number} for number in (1, 2, 3)
    ]
    assert len(processed.failed_rows) == 0


def test_a_divided_batch_keeps_its_order_its_dead_letters_and_its_counts() -> None:
    changes: list[Any] = []
    for number in range(40):
        name = "x" if number % 7 == 3 else f"{number}"
        note = {"note": UNAVAILABLE} if number % 3 else {}
        changes.append((WITH_NOTE if note else WITHOUT_NOTE, "u", {"id": number, "name": name, **note}))
    processors = [FILL, CONVERT, {"drop_events": {"drop_when": "/name < 5"}}]
    processed = chain(*processors).run(decoded(*changes))
    events = [json.loads(event) for event in processed.rows[EVENT].to_pylist()]
    failed = [number for number in range(40) if number % 7 == 3]
    wanted = [number for number in range(5, 40) if number not in failed]
    assert [(event["id"], event.get("note")) for event in events] == [(n, None if n % 3 else "none") for n in wanted]
    letters = [json.loads(event)["id"] for event in processed.failed_rows[EVENT].to_pylist()]
    assert sorted(letters) == failed
    assert processed.failed["row"].to_pylist() == list(range(len(failed)))
    assert (processed.dropped, "_number" in processed.rows.column_names) == (4, False)
