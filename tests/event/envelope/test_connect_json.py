"""Records of Kafka's own JsonConverter, as `ConnectCorpus.java` has recorded them, become the rows that it was given."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from calve.columns.infer import infer
from calve.convert.converter import Converter
from calve.event.envelope import decoder
from calve.event.envelope.decoder import EnvelopeDecoder, Envelopes
from calve.table.loaded import Table
from event.envelope.decoding import decoded
from kit.compiled_core import needs_core

CORPUS = [line.split("\t") for line in (Path(__file__).parent / "connect_json.txt").read_text().splitlines()]
_UNPARTITIONED = '{"spec-id":0,"fields":[]}'


@pytest.mark.parametrize(("name", "kind", "value", "record"), CORPUS, ids=[name for name, *_ in CORPUS])
def test_a_record_becomes_the_row_that_the_converter_was_given(name: str, kind: str, value: str, record: str) -> None:
    rows = decoded([record.encode()], form="connect_json").rows
    inferred = infer(rows)
    schema = inferred.to_schema()
    assert inferred.is_declared
    assert [field.name for field in schema.fields] == ["id", "v"]
    assert _kind(schema.find_type("v")) == kind
    converted = Converter(Table("db.t", "", "", schema.model_dump_json(), _UNPARTITIONED), None).convert(rows)
    [row] = converted.rows.to_pylist()
    assert (row["id"], _shown(row["v"])) == (1, value)


def test_only_a_field_that_is_not_there_has_the_default_at_any_depth() -> None:
    inner = {
        "type": "struct",
        "field": "in",
        "fields": [{"type": "int32", "field": "n", "default": 7, "optional": True}],
    }
    when = {"type": "int32", "name": "org.apache.kafka.connect.data.Date", "field": "on", "default": 20454}
    odd = [{"type": "int32", "field": "odd", "default": "x"}, {"type": "string", "field": "half", "default": "\ud800"}]
    schema = {"type": "struct", "fields": [inner, when, *odd, {"type": "double", "field": "no", "default": None}]}
    payloads = [
        {"in": {}, "other": 1},
        {"in": {"n": None}, "on": None, "odd": 1, "half": "h", "no": 1},
        {"in": None, "on": 1, "odd": 2, "half": None, "no": None},
        {"in": {"n": 1}, "on": 20453, "odd": 3, "half": "", "more": 0},
    ]
    events = [json.dumps({"schema": schema, "payload": payload}).encode() for payload in payloads]
    rows = decoded(events, form="connect_json").rows["event"].to_pylist()
    assert [json.loads(row) for row in rows] == [
        {"in": {"n": 7}, "other": 1, "on": "2026-01-01", "odd": "x"},
        {"in": {"n": None}, "on": None, "odd": 1, "half": "h", "no": 1},
        {"in": None, "on": "1970-01-02", "odd": 2, "half": None, "no": None},
        {"in": {"n": 1}, "on": "2025-12-31", "odd": 3, "half": "", "more": 0},
    ]


def test_records_without_a_schema_or_a_row_are_said() -> None:
    events = ['{"id":1}', '{"schema":{"type":"int32"},"payload":5}', '{"schema":null,"payload":{"id":2}}', "null", None]
    found = decoded([None if event is None else event.encode() for event in events], form="connect_json")
    assert found.rows["event"].to_pylist() == [b'{"id":2}']
    assert [(reject["row"], reject["code"]) for reject in found.rejects.to_pylist()] == [
        (0, "MALFORMED"),
        (1, "MALFORMED"),
    ]
    assert "serde_format: json" in found.rejects["reason"][0].as_py()
    assert "operation" not in found.rows.column_names


@needs_core
def test_the_core_reads_all_but_maps_with_other_keys_and_missing_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    slow: list[Any] = []
    exact = decoder.decode
    monkeypatch.setattr(decoder, "decode", lambda *given: slow.append(given[1]) or exact(*given))
    events = pa.array([record.encode() for *_, record in CORPUS for _ in range(2)], pa.binary())
    EnvelopeDecoder(Envelopes("connect_json")).decode(pa.table({"event": events}))
    assert len(slow) == 2 * sum(name.startswith(("map by", "empty map", "missing")) for name, *_ in CORPUS)


def _kind(kind: Any) -> str:
    text = str(kind)
    if kind.is_struct:
        return f"struct<{', '.join(f'{field.name}: {_kind(field.field_type)}' for field in kind.fields)}>"
    if hasattr(kind, "element_type"):
        return f"list<{_kind(kind.element_type)}>"
    return f"map<{_kind(kind.key_type)}, {_kind(kind.value_type)}>" if hasattr(kind, "key_type") else text


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name!r}: {_shown(child)}' for name, child in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    return str(value) if isinstance(value, datetime.datetime) else repr(value)
