from __future__ import annotations

import json

import pytest
from opentelemetry.proto.logs.v1.logs_pb2 import SeverityNumber
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from calve.compiled.otlp import SIGNALS, NotOtlpError, encode
from sources.otlp.requests import REQUESTS, as_json, comparable, request_of, rows_of


@pytest.mark.parametrize("signal", SIGNALS)
def test_json_is_the_same_message_as_protobuf(signal: str) -> None:
    for seed in range(30):
        request = request_of(signal, seed)
        read = REQUESTS[signal].FromString(encode(signal, as_json(request)))
        assert comparable(rows_of(signal, read)) == comparable(rows_of(signal, request))


def spans(**span: object) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def test_enums_may_be_names_and_doubles_texts() -> None:
    attributes = [{"key": "a", "value": {"doubleValue": text}} for text in ("NaN", "-Infinity", "1.5e3")]
    attributes.append({"key": "b", "value": {"bytesValue": "_-8"}})
    span = {"kind": "SPAN_KIND_CLIENT", "status": {"code": "STATUS_CODE_ERROR"}, "attributes": attributes}
    read = REQUESTS["traces"].FromString(encode("traces", spans(**span))).resource_spans[0].scope_spans[0].spans[0]
    assert (read.kind, read.status.code) == (3, 2)
    values = [attribute.value for attribute in read.attributes]
    assert [repr(value.double_value) for value in values[:3]] == ["nan", "-inf", "1500.0"]
    assert values[3].bytes_value == b"\xff\xef"


def test_every_name_of_an_enum_is_its_number() -> None:
    parts = {
        "traces": ('{"resourceSpans":[{"scopeSpans":[{"spans":[%s]}]}]}', Span.SpanKind, '{"kind":%s}'),
        "logs": ('{"resourceLogs":[{"scopeLogs":[{"logRecords":[%s]}]}]}', SeverityNumber, '{"severityNumber":%s}'),
        "metrics": (
            '{"resourceMetrics":[{"scopeMetrics":[{"metrics":[%s]}]}]}',
            AggregationTemporality,
            '{"sum":{"aggregationTemporality":%s}}',
        ),
    }
    for signal, (request, enum, record) in parts.items():
        for name, number in enum.items():
            bodies = [(request % record % value).encode() for value in (f'"{name}"', number)]
            assert encode(signal, bodies[0]) == encode(signal, bodies[1])


def test_numbers_may_be_texts_names_those_of_protobuf_and_unknown_fields_are_skipped() -> None:
    body = spans(start_time_unix_nano="5", endTimeUnixNano=6, kind=2.0, traceId="AAff", unknown=[{}], status=None)
    [row] = rows_of("traces", REQUESTS["traces"].FromString(encode("traces", body)))
    assert (row["duration_nano"], row["span_kind"], row["trace_id"]) == (1, "Server", "aaff")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", r"JSON is malformed \(byte 1\)"),
        (b"", r"it is not an object|malformed"),
        (b"{}{}", r"JSON is malformed \(byte 2\)"),
        (b'{"resourceSpans": [nul]}', r"JSON is malformed \(byte 19\)"),
        (b'{"a": "\xff"}', "byte 7 is not UTF-8"),
        (b"[]", "it is not an object"),
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
        (spans(kind="SERVER"), "kind is not a whole number of 32 bits, or a name of the enum"),
        (spans(startTimeUnixNano=1e300), "startTimeUnixNano is not"),
        (spans(startTimeUnixNano="9" * 100_000), "startTimeUnixNano is not"),
        (spans(startTimeUnixNano=""), "startTimeUnixNano is not"),
        (spans(traceId="abc"), "traceId is not a hexadecimal id"),
        (spans(name="\ud800"), "name is not a text"),
        (spans(events=[None]), "events is not an object"),
        (spans(attributes=[{"key": "a", "value": {"doubleValue": "inf"}}]), "doubleValue is not a number"),
        (spans(attributes=[{"key": "a", "value": {"bytesValue": "?"}}]), "bytesValue is not Base64"),
        (spans(attributes=[{"key": "a", "value": {"boolValue": 1}}]), "boolValue is not true or false"),
    ],
)
def test_what_is_not_the_message_is_named(body: bytes, said: str) -> None:
    with pytest.raises(NotOtlpError, match=said):
        encode("traces", body)


@pytest.mark.parametrize("depth", [90, 100_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    value = '{"arrayValue":{"values":[' * depth + "{}" + "]}}" * depth
    body = f'{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"body":{value}}}]}}]}}]}}'
    unknown = b'{"x":' + b"[" * depth * 3 + b"]" * depth * 3 + b"}"
    with pytest.raises(NotOtlpError, match="nested more than 250 times"):
        encode("logs", unknown)
    with pytest.raises(NotOtlpError, match="nested more than 250 times"):
        encode("logs", body.encode())


def test_repeated_keys_keep_every_record_and_the_last_value() -> None:
    body = b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"a"}],"spans":[{"name":"b","name":"c"}]}]}]}'
    rows = rows_of("traces", REQUESTS["traces"].FromString(encode("traces", body)))
    assert [row["span_name"] for row in rows] == ["a", "c"]


@pytest.mark.parametrize("signal", SIGNALS)
def test_any_bytes_are_a_message_or_refused(signal: str) -> None:
    whole = as_json(request_of(signal, 5, records=3))
    for at in range(0, len(whole), max(1, len(whole) // 300)):
        for body in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :]):
            try:
                REQUESTS[signal].FromString(encode(signal, body))
            except NotOtlpError:
                continue
            assert len(body) == len(whole)
