from __future__ import annotations

import json

import pytest

from calve.compiled.otlp import SIGNALS
from calve.sources.otlp.json_message import NotOtlpError, encode
from sources.otlp.requests import REQUESTS, as_json, comparable, request_of, rows_of


@pytest.mark.parametrize("signal", SIGNALS)
def test_json_is_the_same_message_as_protobuf(signal: str) -> None:
    for seed in range(30):
        request = request_of(signal, seed)
        read = REQUESTS[signal].FromString(encode(signal, as_json(request)))
        assert comparable(rows_of(signal, read)) == comparable(rows_of(signal, request))


def spans(**span: object) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def test_numbers_may_be_texts_names_those_of_protobuf_and_unknown_fields_are_skipped() -> None:
    body = spans(start_time_unix_nano="5", endTimeUnixNano=6, kind=2.0, traceId="AAff", unknown=[{}], status=None)
    [row] = rows_of("traces", REQUESTS["traces"].FromString(encode("traces", body)))
    assert (row["duration_nano"], row["span_kind"], row["trace_id"]) == (1, "Server", "aaff")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "truncated"),
        (b"[]", "is not an object"),
        (b'{"resourceSpans": {}}', "resourceSpans is not an array"),
        (
            spans(startTimeUnixNano=-1),
            "resourceSpans.scopeSpans.spans.startTimeUnixNano is not a whole number of 64 bits",
        ),
        (spans(startTimeUnixNano=2**64), "startTimeUnixNano is not"),
        (spans(startTimeUnixNano=True), "startTimeUnixNano is not"),
        (spans(startTimeUnixNano=1.5), "startTimeUnixNano is not"),
        (spans(traceId="xyz"), "traceId is not a hexadecimal id"),
        (spans(traceId=5), "traceId is not a hexadecimal id"),
        (spans(name=5), "name is not a text"),
        (spans(kind="SPAN_KIND_SERVER"), "kind is not a whole number of 32 bits"),
        (spans(attributes=[{"key": "a", "value": {"doubleValue": "inf"}}]), "doubleValue is not a number"),
        (spans(attributes=[{"key": "a", "value": {"bytesValue": "?"}}]), "bytesValue is not Base64"),
        (spans(attributes=[{"key": "a", "value": {"boolValue": 1}}]), "boolValue is not true or false"),
    ],
)
def test_what_is_not_the_message_is_named(body: bytes, said: str) -> None:
    with pytest.raises(NotOtlpError, match=said):
        encode("traces", body)


def test_deep_nesting_is_refused() -> None:
    value = '{"arrayValue":{"values":[' * 60 + "{}" + "]}}" * 60
    body = f'{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"body":{value}}}]}}]}}]}}'
    with pytest.raises(NotOtlpError, match="nested more than 100 times"):
        encode("logs", body.encode())
